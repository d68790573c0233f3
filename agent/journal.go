package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"strconv"
	"strings"
	"sync"

	"github.com/execd-project/execd/jobdir"
)

// FileNumbers is the file of the spool area that says how often an agent was started there.
const FileNumbers = "incarnation"

// The other files of the spool area that are the agent's.
const (
	fileEpoch    = "epoch"    // largest epoch of a master
	fileDrain    = "drain"    // lines "source<TAB>reason"
	fileTurns    = "turns"    // the sequence number of the last order for the whole agent, by subject
	fileTickets  = "tickets"  // tickets of running jobs, by the keys of their starts
	fileFinished = "finished" // keys of jobs whose end was acknowledged
)

// journal is the agent's own state across restarts: the epoch of its master, the orders that it has
// carried out, and the reasons why it takes no jobs. The state of jobs is in their directories.
//
// It has locks of its own, so that a caller that only reads never waits for the disk.
type journal struct {
	root *jobdir.Dir
	disk *disk

	// writing serialises changes with their files. Because the disk may hang, its holder must hold
	// no other lock, except that of a sequence of orders.
	writing       sync.Mutex
	ticketsUnkept bool // the last write of the tickets failed; guarded by writing

	mu          sync.Mutex
	epoch, seen uint64              // the largest of a start, and of any other order
	turns       map[string]Sequence // of orders for the whole agent, by subject
	drains      map[string]string   // source: reason
}

// openJournal reads the files that the previous agent wrote.
func openJournal(root *jobdir.Dir, d *disk) (*journal, error) {
	j := &journal{root: root, disk: d, turns: map[string]Sequence{}, drains: map[string]string{}}
	read := func(name string, take func([]byte) error) error {
		b, err := root.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if err = take(b); err != nil {
			err = fmt.Errorf("%s/%s: %w", root.Path(), name, err)
		}
		return err
	}
	err := errors.Join(
		read(fileEpoch, func(b []byte) (err error) {
			j.epoch, err = strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
			return err
		}),
		read(fileDrain, func(b []byte) error {
			for line := range strings.Lines(string(b)) {
				if source, reason, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t"); ok {
					j.drains[source] = reason
				}
			}
			return nil
		}),
		read(fileTurns, func(b []byte) error { return json.Unmarshal(b, &j.turns) }),
	)
	j.seen = j.turns[ofMaster].Epoch
	return j, err
}

// write replaces a file of the agent durably. The caller holds writing.
func (j *journal) write(name string, text []byte) error {
	defer j.disk.begin("writing the file " + name)()
	err := j.root.WriteFile(name, text)
	if err == nil {
		err = j.root.Sync(name)
	}
	return err
}

// master returns the epoch of the master that the agent obeys.
func (j *journal) master() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return max(j.epoch, j.seen)
}

// checkStart refuses the start of a master that has been replaced.
func (j *journal) checkStart(epoch uint64) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if largest := max(j.epoch, j.seen); epoch < j.epoch || epoch > 0 && epoch < largest {
		return replaced(epoch, largest)
	}
	return nil
}

// raise refuses the start of a master that has been replaced, and remembers a new one.
func (j *journal) raise(epoch uint64) error {
	j.mu.Lock()
	known := epoch == j.epoch
	j.mu.Unlock()
	if err := j.checkStart(epoch); err != nil || known {
		return err
	}
	j.writing.Lock()
	defer j.writing.Unlock()
	if err := j.checkStart(epoch); err != nil {
		return err // while another call wrote
	}
	if err := j.write(fileEpoch, strconv.AppendUint(nil, epoch, 10)); err != nil {
		return roomError(err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.epoch = epoch
	return nil
}

// saw records the epoch of a master that has given an order other than a start.
func (j *journal) saw(epoch uint64) error {
	j.writing.Lock()
	defer j.writing.Unlock()
	j.mu.Lock()
	j.seen = max(j.seen, epoch)
	j.turns[ofMaster] = Sequence{Epoch: j.seen}
	j.mu.Unlock()
	return j.keepTurns()
}

// lastTurn returns the sequence number of the last order about a subject.
func (j *journal) lastTurn(what string) Sequence {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.turns[what]
}

// setTurn remembers the turn of an order that was carried out.
func (j *journal) setTurn(what string, t Sequence) error {
	j.writing.Lock()
	defer j.writing.Unlock()
	j.mu.Lock()
	j.turns[what] = t
	j.mu.Unlock()
	return j.keepTurns()
}

// keepTurns writes down the turns. The caller holds writing.
func (j *journal) keepTurns() error {
	j.mu.Lock()
	b, err := json.Marshal(j.turns)
	j.mu.Unlock()
	if err != nil {
		return err
	}
	return j.write(fileTurns, append(b, '\n'))
}

// drain sets the reason why a source wants the host to take no jobs, or with an empty reason
// removes it. It reports whether that is a change.
func (j *journal) drain(source, reason string) (changed bool, err error) {
	j.writing.Lock()
	defer j.writing.Unlock()
	drains := j.drained()
	if drains[source] == reason {
		return false, nil
	}
	if drains[source] = reason; reason == "" {
		delete(drains, source)
	}
	var text strings.Builder
	for _, s := range sortedKeys(drains) {
		text.WriteString(s + "\t" + drains[s] + "\n")
	}
	if err := j.write(fileDrain, []byte(text.String())); err != nil {
		return false, roomError(err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.drains = drains
	return true, nil
}

// drained returns the sources that have drained the host, each with its reason.
func (j *journal) drained() map[string]string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return maps.Clone(j.drains)
}

// setTickets writes the tickets that collect returns to the file, unless they are nil. It passes
// collect whether the last write failed. It does not sync the file: a master sends tickets
// again and again.
func (j *journal) setTickets(collect func(behind bool) map[string]given) error {
	j.writing.Lock()
	defer j.writing.Unlock()
	all := collect(j.ticketsUnkept)
	if all == nil {
		return nil
	}
	b, err := json.Marshal(all)
	if err == nil {
		end := j.disk.begin("writing the file " + fileTickets)
		err = j.root.WriteFile(fileTickets, append(b, '\n'))
		end()
	}
	j.ticketsUnkept = err != nil
	return err
}

// tickets reads the file of setTickets.
func (j *journal) tickets() (all map[string]given, err error) {
	b, err := j.root.ReadFile(fileTickets)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &all)
	}
	if err != nil {
		return nil, fmt.Errorf("%s/%s: %w", j.root.Path(), fileTickets, err)
	}
	return all, nil
}
