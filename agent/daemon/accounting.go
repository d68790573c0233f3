package daemon

import (
	"errors"

	"github.com/execd-project/execd/accounting"
	"github.com/execd-project/execd/agent"
	"github.com/execd-project/execd/job"
)

// jsonSuffix is the suffix of the file with JSON records, after the name of the other file.
const jsonSuffix = ".jsonl"

// books are the accounting files of this host: classic lines, and JSON.
type books struct{ classic, json *ledger }

func openBooks(path string) (*books, error) {
	b := &books{}
	var err error
	if b.classic, err = openLedger(path, jsonSuffix); err != nil {
		return nil, err
	}
	if b.json, err = openLedger(path + jsonSuffix); err != nil {
		return nil, errors.Join(err, b.classic.close())
	}
	return b, nil
}

// account writes the records of a finished job. again says that an agent that was killed may have
// written them already.
func (b *books) account(r *agent.Record, d *job.Description, o *job.Outcome, again bool) error {
	record := recordOf(r, d, o)
	return errors.Join(
		addOnce(b.classic, accounting.AppendClassic(nil, record), again),
		addOnce(b.json, accounting.AppendJSON(nil, record), again),
	)
}

// recordOf returns the accounting record of a job that has ended.
func recordOf(r *agent.Record, d *job.Description, o *job.Outcome) *accounting.Record {
	slots := 0
	for _, g := range r.Grants {
		slots += g.Slots
	}
	return accounting.FromOutcome(d, o, accounting.Facts{
		Group: r.Group, Department: r.Department, Category: r.Category, PE: r.PE, Slots: slots, Reservation: r.Reservation,
	})
}

func addOnce(l *ledger, line []byte, again bool) error {
	if again {
		if there, err := l.has(line); there || err != nil {
			return err
		}
	}
	return l.add(line)
}

// reopen opens the accounting files again by their names, after a tool such as logrotate has
// renamed them.
func (b *books) reopen() error {
	if b == nil {
		return nil
	}
	return errors.Join(b.classic.reopen(), b.json.reopen())
}

func (b *books) close() error {
	if b == nil {
		return nil
	}
	return errors.Join(b.classic.close(), b.json.close())
}
