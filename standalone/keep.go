package standalone

import (
	"errors"
	"fmt"
	"time"

	"github.com/execd-project/execd/agent"
	"github.com/execd-project/execd/agent/audit"
	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/internal/clock"
	"github.com/execd-project/execd/internal/failpoint"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/standalone/store"
)

// batch holds the changes, answers and calls for the next commit.
type batch struct {
	answers    []func(err error)
	immediates map[uint32]*answer // to jobs with -now y, which wait for a scheduling run
	actions    []cell.Action
	starts     []starting     // for each StartTask of actions
	scripts    []cell.Change  // whose texts are stored outside of the store
	records    []store.Change // of the master itself
	acks       []ack
	answered   []*answer // to commands that change something
	// Changes that the audit log has already taken from the cell: the changes, the last value of
	// each record, and their size in bytes; and the audit records of the commands that made them.
	changes []store.Change
	latest  map[string][]byte
	size    int64
	audit   []*audit.Record
}

// ack is the end of a job that has arrived.
type ack struct {
	id     job.ID
	number uint64
	later  bool // its last words are still to be read
}

func (b *batch) acknowledge(r *agent.JobReport, later bool) {
	b.acks = append(b.acks, ack{r.ID, r.Number, later})
}

// lastWords is the time for which users can still attach to the terminal of a finished job.
const lastWords = 30 * time.Second

// commit makes the changes durable, and then sends the answers and orders. If it fails, the cell is
// loaded from the store again, and the waiting commands get the error. commit itself returns only
// errors after which the master cannot continue.
func (m *Master) commit() error {
	changes := append(m.batch.changes, m.taken()...)
	var (
		err     error
		written bool
	)
	ofAudit, lines, auditKey := m.auditChanges()
	changes = append(append(changes, m.batch.records...), m.messageRecords()...)
	if len(lines) > 0 || len(changes) > 0 {
		changes = append(changes, ofAudit...)
	}
	if m.spoiled != nil {
		err, m.spoiled = m.spoiled, nil
	} else if len(changes) > 0 || len(m.batch.answered) > 0 {
		changes = append(changes, m.seen.changes(m.batch.answered, m.clock.Now())...)
		if err = m.scripts.write(m.batch.scripts); err == nil {
			failpoint.At("standalone-commit")
			err = m.store.Commit(changes)
		}
		if err != nil {
			err = fmt.Errorf("nothing was changed: %w", err)
		}
		written = err == nil
		failpoint.At("standalone-committed")
	}
	b := m.batch
	m.batch = batch{immediates: b.immediates}
	if err != nil {
		m.auditFailed(b.audit, err)
		m.batch = batch{}
		for _, x := range b.answered {
			if !x.durable {
				m.seen.forget(x)
			}
		}
		for _, x := range b.immediates {
			if x.durable { // its job is still there
				m.batch.await(x)
			} else {
				b.answers = append(b.answers, x.finish)
			}
		}
		return m.back(err, b.answers)
	}
	for _, x := range b.answered {
		x.durable = true
	}
	if written {
		m.mended()
		m.auditCommitted(lines, auditKey, len(b.audit), ofAudit)
	}
	for _, answer := range b.answers {
		answer(nil)
	}
	if written {
		m.seen.committed(b.answered)
		if err := m.scripts.committed(changes); err != nil {
			m.log.Warn("cannot remove unused scripts", "error", err)
		}
	}
	m.acknowledge(b.acks)
	m.act(b.actions, b.starts)
	m.ends.sweep(m.cell, m.clock.Now())
	m.feeds.left(changes, m.clock.Now())
	m.messagesCommitted(changes)
	m.forgetTerminals()
	return nil
}

// acknowledge tells the agent which ends have arrived. The agent writes that down; the master does
// not wait for it.
func (m *Master) acknowledge(list []ack) {
	tell := func(a ack) {
		if err := m.commands.AcknowledgeJob(m.context, a.id, a.number); err != nil && m.context.Err() == nil {
			m.log.Error("the agent refused an acknowledgement", "job", a.id.String(), "error", err)
		}
	}
	var now []ack
	for _, a := range list {
		if a.later {
			m.orders.workers.Go(func() {
				if clock.Wait(m.context, m.clock, lastWords) {
					tell(a)
				}
			})
		} else {
			now = append(now, a)
		}
	}
	if len(now) > 0 {
		m.orders.workers.Go(func() {
			for _, a := range now {
				tell(a)
			}
		})
	}
}

// back loads the state from the store again.
func (m *Master) back(err error, answers []func(error)) error {
	if m.broken == nil {
		m.log.Error("the state of the cell cannot be written", "error", err)
	}
	m.broken = err
	for _, answer := range answers {
		answer(err)
	}
	if e := m.restore(m.host.Cluster()); e != nil {
		return errors.Join(err, e)
	}
	for id, j := range m.ends.jobs {
		if m.cell.Job(id) == nil && !j.gone {
			j.wake()
			delete(m.ends.jobs, id)
		}
	}
	clear(m.loads)
	m.pace.postpone(m.clock.Now(), refusalPause)
	m.resume()
	m.commands.FullReport()
	return nil
}

// writable returns the reason why the store cannot be written, if the last write failed and a new
// attempt fails, too.
func (m *Master) writable() error {
	if m.broken == nil {
		return nil
	}
	if err := m.store.Commit([]store.Change{{Key: keyID, Value: []byte(m.id)}}); err != nil {
		return fmt.Errorf("nothing was changed: %w", err)
	}
	m.mended()
	return nil
}

// mended notes that a commit has succeeded.
func (m *Master) mended() {
	if m.broken != nil {
		m.log.Info("the state of the cell can be written again")
		m.broken = nil
	}
}

// taken returns the changes of the cell since its previous call. It puts the texts of scripts into
// the batch.
func (m *Master) taken() []store.Change {
	changes := m.cell.Changes()
	for _, c := range changes {
		if c.Script != nil {
			m.batch.scripts = append(m.batch.scripts, c)
			m.batch.size += int64(len(c.Script))
		}
	}
	return translate(changes)
}

func translate(changes []cell.Change) []store.Change {
	list := make([]store.Change, len(changes))
	for i, c := range changes {
		list[i] = store.Change{Key: c.Key, Value: c.Value}
	}
	return list
}
