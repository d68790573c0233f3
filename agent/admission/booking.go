package admission

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/execd-project/execd/cell/requests"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/limits/topology"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/submit"
)

// Booking is a job, or one task of an array job, with its resources on this host. It can be stored
// as JSON, and booked again after a restart.
type Booking struct {
	ID job.ID `json:"id"`
	// Owner is the login name, Group the primary group on the submit host.
	Owner string `json:"owner"`
	Group string `json:"group,omitempty"`
	// Project is the project of the job if it did not request one (user(5), default_project).
	Project string          `json:"project,omitempty"`
	Request *submit.Request `json:"request"`

	PE     string  `json:"pe,omitempty"` // name of the parallel environment; empty for a serial job
	Grants []Grant `json:"grants"`       // of this host, that of the master task first
	// Elsewhere is the number of slots on other hosts. Slave says that the master task is
	// there, too.
	Elsewhere int       `json:"elsewhere,omitempty"`
	Slave     bool      `json:"slave,omitempty"`
	Started   time.Time `json:"started"`
}

// Grant is a queue instance of this host with the number of slots that a job has there.
type Grant struct {
	Queue string `json:"queue"`
	Slots int    `json:"slots"`
	// Names are the elements of resource maps that were granted to the job, by complex.
	Names map[string][]string `json:"names,omitempty"`
	// Cores are the cores assigned to the job, in the first grant; empty if this host chooses them.
	// They are booked only if the scheduler considers cores (sched_conf(5), BINDING_AWARE).
	Cores []topology.Pair `json:"cores,omitempty"`
}

// RefusedError says why a job does not fit: one reason for each place, in the words of qstat -j.
type RefusedError struct{ Reasons []string }

func (e *RefusedError) Error() string { return strings.Join(e.Reasons, "; ") }

func refused(format string, args ...any) error {
	return &RefusedError{Reasons: []string{fmt.Sprintf(format, args...)}}
}

// requests returns the requests that the scheduler matches on this host. Soft requests are left
// out: they only matter for the choice of a host.
func (b *Booking) requests() *scheduler.Requests {
	project := b.Project
	if project == "" {
		project = b.Request.Project
	}
	r := requests.Of(b.Owner, b.Group, project, b.Request)
	r.Soft, r.SoftQueues = nil, ""
	return r
}

func (b *Booking) check() error {
	switch {
	case b.Request == nil:
		return fmt.Errorf("cannot place job %s: it has no request", b.ID)
	case len(b.Grants) == 0:
		return fmt.Errorf("cannot place job %s: it has no queue instance of this host", b.ID)
	}
	for _, g := range b.Grants {
		if g.Slots < 1 {
			return fmt.Errorf("cannot place job %s: it has %d slots of queue %q, expected at least 1", b.ID, g.Slots, g.Queue)
		}
	}
	return nil
}

// running converts a booking into a running task of the scheduler.
func (w *world) running(b *Booking, c *scheduler.Category, pe scheduler.PEID) (*scheduler.Running, error) {
	r := &scheduler.Running{
		Job:  &scheduler.Job{ID: uint32(b.ID.Job), Category: c, Owner: b.Owner},
		Task: uint32(b.ID.TaskDir()), Started: b.Started.Unix(), PE: pe,
		Away: scheduler.Away{Slots: b.Elsewhere, Master: b.Slave},
	}
	var names []map[string][]string
	for _, g := range b.Grants {
		id, ok := w.model.Instance(g.Queue, w.host)
		if !ok {
			return nil, refused("there is no queue instance %q", g.Queue+"@"+w.host)
		}
		r.Grants = append(r.Grants, scheduler.Grant{Instance: id, Slots: g.Slots, Cores: slices.Clone(g.Cores)})
		names = append(names, maps.Clone(g.Names))
	}
	if unknown := w.model.SetNames(r, names); len(unknown) > 0 {
		return r, refused("it has been given elements of resources that do not exist: %s", strings.Join(unknown, ", "))
	}
	return r, nil
}

// resolve returns the category of a job and its parallel environment according to the configuration.
func (w *world) resolve(b *Booking) (*scheduler.Category, scheduler.PEID, error) {
	c, err := w.model.Category(b.requests())
	if err != nil {
		return nil, scheduler.None, &RefusedError{Reasons: []string{err.Error()}}
	}
	pe, ok := w.environment(b)
	if !ok {
		return nil, scheduler.None, refused("there is no parallel environment %q", b.PE)
	}
	return c, pe, nil
}

// environment returns the parallel environment of a job, None for a serial one. ok is false if the
// configuration does not have the environment.
func (w *world) environment(b *Booking) (pe scheduler.PEID, ok bool) {
	if b.PE == "" {
		return scheduler.None, true
	}
	if pe, ok := w.model.PE(b.PE); ok {
		return pe, true
	}
	return scheduler.None, false
}

// resolveRunning returns the category and the environment with which to book a running job, whose
// objects may have been removed from the configuration since its start. It ignores requested queues
// that were removed. If another object was removed, the category contains the remaining requests,
// and missing is an error that names the object. c is nil if no category can be made.
func (w *world) resolveRunning(b *Booking) (c *scheduler.Category, pe scheduler.PEID, missing error) {
	c, pe, missing = w.resolve(b)
	if missing == nil {
		return c, pe, nil
	}
	r := b.requests()
	r.Queues, r.MasterQueues = "", ""
	pe, ok := w.environment(b)
	if c, err := w.model.Category(r); err == nil && ok {
		return c, pe, nil
	}
	r.Hard = slices.DeleteFunc(r.Hard, func(l qconf.Setting) bool {
		_, err := w.model.Category(&scheduler.Requests{User: r.User, Group: r.Group, Hard: []qconf.Setting{l}})
		return err != nil
	})
	if c, err := w.model.Category(r); err == nil {
		return c, pe, missing
	}
	r.PE = ""
	c, err := w.model.Category(r)
	if err != nil {
		return nil, scheduler.None, fmt.Errorf("cannot book job %s: %w", b.ID, err)
	}
	return c, pe, missing
}
