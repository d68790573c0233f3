package cluster

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/test/gridengine"
)

// A contender is an execution daemon on a host of its own.
type contender struct {
	name, node, queue string
	pid               int
	wire              *wire

	rate, cpu   []float64 // of each round: jobs per second, ms per job
	own         []float64 // ms per job of the daemon itself, without the processes that it starts
	master      []float64 // ms per job of sge_qmaster
	load        []float64 // processors that sge_qmaster and the processes of cpu used
	alone, many []float64 // ms from the order to the job's first instruction
	daemon      float64   // MB
	sleeping    float64   // MB of the daemon and all supervisors
}

// beforeEnv names a directory with another build of the agent's programs. TestSoakMeasure then compares this build
// with the present one, and not sge_execd with the agent.
const beforeEnv = "EXECD_TEST_BEFORE"

// TestSoakMeasure compares the cost of jobs under the original sge_execd and under the agent: one
// sge_qmaster has a host of each, in turns.
func TestSoakMeasure(t *testing.T) {
	testenv.Soak(t)
	c := start(t, gridengine.Config{Nodes: []string{"node1", "node2"}, AgentLog: "info", Conf: map[string]string{"load_report_time": "00:00:10"}})
	original := &contender{name: "sge_execd", node: "node1", queue: "original.q"}
	ours := &contender{name: "execd agent", node: "node2", queue: "ours.q"}
	both := []*contender{original, ours}
	before := os.Getenv(beforeEnv)
	if before != "" {
		original.name = "before"
	}
	for i, d := range both {
		launch := func() error { return c.StartNode(d.node, d == ours) }
		if d == original && before != "" {
			launch = func() error { return c.StartNodeWith(d.node, before) }
		}
		if err := launch(); err != nil {
			t.Fatal(err)
		}
		pid := c.Path("/var/spool/gridengine/execd/" + d.node + "/execd.pid")
		if d == ours || before != "" {
			pid = c.Path("/home/cell/agent." + d.node + ".pid")
		}
		text, err := os.ReadFile(pid)
		if err != nil {
			t.Fatal(err)
		}
		if d.pid, err = strconv.Atoi(strings.TrimSpace(string(text))); err != nil {
			t.Fatal(err)
		}
		d.wire = c.tap(fmt.Sprintf("v%d", 11+i)) // see package gridengine: cables
		c.queue(d.queue, map[string]string{"hostlist": d.node, "slots": "512", "tmpdir": "/tmp/" + d.node})
	}
	if err := os.Mkdir(c.Path("/home/alice/began"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(c.Path("/home/alice/began"), 0o777); err != nil {
		t.Fatal(err)
	}
	for round := range 3 {
		for i := range both {
			d := both[(i+round)%2]
			c.rounds(d, both[1-(i+round)%2])
		}
	}
	for _, d := range both {
		c.sleepers(d)
	}
	tell := func(what, unit string, a, b float64) {
		t.Logf("%-46s %10.2f %10.2f %-5s %.2fx", what, a, b, unit, b/a)
		t.Attr(strings.ReplaceAll(what, " ", "-"), fmt.Sprintf("%.2f %.2f %s: %.2fx", a, b, unit, b/a))
	}
	t.Logf("%-46s %10s %10s", "", original.name, ours.name)
	tell("500 jobs, jobs per second", "1/s", median(original.rate), median(ours.rate))
	tell("500 jobs, processor time of each", "ms", median(original.cpu), median(ours.cpu))
	tell("of it the daemon itself", "ms", median(original.own), median(ours.own))
	tell("sge_qmaster, processor time for each job", "ms", median(original.master), median(ours.master))
	tell("processors in use by them and sge_qmaster", "", median(original.load), median(ours.load))
	tell("one job, order to exec, median", "ms", median(original.alone), median(ours.alone))
	tell("500 jobs, order to exec, median", "ms", median(original.many), median(ours.many))
	tell("500 jobs, order to exec, 90 %", "ms", quantile(original.many, 0.9), quantile(ours.many, 0.9))
	tell("daemon after them, memory (PSS)", "MB", original.daemon, ours.daemon)
	tell("200 sleeping, daemon and supervisors (PSS)", "MB", original.sleeping, ours.sleeping)
}

func median(list []float64) float64 { return quantile(list, 0.5) }

func quantile(list []float64, q float64) float64 {
	if len(list) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(list))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// began starts a job that reports its start with its first instruction.
func (c *cell) began(d *contender, args ...string) int {
	return c.qsub(append(append([]string{"-q", d.queue, "-b", "y", "-shell", "n", "-o", "/home/alice/began/$JOB_ID.$TASK_ID", "-j", "y"}, args...), "/bin/date", "+%s.%N")...)
}

// latency returns the time from the order for a task to its first instruction, in ms.
func (c *cell) latency(d *contender, job, task int) float64 {
	c.Helper()
	text := strings.TrimSpace(c.file(fmt.Sprintf("/home/alice/began/%d.%d", job, task)))
	s, ns, _ := strings.Cut(text, ".")
	sec, err1 := strconv.ParseInt(s, 10, 64)
	nsec, err2 := strconv.ParseInt(ns, 10, 64)
	at, ok := d.wire.order(job, task)
	if err1 != nil || err2 != nil || !ok {
		c.Fatalf("task %d of job %d wrote %q, and its order was seen: %v", task, job, text, ok)
	}
	return float64(time.Unix(sec, nsec).Sub(at)) / float64(time.Millisecond)
}

// rounds runs jobs one by one, and 500 at once.
func (c *cell) rounds(d, idle *contender) {
	c.Helper()
	const jobs, single = 500, 10
	for range single {
		job := c.began(d, "-t", "1")
		c.ended(job, 1, 1)
		d.alone = append(d.alone, c.latency(d, job, 1))
	}
	agent, err := c.AgentPID() // of the host of sge_qmaster, which has no jobs
	if err != nil {
		c.Fatal(err)
	}
	record := c.follow()
	before, own, master, began := c.used(idle.pid, agent), c.own(d.pid), c.master(), time.Now()
	job := c.began(d, "-t", fmt.Sprintf("1-%d", jobs))
	if err := c.Poll(10*time.Minute, "all have a record", func() (bool, error) { return record() >= jobs, nil }); err != nil {
		c.Fatal(err)
	}
	took := time.Since(began).Seconds()
	used, masters := c.used(idle.pid, agent)-before, c.master()-master
	if n := len(c.tasks(job)); n != jobs {
		c.Fatalf("the accounting file has %d tasks of job %d", n, job)
	}
	d.rate = append(d.rate, jobs/took)
	d.cpu = append(d.cpu, 1000*used/jobs)
	d.own = append(d.own, 1000*(c.own(d.pid)-own)/jobs)
	d.master = append(d.master, 1000*masters/jobs)
	d.load = append(d.load, (used+masters)/took)
	for task := 1; task <= jobs; task++ {
		d.many = append(d.many, c.latency(d, job, task))
	}
	d.daemon = c.pss(d.pid)
}

// follow returns a function that counts the lines that were added to the accounting file. It reads only these: to
// parse the whole file again and again would take the processors from what is measured.
func (c *cell) follow() func() int {
	c.Helper()
	f, err := os.Open(c.AccountingFile())
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() { f.Close() })
	if _, err := f.Seek(0, io.SeekEnd); err != nil {
		c.Fatal(err)
	}
	lines := 0
	return func() int {
		text, err := io.ReadAll(f)
		if err != nil {
			c.Fatal(err)
		}
		lines += bytes.Count(text, []byte("\n"))
		return lines
	}
}

// master returns the CPU time of sge_qmaster, in seconds.
func (c *cell) master() float64 {
	c.Helper()
	for _, p := range c.processes() {
		if p.name == "sge_qmaster" {
			return p.own
		}
	}
	c.Fatal("there is no sge_qmaster")
	return 0
}

// sleepers measures the memory used for jobs that do nothing.
func (c *cell) sleepers(d *contender) {
	c.Helper()
	const jobs = 200
	job := c.qsub("-q", d.queue, "-t", fmt.Sprintf("1-%d", jobs), "-b", "y", "-shell", "n", "-o", "/dev/null", "-j", "y", "/bin/sleep", "1000")
	c.until("all sleep", func() bool {
		n := 0
		for _, p := range c.processes() {
			if p.name == "sleep" && p.args == "/bin/sleep 1000" {
				n++
			}
		}
		return n == jobs
	})
	d.sleeping = c.pss(d.pid)
	for _, p := range c.processes() {
		if strings.HasPrefix(p.name, "sge_shepherd") {
			d.sleeping += c.pss(p.pid)
		}
	}
	c.alice("qdel", strconv.Itoa(job))
	if err := c.Poll(10*time.Minute, "all have a record", func() (bool, error) { return len(c.tasks(job)) == jobs, nil }); err != nil {
		c.Fatal(err)
	}
}

// process is a process of the cell.
type process struct {
	pid        int
	name, args string
	used       float64 // seconds, including children that it has waited for
	own        float64 // seconds, without them
}

func (c *cell) processes() []process {
	c.Helper()
	dirs, err := filepath.Glob(filepath.Dir(c.Proc(1)) + "/[0-9]*")
	if err != nil || len(dirs) == 0 {
		c.Fatalf("there are no processes: %v", err)
	}
	var all []process
	for _, dir := range dirs {
		stat, err := os.ReadFile(dir + "/stat")
		if err != nil {
			continue // the process has exited
		}
		args, _ := os.ReadFile(dir + "/cmdline")
		head, rest, _ := strings.Cut(string(stat), ") ")
		number, name, _ := strings.Cut(head, " (")
		p := process{name: name, args: strings.TrimSpace(strings.ReplaceAll(string(args), "\x00", " "))}
		p.pid, _ = strconv.Atoi(number)
		const ticks = 100
		for i, f := range strings.Fields(rest)[11:15] {
			n, _ := strconv.ParseFloat(f, 64)
			p.used += n / ticks
			if i < 2 {
				p.own += n / ticks
			}
		}
		all = append(all, p)
	}
	return all
}

// used returns the CPU time, in seconds, of all processes in the cell except sge_qmaster and some
// daemons. An exited process counts with the process that waited for it, at the latest with process
// 1.
func (c *cell) used(without ...int) float64 {
	c.Helper()
	sum := 0.0
	for _, p := range c.processes() {
		if p.name != "sge_qmaster" && !slices.Contains(without, p.pid) {
			sum += p.used
		}
	}
	return sum
}

// own returns the CPU time of one process, in seconds, without its children.
func (c *cell) own(pid int) float64 {
	c.Helper()
	for _, p := range c.processes() {
		if p.pid == pid {
			return p.own
		}
	}
	c.Fatalf("process %d does not exist", pid)
	return 0
}

// pss returns the memory of a process in MB, in which shared memory is divided by the number of
// processes that share it.
func (c *cell) pss(pid int) float64 {
	text, err := os.ReadFile(c.Proc(pid) + "/smaps_rollup")
	if err != nil {
		return 0 // the process has exited
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "Pss:" {
			n, _ := strconv.ParseFloat(f[1], 64)
			return n / 1024
		}
	}
	return 0
}
