package record

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/execd-project/execd/simulate/script"
	"github.com/execd-project/execd/test/gridengine"
)

// Users are the users, besides root, whose commands a script may contain.
var Users = []string{"alice", "bob", "carol", "dave", "erin"}

// master is the host of sge_qmaster, which is no execution host of any queue.
const master = "master"

// deadline bounds every wait for the master. It is generous: other cells may run on
// the same machine.
const deadline = time.Minute

// longWait is how long a script waits for which it matters when things happened.
const longWait = 20 * time.Second

// A recorder is a case in the making.
type recorder struct {
	cell  *gridengine.Cell
	dir   string // the case
	out   string
	load  []gridengine.LoadValue
	clock bool // it is noted when something was printed, see longWait
	runs  bool // the jobs are started, see withShepherd
	seen  int  // runs of the scheduler when the last command was over
}

// Run runs the script of the case in dir and writes what was printed at each
// capture to out/<step>. It returns the script with the answers that were given.
// The test is skipped or fails where there is no Grid Engine; it fails if Grid
// Engine does not start.
func Run(t testing.TB, dir, out string) ([]script.Line, error) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "jobs.txt"))
	if err != nil {
		return nil, err
	}
	lines, err := script.Parse(string(text))
	if err != nil {
		return nil, err
	}
	hosts, err := hostNames(dir)
	if err != nil {
		return nil, err
	}
	config := gridengine.Config{Host: master, Users: Users[2:], Conf: map[string]string{"loglevel": "log_info"}}
	runs := slices.ContainsFunc(lines, saysUsage)
	if runs {
		if err := withShepherd(&config, t.TempDir(), hosts); err != nil {
			return nil, err
		}
	} else {
		config.Simulated = hosts
	}
	cell := gridengine.Start(t, config)
	for _, host := range config.Nodes {
		if err := cell.StartNode(host, false); err != nil {
			return nil, err
		}
	}
	r := &recorder{cell: cell, dir: dir, out: out, runs: runs}
	r.clock = slices.ContainsFunc(lines, func(l script.Line) bool { return l.Kind == script.Wait && l.Wait >= longWait })
	if err := r.configure(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, cell.Messages())
	}
	if disabledAtFirst(lines) {
		if _, err := cell.Root("qmod", "-d", "*"); err != nil {
			return nil, err
		}
	}
	var played []script.Line
	for i := range lines {
		if err := r.play(&lines[i]); err != nil {
			return nil, fmt.Errorf("line %d of the script: %w\n%s", i+1, err, cell.Messages())
		}
		if lines[i].Kind == script.LoadChange {
			played = append(played, clockLine())
		}
		played = append(played, lines[i])
	}
	return played, nil
}

// clockLine returns a line with the current time.
func clockLine() script.Line {
	now := time.Now().Unix()
	return script.Line{Kind: script.Clock, Epoch: now, Comment: fmt.Sprintf("known to the master (epoch %d)", now)}
}

// disabledAtFirst reports whether the queues were disabled before the first
// submission without a line that says so.
func disabledAtFirst(lines []script.Line) bool {
	for _, l := range lines {
		if strings.HasPrefix(l.Command, "qmod -d ") {
			return false
		}
		if strings.HasPrefix(l.Command, "qmod -e ") {
			return true
		}
	}
	return false
}

// hostNames returns the simulated hosts of a case.
func hostNames(dir string) ([]string, error) {
	names, err := filepath.Glob(filepath.Join(dir, "input/hosts/*"))
	if err != nil {
		return nil, err
	}
	var hosts []string
	for _, name := range names {
		if host := filepath.Base(name); host != "global" {
			hosts = append(hosts, host)
		}
	}
	if len(hosts) == 0 {
		return nil, fmt.Errorf("the case %s has no hosts", dir)
	}
	return hosts, nil
}

// play does what a line says.
func (r *recorder) play(l *script.Line) error {
	var err error
	switch l.Kind {
	case script.Command:
		l.Answer, err = r.command(l)
		r.seen = r.schedulerRuns()
	case script.Wait:
		time.Sleep(l.Wait) //nolint:forbidigo // the script's time passes, jobs run; settle waits for the event
		err = r.settle()
	case script.Capture:
		if err = r.settle(); err == nil {
			err = r.capture(l.Capture)
		}
	case script.LoadChange:
		err = r.changeLoad(*l.Load)
		r.seen = r.schedulerRuns()
	}
	return err
}

// settle waits until the scheduler has seen all that was typed: the run that was
// under way at that time may not have, the next one has, and that after it knows of
// what the previous has started.
func (r *recorder) settle() error {
	const enough = 3
	return r.cell.Poll(deadline, "the scheduler has run", func() (bool, error) {
		return r.schedulerRuns() >= r.seen+enough, nil
	})
}

// schedulerRuns counts the runs that the scheduler has reported.
func (r *recorder) schedulerRuns() int {
	text, err := os.ReadFile(r.cell.Path("/var/spool/gridengine/qmaster/messages"))
	if err != nil {
		return 0
	}
	return strings.Count(string(text), "PROF: schedd run took")
}

var schedulerConf = regexp.MustCompile(`^qconf -Msconf$`)

// command types a line. An answer is what was printed on stdout and stderr; a
// refusal is an answer, too.
func (r *recorder) command(l *script.Line) ([]string, error) {
	if schedulerConf.MatchString(l.Command) {
		return r.changeSchedulerConf(l.Remark)
	}
	typed := []string{"env", "TZ=UTC", "sh", "-c", l.Command + " 2>&1; true"}
	var out string
	var err error
	if l.User == "root" {
		out, err = r.cell.Root(typed...)
	} else {
		out, err = r.cell.User(l.User, typed...)
	}
	if err != nil {
		return nil, err
	}
	if l.User == "root" && strings.HasPrefix(l.Command, "qmod ") {
		return nil, nil // a line for each queue instance, which says nothing new
	}
	out = strings.TrimSuffix(out, "\n")
	return slices.DeleteFunc(strings.Split(out, "\n"), func(s string) bool { return s == "" }), nil
}

// changeSchedulerConf sets what the remark names: "policy_hierarchy NONE,
// share_override_tickets TRUE".
func (r *recorder) changeSchedulerConf(remark string) ([]string, error) {
	attributes := map[string]string{}
	for part := range strings.SplitSeq(remark, ", ") {
		name, value, ok := strings.Cut(part, " ")
		if !ok {
			return nil, fmt.Errorf("cannot change the scheduler's configuration: %q is no attribute with a value", part)
		}
		attributes[name] = value
	}
	return []string{"changed scheduler configuration"}, r.cell.SetSchedulerConf(attributes)
}

// changeLoad changes a load value and waits until the master knows it.
func (r *recorder) changeLoad(l script.Load) error {
	i := slices.IndexFunc(r.load, func(v gridengine.LoadValue) bool { return v.Host == l.Host && v.Attribute == l.Attribute })
	if i < 0 {
		i = len(r.load)
		r.load = append(r.load, gridengine.LoadValue{})
	}
	r.load[i] = gridengine.LoadValue(l)
	return r.reportLoad()
}

// reportLoad sets the load values of the hosts and waits until the master knows them.
func (r *recorder) reportLoad() error {
	if err := r.cell.SetLoad(r.load); err != nil {
		return err
	}
	const showHosts = `for host; do echo " $host: "; qconf -se "$host"; done`
	hosts, err := hostNames(r.dir)
	if err != nil {
		return err
	}
	return r.cell.Poll(deadline, "the master knows the load values", func() (bool, error) {
		out, err := r.cell.Root(append([]string{"sh", "-c", showHosts, "sh"}, hosts...)...)
		if err != nil {
			return false, err
		}
		for _, v := range r.load {
			_, host, _ := strings.Cut(out, " "+v.Host+": \n")
			_, values, _ := strings.Cut(host, "\nload_values ")
			values, _, _ = strings.Cut(values, "\n")
			if !slices.Contains(strings.Split(strings.TrimSpace(values), ","), v.Attribute+"="+v.Value) {
				return false, fmt.Errorf("not yet %v", v)
			}
		}
		return true, nil
	})
}

// readLoad reads input/load_values, which is optional.
func readLoad(path string) ([]gridengine.LoadValue, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var load []gridengine.LoadValue
	for line := range strings.Lines(string(text)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			return nil, fmt.Errorf("cannot read %s: %q is not host:attribute:value", path, line)
		}
		load = append(load, gridengine.LoadValue{Host: f[0], Attribute: f[1], Value: f[2]})
	}
	return load, nil
}
