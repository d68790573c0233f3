package replay

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/execd-project/execd/cell/view"
	"github.com/execd-project/execd/qstat"
	"github.com/execd-project/execd/scheduler/quota"
)

// printer prints a file of a capture. It is nil where there is nothing to print.
type printer func(p *player, v *view.View, step string) []byte

// printed are the files that every capture has, by name.
var printed = map[string]printer{
	"qstat.txt":      list(qstat.Options{}),
	"qstat-ext.txt":  list(qstat.Options{Extended: true}),
	"qstat-urg.txt":  list(qstat.Options{Urgency: true}),
	"qstat-pri.txt":  list(qstat.Options{Priorities: true}),
	"qstat-gt.txt":   list(qstat.Options{EachSlot: true}),
	"qstat-gd.txt":   list(qstat.Options{EachTask: true}),
	"qstat-f.txt":    list(qstat.Options{Full: true, Explain: "aAcE"}),
	"schedinfo.txt":  (*player).schedulingInfo,
	"slots-used.txt": (*player).slotsUsed,

	"qstat-explain-c.txt":    list(qstat.Options{Explain: "c"}),
	"qquota.txt":             (*player).quotas,
	"qquota-per-user.txt":    (*player).quotasPerUser,
	"schedule-all.txt":       (*player).schedules,
	"schedule-first-run.txt": (*player).schedules,
}

// print writes the files of a step.
func (p *player) print(step string) error {
	v := view.New(p.cell, p.seconds())
	names := slices.Clone(p.known.files[step])
	for name := range printed {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		print, ok := printed[name]
		if !ok {
			print, ok = p.special(name)
		}
		if !ok {
			continue
		}
		text := print(p, v, step)
		if len(text) == 0 && !slices.Contains(p.known.files[step], name) {
			continue
		}
		if err := p.options.Write(path.Join(step, name), text); err != nil {
			return err
		}
	}
	return nil
}

// special are the files whose names say how the command was called.
func (p *player) special(name string) (printer, bool) {
	base := strings.TrimSuffix(name, ".txt")
	if rest, ok := strings.CutPrefix(base, "qquota-"); ok {
		option, value, _ := strings.Cut(rest, "-")
		s := quota.Selection{Users: []string{"*"}}
		switch option {
		case "u":
			s.Users = []string{value}
		case "P":
			s.Projects = []string{value}
		case "h":
			s.Hosts = []string{value}
		case "l":
			s.Resources = []string{value}
		case "q":
			s.Queues = []string{value}
		case "pe":
			s.PEs = []string{value}
		default:
			return nil, false
		}
		return func(_ *player, v *view.View, _ string) []byte { return qstat.AppendQuotas(nil, v.Quotas(s)) }, true
	}
	return nil, false
}

func list(o qstat.Options) printer {
	return func(p *player, v *view.View, _ string) []byte {
		o.Zone = p.options.Zone
		c := qstat.Cell{Jobs: v.Jobs(), Queues: v.Queues(view.None)}
		return c.AppendText(nil, o)
	}
}

// schedulingInfo is the end of qstat -j of all jobs that wait.
func (p *player) schedulingInfo(v *view.View, _ string) []byte {
	var b []byte
	for _, j := range p.cell.Jobs() {
		if view.Pending(j) {
			b = fmt.Appendf(b, "== job %d\n", j.ID())
			b = qstat.AppendSchedulingInfo(b, v.SchedulingInfo(j))
		}
	}
	return b
}

func (p *player) slotsUsed(v *view.View, _ string) []byte {
	var b []byte
	for _, q := range qstat.SortedQueues(v.Queues(view.None)) {
		b = fmt.Appendf(b, "%s %d/%d/%d\n", q.Name(), q.Reserved, q.Used, q.Total)
	}
	return b
}

func (p *player) quotas(v *view.View, _ string) []byte {
	return qstat.AppendQuotas(nil, v.Quotas(quota.Selection{Users: []string{"*"}}))
}

// quotasPerUser is qquota -u for each user that is known.
func (p *player) quotasPerUser(v *view.View, _ string) []byte {
	if len(p.cell.Cluster().ResourceQuotas()) == 0 {
		return nil
	}
	var b []byte
	for _, user := range p.cell.Cluster().UserNames() {
		b = append(b, "### qquota -u "+user+"\n"...)
		b = qstat.AppendQuotas(b, v.Quotas(quota.Selection{Users: []string{user}}))
	}
	return b
}

// schedules is what the first scheduling run wrote to the file schedule after queues had
// been enabled.
func (p *player) schedules(*view.View, string) []byte { return p.schedule1 }
