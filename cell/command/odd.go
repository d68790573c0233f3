package command

import (
	"slices"
	"strconv"

	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/scheduler/rangelist"
	"github.com/execd-project/execd/submit"
)

// warnOdd warns a user at a terminal about oddities of a submitted job. Scripts get the same output
// as from Grid Engine.
func (x *call) warnOdd(id uint32) {
	j := x.cell.Job(id)
	if !x.in.Terminal || j == nil {
		return
	}
	if text := submit.OddScript(j.Request().Script); text != "" {
		x.warn("warning: %s", text)
	}
	x.warnSmall(j.Request())
	x.warnUnsuitable(j)
}

// warnSmall warns of memory that was requested without a unit, which is in bytes.
func (x *call) warnSmall(r *submit.Request) {
	for _, s := range r.Resources {
		c, ok := x.cell.Cluster().Complexes().Find(s.Name)
		if !ok || c.Type != qconf.ComplexMemory {
			continue
		}
		const small = 1 << 16 // as many megabytes would be much, and as many bytes are nothing
		if n, err := strconv.Atoi(s.Value); err == nil && n > 0 && n < small {
			x.warn("warning: -l %s=%s is %s bytes: did you mean %sG, or %sM?", s.Name, s.Value, s.Value, s.Value, s.Value)
		}
	}
}

// warnUnsuitable warns a user at a terminal if a job cannot start anywhere with the current
// configuration, even on an empty cluster (as -w v does). It does not warn about jobs that can
// start later.
func (x *call) warnUnsuitable(j *cell.Job) {
	if j.Problem != "" || j.Request().Validation != submit.ValidateNone || slices.Contains(x.in.Args, "-w") {
		return
	}
	s := j.Scheduled()
	if s.Category == nil || j.Waiting.IsEmpty() {
		return
	}
	if s.Tasks.IsEmpty() { // it waits for other jobs or for its time
		s.Tasks = j.Waiting
		defer func() { s.Tasks = rangelist.List{} }()
	}
	reasons, ok := x.cell.State().Verify(s, scheduler.EmptyCluster, x.now)
	if ok {
		return
	}
	x.warn("warning: no queue can ever run job %d as the cluster is configured; qalter changes what it asks for, qdel removes it", j.ID())
	const most = 4
	for i := range reasons[:min(len(reasons), most)] {
		x.warn("warning: job %d %s", j.ID(), reasons[i].Text())
	}
}
