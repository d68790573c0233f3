package standalone

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/execd-project/execd/agent"
	agentapi "github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/agent/api/serve"
	"github.com/execd-project/execd/agent/daemon"
	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/internal/clock"
	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/standalone/api"
	"github.com/execd-project/execd/standalone/store"
	"github.com/execd-project/execd/standalone/verifier"
)

// storeFile is the store of the cell in the spool area.
const storeFile = "cell.db"

// ownPrefix begins the keys of records that do not belong to package cell; keyID is the key of the
// name of this cell.
const (
	ownPrefix = "standalone/"
	keyID     = ownPrefix + "id"
)

// Master is the master of a cell with one host. Only the goroutine of Run changes its state.
type Master struct {
	host  *daemon.Host
	log   hclog.Logger
	clock clock.Clock
	store *store.Store
	// scripts are the texts outside of the store.
	scripts *kept
	boot    string // of this process
	id      string // of the cell: begins the keys of its starts

	events   chan func()
	stopped  chan struct{} // closed when Run ends
	commands agent.Commands
	context  context.Context //nolint:containedctx // the life of Run

	cell        *cell.Cell
	version     string                       // of the configuration that the cell has
	refusing    bool                         // the cell knows why the host takes no jobs
	loads       map[string]map[string]string // reported load values, by host and name
	runs        map[string]*run              // starts of tasks that have not ended, by key
	changing    *callLimiter                 // of commands, by user
	showing     *callLimiter                 // for commands that only show something
	verifying   *callLimiter                 // of jobs that the verifier of the site looks at
	verifier    *verifier.Server             // jsv_url of sge_conf(5)
	waiting     *callLimiter                 // for connections that wait for news
	deleted     sync.Map                     // USER@HOST of the qdel that ends a run, by job.ID
	foreign     map[string]bool              // jobs of other masters that have been logged, by key
	orders      agentCalls
	ends        ends
	feeds       feeds
	checkpoints checkpoints
	terminals   map[uint32]*launch.Interactive // of interactive jobs, by number
	seen        answers                        // of commands that may be repeated
	batch       batch                          // for the next commit
	trail       trail
	news        *news
	recent      recent
	pace        pace
	reports     context.CancelFunc // ends the goroutine that takes reports
	broken      error              // why the last commit failed
	spoiled     error              // the reason why the cell must be loaded again
}

// New returns a master that continues with the state of a previous one in the spool area of its
// host. It uses c for all times and timeouts.
func New(h *daemon.Host, c clock.Clock) (*Master, error) {
	m := &Master{
		host: h, log: h.Log, clock: c, events: make(chan func()), stopped: make(chan struct{}),
		loads: map[string]map[string]string{}, runs: map[string]*run{}, foreign: map[string]bool{},
		changing: newCallLimiter(changing), showing: newCallLimiter(showing), waiting: newCallLimiter(waiting), verifying: newCallLimiter(1),
		ends: newEnds(), feeds: feeds{}, boot: rand.Text(),
	}
	m.verifier = verifier.NewServer(m.verifierSays)
	m.startMessages()
	var err error
	if m.store, err = store.Open(filepath.Join(h.Spool, storeFile)); err != nil {
		return nil, err
	}
	m.makeCellDir()
	m.scripts = newKept(h.Spool)
	m.store.Report(func(err error) { m.log.Warn("the store reports an error", "error", err) })
	m.seen = newAnswers(m.read)
	if err := m.open(); err != nil {
		return nil, errors.Join(err, m.store.Close())
	}
	return m, nil
}

// open reads the state of a previous master.
func (m *Master) open() error {
	id, err := m.read(keyID)
	if err != nil {
		return err
	}
	if m.id = string(id); m.id == "" {
		m.id = strings.ToLower(rand.Text()[:8])
		if err := m.store.Commit([]store.Change{{Key: keyID, Value: []byte(m.id)}}); err != nil {
			return err
		}
	}
	for key, value := range m.store.All(answerPrefix) {
		if err := m.seen.restore(key, value); err != nil {
			m.log.Warn("cannot restore an answer", "record", key, "error", err)
		}
	}
	if err := m.restoreTrail(); err != nil {
		return err
	}
	cluster, err := m.host.Read()
	if err != nil {
		return err
	}
	if err := m.restore(cluster); err != nil {
		return err
	}
	if err := m.moveScripts(cluster); err != nil {
		return err
	}
	m.awaitAgain()
	return nil
}

// read returns the record with a key; nil for none.
func (m *Master) read(key string) ([]byte, error) {
	for found, value := range m.store.All(key) {
		if found == key {
			return value, nil
		}
		break // the next ones are longer
	}
	return nil, m.store.Err()
}

// restore makes the cell from the records of the store.
func (m *Master) restore(cluster *qconf.Cluster) error {
	m.scripts.forget()
	records := func(yield func(string, []byte) bool) {
		for key, value := range m.store.All("") {
			m.scripts.note(key, value)
			if !strings.HasPrefix(key, ownPrefix) && !yield(key, value) {
				return
			}
		}
	}
	m.restoreCheckpoints()
	m.restoreRecent()
	m.restoreTerminals()
	var problems []error
	m.cell, problems = cell.Restore(m.now(), cluster, m.options(), records)
	if err := m.store.Err(); err != nil {
		return err // a part of the state would be lost
	}
	m.restoreMessages()
	if err := m.scripts.sweep(); err != nil {
		m.log.Warn("cannot remove unused scripts", "error", err)
	}
	for _, p := range append(problems, m.cell.Problems()...) {
		m.log.Warn("a part of the cell is ignored", "error", p)
	}
	return nil
}

// options returns the options of the cell. If the daemon does not run as root, its user is a
// manager.
func (m *Master) options() cell.Options {
	managers := m.host.Managers
	if uid := os.Getuid(); !m.host.Users {
		if me, err := userdb.System().UserID(uint32(uid)); err == nil {
			managers = append(slices.Clone(managers), me.Name)
		} else {
			m.log.Warn("the user of this daemon is not its manager", "uid", uid, "error", err)
		}
	}
	return cell.Options{Zone: time.Local, Managers: managers, Unexplained: true, SeparateScripts: true}
}

// Name returns "standalone".
func (m *Master) Name() string { return "standalone" }

// Methods are the calls of users on the socket.
func (m *Master) Methods() map[string]serve.Method {
	const most = 64 << 20 // of a script, above all
	return map[string]serve.Method{
		api.PathCommand: {Body: most, Do: m.serveCommand, Summary: "Carry out a command of Grid Engine.", In: api.CommandRequest{}, Out: api.CommandAnswer{}},
		api.PathWait:    {Do: m.serveWait, Summary: "Wait for the ends of the tasks of a job.", In: api.WaitRequest{}, Out: api.WaitAnswer{}},
		api.PathPlaces:  {Do: m.servePlaces, Summary: "Show where the files are that users read themselves.", In: agentapi.Empty{}, Out: api.PlacesAnswer{}},
		api.PathRecent:  {Do: m.serveRecent, Summary: "Show the latest events, and the use of the host over the last day.", In: agentapi.Empty{}, Out: api.RecentAnswer{}},
		api.PathNames:   {Do: m.serveNames, Summary: "Show names that complete a command line.", In: api.NamesRequest{}, Out: api.NamesAnswer{}},
		api.PathEnds:    {Do: m.serveEnds, Summary: "Wait for the ends of the jobs of the caller.", In: api.EndsRequest{}, Out: api.EndsAnswer{}},
		api.PathStates:  {Body: most, Do: m.serveStates, Summary: "Show the states of jobs.", In: api.StatesRequest{}, Out: api.StatesAnswer{}},
	}
}

// Close closes the store.
func (m *Master) Close() error { return m.store.Close() }

// now returns the time in seconds since 1970.
func (m *Master) now() int64 { return m.clock.Now().Unix() }

// errEnds is the error for calls after the master has begun to stop.
var errEnds = errors.New(api.Ending)

// do runs a function in the goroutine of Run, and waits until it has begun.
func (m *Master) do(ctx context.Context, event func()) error {
	select {
	case m.events <- event:
		return nil
	case <-m.stopped:
		return errEnds
	case <-ctx.Done():
		return ctx.Err()
	}
}

// gathering is for how long events are taken that then share a commit.
const gathering = 50 * time.Millisecond

// Run runs the master until the context ends. In a loop it handles events, makes a scheduling run
// if a start may have become possible, commits the changes, and sends the answers and orders that
// follow from them.
func (m *Master) Run(ctx context.Context, c agent.Commands) error {
	defer close(m.stopped)
	ctx, cancel := context.WithCancel(ctx)
	var beside sync.WaitGroup
	defer func() {
		cancel()
		beside.Wait()
		m.orders.wait()
		m.verifier.Close()
		m.endMessages()
	}()
	m.context, m.commands = ctx, c
	m.version = c.Health().Configuration
	if m.host.Keep != nil {
		beside.Go(func() { m.keepSubmissions(ctx) })
	}
	beside.Go(func() { m.messagePending(ctx) })
	m.resume()
	m.follow(m.cell.Tick(m.now()).Actions)
	m.pace.demand()
	for {
		m.schedule()
		if err := m.commit(); err != nil {
			return err
		}
		timer := m.clock.NewTimer(m.waitForTrail(m.pace.wait(m.cell, m.clock.Now())))
		select {
		case event := <-m.events:
			event()
			m.further()
		case <-timer.C():
			m.follow(m.cell.Tick(m.now()).Actions)
		case <-ctx.Done():
			timer.Stop()
			m.saveSamples()
			err := m.commit()
			m.endTrail()
			return err
		}
		timer.Stop()
	}
}

// further takes the events that are there already.
func (m *Master) further() {
	for end := m.clock.Now().Add(gathering); m.clock.Now().Before(end); {
		select {
		case event := <-m.events:
			event()
		default:
			return
		}
	}
}

// schedule makes a scheduling run, if one is due.
func (m *Master) schedule() {
	now := m.clock.Now()
	if !m.pace.due(m.cell, now) {
		return
	}
	// The cell then records why jobs are pending, and starts none.
	if m.commands.Health().Draining != "" && !m.refusing {
		m.pace.postpone(now, drainPause)
		return
	}
	r := m.cell.Schedule(now.Unix())
	for _, p := range r.Problems {
		m.log.Warn("a task cannot be started", "error", p)
	}
	for _, i := range r.Immediate {
		m.answerImmediate(i)
	}
	m.follow(r.Actions)
	m.giveTickets(r.Decisions)
	m.pace.ran(now, m.clock.Now())
}
