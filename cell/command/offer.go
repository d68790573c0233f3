package command

import (
	"slices"
	"strings"

	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/internal/printer"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/qstat"
	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/scheduler/value"
)

// typeWords are the types of values in the words of messages.
var typeWords = map[value.Type]string{value.Int: "integer", value.Double: "double", value.Memory: "memory", value.Time: "time", value.Bool: "boolean"}

// wanted reads the values of -l of qstat, qselect and qhost. If a resource or a host is unknown, or
// a value does not fit its type, ok is false, and problem says why.
func (x *call) wanted(texts []string) (w *scheduler.Wanted, problem string, ok bool) {
	var settings []qconf.Setting
	m := x.cell.Model()
	for _, text := range texts {
		for _, item := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(", \t", r) }) {
			name, text, given := strings.Cut(item, "=")
			if !given {
				text = "TRUE"
			}
			c, ok := x.cell.Cluster().Complexes().Find(name)
			if !ok {
				return nil, printer.Message("unknown resource %q", name), false
			}
			id, ok := m.Attribute(c.Name)
			if !ok {
				return nil, printer.Message("unknown resource %q", name), false
			}
			kind := m.Attributes()[id].Type
			_, err := value.Parse(kind, text)
			if err != nil && typeWords[kind] != "" {
				return nil, printer.Message("attribute %q is not a %s value", c.Name, typeWords[kind]), false
			}
			if c.Name == "hostname" && !x.cell.MayBeHost(text) {
				return nil, printer.Message("can't resolve hostname %q", text), false
			}
			settings = append(settings, qconf.Setting{Name: c.Name, Value: text})
		}
	}
	return m.Wanted(settings), "", true
}

// places finds the queue instances under which pending jobs are shown.
type places struct {
	call      *call
	instances []scheduler.InstanceID
	known     map[*scheduler.Category]bool
}

// placesOf returns the queue instances that are shown.
func (x *call) placesOf(queues []qstat.QueueInstance) *places {
	p := &places{call: x, known: map[*scheduler.Category]bool{}}
	for i := range queues {
		if id, ok := x.cell.Model().Instance(queues[i].Queue, queues[i].Host); ok {
			p.instances = append(p.instances, id)
		}
	}
	return p
}

// mayHave reports whether a pending job is shown with any of the queue instances: the instance has
// the resources that the job requests with -l, lists its project, and is named by its -q. As in
// Grid Engine, patterns in -q match nothing here, and access lists and parallel environments do not
// count (tested).
func (p *places) mayHave(j *cell.Job) bool {
	category := j.Scheduled().Category
	may, ok := p.known[category]
	if !ok {
		r := category.Requests()
		resources := category.Resources()
		may = slices.ContainsFunc(p.instances, func(id scheduler.InstanceID) bool {
			s := p.call.cell.Model().Settings(id)
			return (r.Project == "" || slices.Contains(s.Projects, r.Project) && !slices.Contains(s.XProjects, r.Project)) &&
				named(r.Queues, s.Queue, p.call.cell.Model().InstanceName(id)) && p.call.cell.State().Offered(resources, id)
		})
		p.known[category] = may
	}
	return may
}

// named reports whether a list of queues, as in -q, contains the name of a queue or of its instance.
// An empty list contains all.
func named(list, queue, instance string) bool {
	if list == "" {
		return true
	}
	return slices.ContainsFunc(strings.Split(list, ","), func(name string) bool { return name == queue || name == instance })
}
