package replay

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/execd-project/execd/cell/view"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/qstat"
	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/scheduler/quota"
)

// printer formats a file of a capture. It returns nil if there is nothing to print.
type printer func(p *player, v *view.View, step string) []byte

// printed maps the names of files that every capture has to their printers.
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

	"qstat-explain-c.txt":    foreign(qstat.Options{Explain: "c"}),
	"qstat-F.txt":            foreign(qstat.Options{Resources: true}),
	"qhost-F.txt":            (*player).hosts,
	"qrstat.txt":             (*player).reservations,
	"qrstat-ar.txt":          (*player).reservationDetails,
	"qinstances.txt":         (*player).instances,
	"qinstance-slots.txt":    (*player).instanceSlots,
	"sge_share_mon.txt":      (*player).shares,
	"qquota.txt":             (*player).quotas,
	"qquota-per-user.txt":    (*player).quotasPerUser,
	"schedule-all.txt":       (*player).schedules,
	"schedule-first-run.txt": (*player).schedules,
	"schedule-last.txt":      (*player).lastSchedule,
}

// inOrder lists the files whose commands were run first, in their order. The commands of the other
// files were run after these.
var inOrder = []string{
	"qstat.txt", "qstat-ext.txt", "qstat-urg.txt", "qstat-pri.txt", "qstat-gt.txt", "qstat-f.txt", "slots-used.txt", "schedinfo.txt",
}

// print writes the files of a step, one after the other. The clock advances meanwhile.
func (p *player) print(step string) error {
	if err := p.printTime(step); err != nil {
		return err
	}
	names := slices.Clone(p.known.files[step])
	for name := range printed {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(p.known.files[step]) == 0 {
		names = append(append(names, p.quotaFiles()...), slices.Collect(maps.Keys(p.before))...)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b)) })
	for _, name := range names {
		f, ok := printed[name]
		if !ok {
			f, ok = p.special(name)
		}
		if !ok {
			continue
		}
		text := f(p, view.New(p.cell, p.seconds()), step)
		if p.typed(step, name) {
			p.advance(p.now + p.step)
		} else if len(text) == 0 {
			continue
		}
		if err := p.options.Write(path.Join(step, name), text); err != nil {
			return err
		}
	}
	return nil
}

// printTime writes the start of a step in seconds since 1970, to the file that the case has for it,
// or to the default file if the recording has no output for the step.
func (p *player) printTime(step string) error {
	names := p.known.files[step]
	if len(names) == 0 {
		names = []string{epochFile}
	}
	for _, name := range names {
		if !strings.HasPrefix(name, "epoch") {
			continue
		}
		if err := p.options.Write(path.Join(step, name), fmt.Appendf(nil, "%d\n", p.seconds())); err != nil {
			return err
		}
	}
	return nil
}

const epochFile = "epoch-at-capture.txt"

// quotaFiles returns the names of the quota views that a recording may contain.
func (p *player) quotaFiles() []string {
	c := p.cell.Cluster()
	if len(c.ResourceQuotas()) == 0 {
		return nil
	}
	var names []string
	add := func(option string, values []string) {
		for _, v := range values {
			names = append(names, "qquota-"+option+"-"+v+".txt")
		}
	}
	add("P", c.ProjectNames())
	add("h", p.in.hosts)
	add("q", c.QueueNames())
	add("pe", c.PENames())
	add("l", p.resources(""))
	return names
}

// rank returns the position of a file in the order of printing.
func rank(name string) int {
	if i := slices.Index(inOrder, name); i >= 0 {
		return i
	}
	return len(inOrder)
}

// typed reports whether the command of a file was run at a step, according to the recording.
func (p *player) typed(step, name string) bool {
	if len(p.known.files[step]) > 0 {
		return slices.Contains(p.known.files[step], name)
	}
	return slices.Contains(inOrder, name)
}

// special returns the printer of a file whose name contains the arguments of its command.
func (p *player) special(name string) (printer, bool) {
	base := strings.TrimSuffix(name, ".txt")
	if strings.HasSuffix(base, "-before") {
		text, ok := p.before[name]
		return func(*player, *view.View, string) []byte { return text }, ok
	}
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
		if p.alone {
			// For a job that runs alone, the recording shows only where it runs.
			c.Jobs = slices.DeleteFunc(c.Jobs, func(j qstat.Job) bool { return j.Tasks[0].Phase == qstat.Pending })
		}
		return c.AppendText(nil, o)
	}
}

// foreign lists queue instances as seen by a user without jobs.
func foreign(o qstat.Options) printer {
	return func(p *player, v *view.View, step string) []byte {
		o.Zone = p.options.Zone
		c := qstat.Cell{Queues: v.Queues(p.resources(step))}
		return c.AppendText(nil, o)
	}
}

func (p *player) hosts(v *view.View, step string) []byte {
	c := qstat.Cell{Hosts: v.Hosts(p.resources(step))}
	return c.AppendHosts(nil, qstat.HostOptions{Resources: true, Selected: true, Zone: p.options.Zone})
}

// resources returns the resources of -F: those in the recorded output or, if there is none, all
// that the configuration sets or hosts report, except for the fixed properties of hosts.
func (p *player) resources(step string) view.Selection {
	if names := p.known.resources[step]; len(names) > 0 {
		return names
	}
	names := view.Selection{}
	add := func(settings []qconf.Setting) {
		for _, s := range settings {
			if x, ok := p.cell.Cluster().Complexes().Find(s.Name); ok && !slices.Contains(names, x.Name) {
				names = append(names, x.Name)
			}
		}
	}
	c := p.cell.Cluster()
	for _, host := range slices.Sorted(maps.Keys(p.in.load)) {
		for _, name := range slices.Sorted(maps.Keys(p.in.load[host])) {
			if name != "num_proc" && name != "arch" && !strings.HasPrefix(name, "m_") {
				add([]qconf.Setting{{Name: name}})
			}
		}
	}
	add(c.GlobalHost().ComplexValues)
	for _, name := range c.HostNames() {
		if h, err := c.Host(name); err == nil {
			add(h.ComplexValues)
		}
	}
	for i := range p.cell.Model().Instances() {
		add(p.cell.Model().Settings(scheduler.InstanceID(i)).ComplexValues)
	}
	return names
}

func (p *player) reservations(v *view.View, _ string) []byte {
	return qstat.AppendReservations(nil, v.Reservations(), false, p.options.Zone)
}

func (p *player) reservationDetails(v *view.View, _ string) []byte {
	return qstat.AppendReservationDetails(nil, v.Reservations(), p.options.Zone)
}

// shares returns the output of sge_share_mon, once for each recorded call.
func (p *player) shares(v *view.View, step string) []byte {
	o := qstat.ShareOptions{Header: true, Zone: p.options.Zone}
	if len(p.known.samples[step]) == 0 {
		if rows := v.Shares(); rows != nil {
			return qstat.AppendShares(nil, [][]qstat.ShareRow{rows}, o)
		}
		return nil
	}
	var b []byte
	for _, at := range p.known.samples[step] {
		p.advance(at*1000 + 999)
		if rows := view.New(p.cell, at).Shares(); rows != nil {
			b = qstat.AppendShares(b, [][]qstat.ShareRow{rows}, o)
		}
	}
	return b
}

// instances returns the output of qconf -sq for the recorded queue instances.
func (p *player) instances(_ *view.View, step string) []byte {
	var b []byte
	for _, name := range p.known.instances[step] {
		queue, host, _ := strings.Cut(name, "@")
		if q, err := p.cell.Cluster().Queue(queue); err == nil {
			b = append(b, q.InstanceText(host, p.cell.Cluster().HostGroups()).Format(qconf.Wrapped)...)
		}
	}
	return b
}

// instanceSlots returns the lines of instances with attributes that hosts may set for themselves.
func (p *player) instanceSlots(v *view.View, step string) []byte {
	var b []byte
	for line := range strings.Lines(string(p.instances(v, step))) {
		name, _, _ := strings.Cut(line, " ")
		switch name {
		case "qname", "hostname", "slots", "user_lists", "xuser_lists":
			b = append(b, line...)
		}
	}
	return b
}

// schedulingInfo returns the end of the output of qstat -j for each pending job, one after the
// other.
func (p *player) schedulingInfo(_ *view.View, step string) []byte {
	var b []byte
	for _, j := range p.cell.Jobs() {
		if !view.Pending(j) {
			continue
		}
		b = fmt.Appendf(b, "== job %d\n", j.ID())
		b = qstat.AppendSchedulingInfo(b, view.New(p.cell, p.seconds()).SchedulingInfo(j))
		if p.typed(step, "schedinfo.txt") {
			p.advance(p.now + p.step)
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

// quotasPerUser returns the output of qquota -u for each known user.
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

// lastSchedule returns the entries that the last scheduling run wrote to the file schedule
// (sge_schedule(5)).
func (p *player) lastSchedule(v *view.View, _ string) []byte {
	if !p.cell.Cluster().Scheduler().Params.Monitor {
		return nil
	}
	return qstat.AppendSchedule(nil, v.Schedule())
}

// schedules returns the entries that the first scheduling run after queues were enabled wrote to
// the file schedule.
func (p *player) schedules(*view.View, string) []byte { return p.schedule1 }
