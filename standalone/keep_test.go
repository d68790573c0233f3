package standalone

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/execd-project/execd/agent"
	"github.com/execd-project/execd/agent/audit"
	"github.com/execd-project/execd/agent/daemon"
	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/cell/command"
	"github.com/execd-project/execd/internal/clock"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/standalone/api"
	"github.com/execd-project/execd/standalone/store"
)

// testMaster returns a master with an empty cell and a store; what it logs goes to log.
func testMaster(t testing.TB) (m *Master, log *bytes.Buffer) {
	t.Helper()
	cluster, err := qconf.BuiltinOn("node1", 1)
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(filepath.Join(t.TempDir(), storeFile))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // some tests do so
	log = &bytes.Buffer{}
	m = &Master{host: &daemon.Host{}, scripts: newKept(t.TempDir()), clock: clock.System(), log: hclog.New(&hclog.LoggerOptions{Output: log}), store: s, id: "cell", ends: newEnds()}
	m.seen = newAnswers(m.read)
	m.cell, _ = cell.Restore(1, cluster, cell.Options{Managers: []string{"alice"}}, s.All(""))
	m.startMessages()
	m.restoreMessages()
	if err := m.commit(); err != nil { // of what a new cell has
		t.Fatal(err)
	}
	return m, log
}

// typed carries out a command of a manager. The answer comes with the next commit.
func (m *Master) typed(key, name string, args ...string) (x *answer, first bool) {
	x, first = m.seen.enter(newAnswer(key, time.Now()))
	if first {
		in := &command.Input{Name: name, Args: args, By: cell.Caller{User: "alice", Group: "users", Host: "node1"}, Dir: "/", Host: "node1"}
		m.command(&api.CommandRequest{Name: name, Args: api.Texts(args)}, in, x, audit.Caller{})
	}
	return x, first
}

// TestMended checks that the daemon reports that it can store the state again only after a commit
// that has written something.
func TestMended(t *testing.T) {
	const said = "can be written again"
	m, log := testMaster(t)
	m.broken = errors.New("no space left on device")
	if err := m.commit(); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(log.String(), said) || m.broken == nil {
		t.Errorf("nothing was written, and the disk may still be full: broken %v\n%s", m.broken, log)
	}
	m.batch.records = append(m.batch.records, store.Change{Key: ownPrefix + "x", Value: []byte("x")})
	for range 2 {
		if err := m.commit(); err != nil {
			t.Fatal(err)
		}
	}
	if strings.Count(log.String(), said) != 1 || m.broken != nil {
		t.Errorf("a record was written: broken %v\n%s", m.broken, log)
	}
}

// TestWritable checks that commands are refused while the disk is full, and that the first command
// after space is free again is carried out.
func TestWritable(t *testing.T) {
	m, log := testMaster(t)
	if err := m.writable(); err != nil || log.Len() > 0 {
		t.Errorf("before anything has failed: %v\n%s", err, log)
	}
	m.broken = errors.New("no space left on device")
	if err := m.writable(); err != nil || m.broken != nil || !strings.Contains(log.String(), "can be written again") {
		t.Errorf("there is room again: %v, broken %v\n%s", err, m.broken, log)
	}
	log.Reset()
	m.broken = errors.New("no space left on device")
	if err := m.store.Close(); err != nil {
		t.Fatal(err)
	}
	if err := m.writable(); err == nil || m.broken == nil || log.Len() > 0 {
		t.Errorf("nothing can be written: %v, broken %v\n%s", err, m.broken, log)
	}
}

// TestOldAnswers checks that an answer that is too old is removed together with its record, and is
// kept as long as the record cannot be removed.
func TestOldAnswers(t *testing.T) {
	m, _ := testMaster(t)
	if x, _ := m.typed("1 a", "qsub", "-h", "-b", "y", "true"); m.commit() != nil || !ready(x) {
		t.Fatal("no answer")
	}
	later := time.Now().Add(2 * keepAnswers)
	if list := m.seen.changes(nil, later); len(list) != 1 || list[0].Value != nil {
		t.Fatalf("%+v", list)
	}
	// That commit fails, and the next one is one of nothing.
	if err := m.commit(); err != nil {
		t.Fatal(err)
	}
	if _, first := m.typed("1 a", "qdel", "7"); first {
		t.Error("it is forgotten, and its record is still there")
	}
}

// TestAnswersOfTheFuture checks that an answer whose time is far in the future counts as too old:
// the clock was set back after it was given.
func TestAnswersOfTheFuture(t *testing.T) {
	now := time.Unix(1e9, 0)
	for name, c := range map[string]struct {
		at   time.Time
		over bool
	}{
		"of now": {now, false}, "of a while ago": {now.Add(-keepAnswers / 2), false}, "of long ago": {now.Add(-2 * keepAnswers), true},
		"of in a moment": {now.Add(time.Second), false}, "of next year": {now.AddDate(1, 0, 0), true},
	} {
		if got := (given{at: c.at.Unix()}).over(now); got != c.over {
			t.Errorf("an answer %s: %v", name, got)
		}
	}
}

// healthy is an agent of which nothing but its health is asked.
type healthy struct{ agent.Commands }

func (healthy) Health() agent.Health { return agent.Health{Configuration: "new"} }

// TestConfigurationThatIsChanged checks that a change of the configuration is on the disk before
// its effects on the cell, and that the user who made it learns so even if the effects cannot be
// stored.
func TestConfigurationThatIsChanged(t *testing.T) {
	m, _ := testMaster(t)
	m.commands = healthy{}
	var written []string
	m.host = &daemon.Host{
		Cluster: m.cell.Cluster,
		Change: func(files map[string][]byte) error {
			written = slices.Collect(maps.Keys(files))
			return nil
		},
	}
	x, _ := m.typed("1 a", "qconf", "-aattr", "queue", "slots", "2", "all.q")
	other, _ := m.typed("1 b", "qsub", "-b", "y", "-h", "true")
	if err := m.store.Close(); err != nil {
		t.Fatal(err)
	}
	if err := m.commit(); err == nil {
		t.Error("a store that is closed was written")
	}
	if a, err := x.given(); err != nil || !ready(x) || a.(*api.CommandAnswer).Exit != 0 || len(written) != 1 {
		t.Errorf("%v, %v, and written is %q", a, err, written)
	}
	if a, err := other.given(); err == nil {
		t.Errorf("a job that is not kept: %+v", a)
	}
}

// TestQuestionsAreNotKept checks that a question back to the client is not stored and takes no
// space on the disk: the daemon asks it again.
func TestQuestionsAreNotKept(t *testing.T) {
	m, _ := testMaster(t)
	for _, line := range []struct{ name, args string }{
		{"qconf", "-mq all.q"},
		{"qsub", "-jsv /bin/true -b y true"},
	} {
		x, _ := m.typed("0 "+line.name, line.name, strings.Fields(line.args)...)
		if err := m.commit(); err != nil || !ready(x) {
			t.Fatalf("%v", err)
		}
		if x.result.Edit == nil && x.result.Verify == nil {
			t.Errorf("%s %s asks for nothing: %+v", line.name, line.args, x.result)
		}
	}
	if n := len(m.seen.of) + len(m.seen.stored) + len(m.seen.user("0 ").order); n != 0 {
		t.Errorf("%d are kept", n)
	}
	for key := range m.store.All(answerPrefix) {
		t.Errorf("%q is kept", key)
	}
}

// TestAnswersToWhatChangesNothing checks that the answer to a command that changes nothing is not
// stored, also on a full disk: a repeated command is carried out again.
func TestAnswersToWhatChangesNothing(t *testing.T) {
	m, _ := testMaster(t)
	for i, line := range []string{
		"qdel 7", "qalter -p 1 7", "qsub -q nowhere -w e -b y true", "qmod -d nowhere", "qhold 7", "qsub -nonsense", "qconf -dq nowhere", "qrsub -d 1:0:0 -q nowhere",
	} {
		words, key := strings.Fields(line), fmt.Sprintf("0 %d", i)
		x, _ := m.typed(key, words[0], words[1:]...)
		if err := m.commit(); err != nil || !ready(x) || x.err != nil || x.result.Exit == 0 {
			t.Fatalf("%s: %+v, %v", line, x.result, err)
		}
		if _, first := m.typed(key, words[0], words[1:]...); !first {
			t.Errorf("%s is not carried out again", line)
		}
		if err := m.commit(); err != nil {
			t.Fatal(err)
		}
	}
	for key := range m.store.All(answerPrefix) {
		t.Errorf("%q is kept", key)
	}
	if n := len(m.seen.of) + len(m.seen.stored) + len(m.seen.users); n != 0 {
		t.Errorf("%d are kept", n)
	}
	// What has changed something is not done twice.
	x, _ := m.typed("0 qsub", "qsub", "-h", "-b", "y", "true")
	if err := m.commit(); err != nil || x.result.Exit != 0 {
		t.Fatalf("%+v, %v", x.result, err)
	}
	if _, first := m.typed("0 qsub", "qsub", "-h", "-b", "y", "true"); first {
		t.Error("a submission is carried out twice")
	}
}

// TestAnswersOfAUserAreBounded checks that a user whose commands have long answers can fill neither
// the disk nor the memory with them, and that the answers of other users remain.
func TestAnswersOfAUserAreBounded(t *testing.T) {
	m, _ := testMaster(t)
	const others = "8 a"
	m.typed(others, "qsub", "-h", "-b", "y", "true")
	jobs := "1," + strings.Repeat("7,", 3000) + "7"
	last := ""
	for i := range 2 * mostOfUser / mostOfAnswer {
		last = fmt.Sprintf("7 %d", i)
		if x, first := m.typed(last, "qalter", "-ac", fmt.Sprintf("A=%d", i), jobs); !first || m.commit() != nil || !ready(x) {
			t.Fatalf("no answer to %s", last)
		}
	}
	size, records := 0, 0
	for key, value := range m.store.All(answerPrefix) {
		size += len(key) + len(value)
		records++
	}
	if size > mostOfUser+2*mostOfAnswer || records < 2 {
		t.Errorf("%d answers are kept with %d bytes, expected at most %d", records, size, mostOfUser)
	}
	if kept := len(m.seen.stored) + len(m.seen.of); kept != records {
		t.Errorf("%d answers are known, and the store has %d", kept, records)
	}
	for key, again := range map[string]bool{others: false, last: false, "7 0": true} {
		if _, first := m.typed(key, "qdel", "7"); first != again {
			t.Errorf("%s is carried out again: %v, expected %v", key, first, again)
		}
	}
}
