package qconf

import (
	"fmt"
	"strings"
)

// checkReferences refuses names of objects that do not exist. It says nothing
// where the folder of these objects has errors of its own.
func (l *loader) checkReferences(c *Cluster) {
	for _, name := range sortedKeys(c.queues) {
		q := c.queues[name]
		refuse := func(attribute, value, what string) {
			l.errs = append(l.errs, q.errorAt(attribute, value, fmt.Sprintf("%s %q does not exist", what, value), ErrNotFound))
		}
		group := func(attribute, who string) {
			if strings.HasPrefix(who, "@") && !l.broken["hostgroups"] && c.groups.Group(who) == nil {
				refuse(attribute, who, "host group")
			}
		}
		for _, h := range q.Hosts {
			group("hostlist", h)
		}
		for _, e := range q.entries {
			for i, p := range e.parts {
				if i > 0 {
					group(e.name, p.who)
				}
				switch {
				case isWord(p.text, none):
				case e.name == "pe_list" && l.present["pes"] && !l.broken["pes"]:
					for _, pe := range words(p.text) {
						if c.pes[pe] == nil {
							refuse(e.name, pe, "parallel environment")
						}
					}
				case e.name == "ckpt_list" && l.present["ckpts"] && !l.broken["ckpts"]:
					for _, ckpt := range words(p.text) {
						if c.ckpts[ckpt] == nil {
							refuse(e.name, ckpt, "checkpointing environment")
						}
					}
				case e.name == "subordinate_list":
					l.checkSubordinates(c, q, p.text, refuse)
				}
			}
		}
	}
}

func (l *loader) checkSubordinates(c *Cluster, q *Queue, text string, refuse func(attribute, value, what string)) {
	sub, err := parseSubordination(text)
	if err != nil {
		l.errs = append(l.errs, q.errorAt("subordinate_list", text, err.Error(), err))
		return
	}
	for _, s := range sub.Queues {
		switch {
		case s.Queue == q.Name:
			l.errs = append(l.errs, q.errorAt("subordinate_list", s.Queue, fmt.Sprintf("queue %q cannot be its own subordinate", s.Queue), nil))
		case c.queues[s.Queue] == nil && !l.broken["queues"]:
			refuse("subordinate_list", s.Queue, "queue")
		}
	}
}
