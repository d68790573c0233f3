package scheduler

// ScheduleLine is a line of the schedule file (sched_conf(5), params, MONITOR): what a
// task uses, or will use, of a resource.
type ScheduleLine struct {
	Job, Task       uint32 // for an array job its task, else 1
	State           string // RUNNING, SUSPENDED, MIGRATING, STARTING or RESERVING
	Start, Duration int64
	Level           byte // P, G, H, Q or L: environment, global, host, queue instance, quota
	Object          string
	Resource        string
	Amount          float64
}

// Schedule are the lines of the schedule file for a run. It is empty where the
// configuration does not ask for them.
func (d *Decisions) Schedule() []ScheduleLine { return d.schedule }
