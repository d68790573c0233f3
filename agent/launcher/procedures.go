package launcher

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/job"
)

// Queue holds the settings of a queue instance of root's configuration for procedures of other users than the owner
// of a job.
type Queue struct {
	Name   string     `json:"name"`
	Prolog string     `json:"prolog,omitempty"` // of the queue, or else of the host
	Epilog string     `json:"epilog,omitempty"`
	Limits job.Limits `json:"limits"`
}

// PE holds the procedures of a parallel environment of root's configuration.
type PE struct {
	Name  string `json:"name"`
	Start string `json:"start,omitempty"`
	Stop  string `json:"stop,omitempty"`
}

// Ckpt is a checkpointing environment of root's configuration.
type Ckpt struct {
	Name string `json:"name"`
	Dir  string `json:"dir,omitempty"`
}

// procedure is a procedure of the site that a job has.
type procedure struct{ what, command string }

// otherUsers returns the procedures of a job that run as other users than the owner.
func otherUsers(d *job.Description) []procedure {
	list := []procedure{{"prolog", d.Prolog}, {"epilog", d.Epilog}}
	if d.PE != nil {
		list = append(list, procedure{"start_proc_args", d.PE.Start}, procedure{"stop_proc_args", d.PE.Stop})
	}
	return slices.DeleteFunc(list, func(p procedure) bool {
		user, _ := job.Procedure(p.command)
		return user == "" || user == d.Owner
	})
}

// remedy is what an administrator does about a procedure that is refused.
const remedy = "with --front-user, write it into the directory of --conf and start the daemon again"

// checkProcedures refuses procedures of other users than the owner, except those that root's configuration has for
// the queue and the parallel environment of the job.
func (r *Rules) checkProcedures(d *job.Description) error {
	list := otherUsers(d)
	if len(list) == 0 {
		return nil
	}
	var own Queue
	if q := r.Site.queue(d.Queue); q != nil {
		own = *q
	} else {
		return fmt.Errorf("%s %q runs as another user, and the queue %s is not in root's configuration: "+remedy, list[0].what, list[0].command, d.Queue)
	}
	var pe PE
	if d.PE != nil {
		i := slices.IndexFunc(r.Site.PEs, func(p PE) bool { return p.Name == d.PE.Name })
		if i < 0 {
			return fmt.Errorf("%s %q runs as another user, and the parallel environment %s is not in root's configuration: "+remedy, list[0].what, list[0].command, d.PE.Name)
		}
		pe = r.Site.PEs[i]
	}
	want := map[string]string{"prolog": own.Prolog, "epilog": own.Epilog, "start_proc_args": pe.Start, "stop_proc_args": pe.Stop}
	for _, p := range list {
		if p.command != want[p.what] {
			return fmt.Errorf("%s %q runs as another user than the owner and is not that of root's configuration: "+remedy, p.what, p.command)
		}
	}
	if c := d.Ckpt; c != nil && !slices.Contains(r.Site.Ckpts, Ckpt{c.Name, c.Dir}) {
		return fmt.Errorf("%s %q runs as another user, and the checkpointing environment %s with ckpt_dir %q is not in root's configuration: "+remedy, list[0].what, list[0].command, c.Name, c.Dir)
	}
	// The commands refuse such names. A submission of an accomplice of the front was not checked by a command.
	for _, n := range []procedure{{"job name", d.Name}, {"account", d.Account}} {
		if strings.Contains(n.command, "/") {
			return fmt.Errorf("%s %q runs as another user, and the %s %.200q has a /", list[0].what, list[0].command, n.what, n.command)
		}
	}
	return nil
}

// queue returns a queue of root's configuration; nil if it has none of this name.
func (s *Site) queue(name string) *Queue {
	i := slices.IndexFunc(s.Queues, func(q Queue) bool { return q.Name == name })
	if i < 0 {
		return nil
	}
	return &s.Queues[i]
}

// checkWords refuses names that no object of a configuration has. Procedures of other users get these names as
// arguments and variables, and may be shell scripts.
func checkWords(p *launch.Plan) error {
	d := p.Description
	words := []procedure{{"queue", d.Queue}, {"processors", d.Processors}}
	if d.PE != nil {
		words = append(words, procedure{"parallel environment", d.PE.Name})
	}
	if d.Ckpt != nil {
		words = append(words, procedure{"checkpointing environment", d.Ckpt.Name})
	}
	for _, h := range p.Hosts {
		words = append(words, procedure{"queue in pe_hostfile", h.Queue}, procedure{"processors in pe_hostfile", h.Processors})
	}
	for _, v := range d.Environment {
		if name, value, _ := strings.Cut(v, "="); launch.IsThing(name) {
			words = append(words, procedure{"variable", name}, procedure{name, strings.ReplaceAll(value, " ", "")})
		}
	}
	for _, w := range words {
		path := strings.Contains(w.command, "/") && !launch.IsThing(w.what) // an element of a resource map may be a path
		if path || strings.ContainsFunc(w.command, isSpecial) {
			return fmt.Errorf("%s %.200q has a character that names do not have", w.what, w.command)
		}
	}
	if d.Ckpt != nil && strings.ContainsRune(d.Ckpt.Dir, '\n') {
		return errors.New("ckpt_dir has two lines")
	}
	return nil
}

// isSpecial reports whether a character is a blank, a control character or special for a shell.
func isSpecial(r rune) bool {
	return r <= ' ' || r == 0x7f || strings.ContainsRune("$`\"'\\;&|<>()", r)
}
