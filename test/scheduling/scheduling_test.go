package scheduling

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/simulate/workload"
	"github.com/execd-project/execd/submit"
	"github.com/execd-project/execd/test/gridengine"
)

const (
	slots = 16
	// deadline limits each wait for the original: a run with ten thousand starts takes seconds, on
	// a busy machine ten times as long.
	deadline = 2 * time.Minute
)

// An input is a cluster and its pending jobs, as texts.
type input struct {
	hosts, jobs, tasks, categories, users int
	policies                              bool // quotas per user and a share tree
}

// String returns the name of the benchmark.
func (in input) String() string {
	text := fmt.Sprintf("hosts=%d/jobs=%d/tasks=%d/categories=%d", in.hosts, in.jobs, in.tasks, in.categories)
	if in.policies {
		text += "/policies"
	}
	return text
}

func (in input) starts() int { return min(in.jobs*in.tasks, in.hosts*slots) }

func (in input) hostNames() []string {
	names := make([]string, in.hosts)
	for i := range names {
		names[i] = fmt.Sprintf("n%05d", i)
	}
	return names
}

func (in input) userNames() []string {
	names := make([]string, in.users)
	for i := range names {
		names[i] = fmt.Sprintf("u%02d", i)
	}
	return names
}

// queue returns a queue with all hosts. No host reports load, so load does not restrict the
// original.
func (in input) queue() map[string]string {
	return map[string]string{
		"qname": "all.q", "hostlist": strings.Join(in.hostNames(), " "), "slots": strconv.Itoa(slots),
		"load_thresholds": "NONE", "pe_list": "NONE", "complex_values": "kind=1000000",
	}
}

const (
	// kind is a complex that separates categories.
	kind = "kind kind INT <= YES NO 0 0\n"
	// perUser is a quota that never restricts a user, but must be evaluated for each one.
	perUser = "{\n name per_user\n enabled TRUE\n limit users {*} to slots=1000000\n}\n"
	// everybody gives all users the same share.
	everybody = "id=0\nname=Root\ntype=0\nshares=1\nchildnodes=1\nid=1\nname=default\ntype=0\nshares=100\nchildnodes=NONE\n"
)

// schedulerConf returns the parameters of sched_conf(5) that matter to both.
func (in input) schedulerConf() map[string]string {
	conf := map[string]string{"schedd_job_info": "false", "weight_tickets_share": "0"}
	if in.policies {
		conf["weight_tickets_share"] = "1000000"
	}
	return conf
}

// lines returns the jobs: for each the user and the qsub command line.
func (in input) lines() []string {
	users, lines := in.userNames(), make([]string, in.jobs)
	for i := range lines {
		array := ""
		if in.tasks > 1 {
			array = fmt.Sprintf("-t 1-%d ", in.tasks)
		}
		lines[i] = fmt.Sprintf("user=%s qsub -terse -b y -shell n -o /dev/null -e /dev/null %s-l kind=%d sleep 3000", users[i%in.users], array, i%in.categories)
	}
	return lines
}

// took is the duration of a scheduling run.
type took struct {
	decide time.Duration // until the decisions are made
	all    time.Duration // until the decisions are booked
	starts int
}

// ours returns the shortest of several runs of this project's scheduler.
func ours(tb testing.TB, in input) took {
	tb.Helper()
	files := map[string]string{
		"queues/all.q": object(in.queue()), "sched_conf": object(in.schedulerConf()),
		"complexes": qconf.DefaultComplexes().Format() + kind,
	}
	if in.policies {
		files["rqs"], files["sharetree"] = perUser, everybody
	}
	for _, h := range in.hostNames() {
		files["hosts/"+h] = "hostname " + h + "\n"
	}
	cluster, err := qconf.Load(directory(files), nil)
	if err != nil {
		tb.Fatal(err)
	}
	jobs, err := workload.Read(submit.File{Name: "jobs", Text: []byte(strings.Join(in.lines(), "\n"))}, workload.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	var best took
	for range 3 {
		c := cell.New(0, cluster, cell.Options{})
		for _, h := range in.hostNames() {
			if _, err := c.HostReport(0, h, map[string]string{"num_proc": strconv.Itoa(slots)}); err != nil {
				tb.Fatal(err)
			}
		}
		for i := range jobs {
			if _, err := c.Submit(0, cell.Caller{User: jobs[i].User, Group: jobs[i].User}, jobs[i].Request); err != nil {
				tb.Fatal(err)
			}
		}
		var t took
		begin := time.Now()
		t.starts = len(c.State().Run(10).Starts)
		t.decide = time.Since(begin)
		begin = time.Now()
		c.Schedule(10)
		t.all = time.Since(begin)
		if best.decide == 0 || t.decide < best.decide {
			best = t
		}
	}
	return best
}

// original starts a cell for the input, makes its scheduler run once, and returns the duration that
// it reports.
func original(tb testing.TB, in input) took {
	tb.Helper()
	c := gridengine.Start(tb, gridengine.Config{
		Host: "master", Simulated: in.hostNames(), Users: in.userNames(),
		Conf: map[string]string{"loglevel": "log_info", "load_report_time": "01:00:00", "max_aj_instances": "1000000", "max_u_jobs": "0"},
	})
	// The scheduler runs only on request.
	conf := map[string]string{"params": "PROFILE=1", "schedule_interval": "1:0:0", "flush_submit_sec": "0", "flush_finish_sec": "0"}
	maps.Copy(conf, in.schedulerConf())
	must(tb, c.SetSchedulerConf(conf))
	complexes, err := c.Root("qconf", "-sc")
	must(tb, err)
	must(tb, c.Configure("-Mc", "complexes", complexes+kind))
	must(tb, c.AddQueues(gridengine.Queue{Name: "all.q", Attributes: in.queue()}))
	if in.policies {
		must(tb, c.Configure("-Arqs", "per_user", perUser))
		must(tb, c.Configure("-Astree", "sharetree", everybody))
	}
	must(tb, submitAll(c, in.lines()))
	return profile(tb, c)
}

// submitAll runs the lines, several at a time, since most of the time is waiting for the master.
func submitAll(c *gridengine.Cell, lines []string) error {
	byUser := map[string][]string{}
	for _, l := range lines {
		user, command, _ := strings.Cut(strings.TrimPrefix(l, "user="), " ")
		byUser[user] = append(byUser[user], command)
	}
	errs := make(chan error)
	var atOnce sync.WaitGroup
	slot := make(chan struct{}, 4)
	for user, commands := range byUser {
		// A command of the cell has a timeout.
		for len(commands) > 0 {
			n := min(len(commands), 500)
			part := strings.Join(commands[:n], "\n")
			commands = commands[n:]
			atOnce.Go(func() {
				slot <- struct{}{}
				_, err := c.User(user, "sh", "-ec", "{\n"+part+"\n} >/dev/null")
				<-slot
				errs <- err
			})
		}
	}
	go func() { atOnce.Wait(); close(errs) }()
	var first error
	for err := range errs {
		if first == nil {
			first = err
		}
	}
	return first
}

var (
	dispatched = regexp.MustCompile(`PROF: scheduled in ([0-9.]+) .*: (\d+) sequential`)
	finished   = regexp.MustCompile(`PROF: schedd run took: ([0-9.]+) s`)
)

// profile makes the scheduler run, and returns its report about the run that started jobs.
func profile(tb testing.TB, c *gridengine.Cell) took {
	tb.Helper()
	log := c.Path("/var/spool/gridengine/qmaster/messages")
	before, err := os.ReadFile(log)
	must(tb, err)
	_, err = c.Root("qconf", "-tsm")
	must(tb, err)
	var t took
	must(tb, c.Poll(deadline, "the scheduler has run", func() (bool, error) {
		text, err := os.ReadFile(log)
		if err != nil {
			return false, err
		}
		text = text[len(before):]
		in, all := dispatched.FindSubmatch(text), finished.FindSubmatch(text)
		if in == nil || all == nil {
			return false, fmt.Errorf("not yet: %s", text)
		}
		t.starts, _ = strconv.Atoi(string(in[2]))
		t.decide, t.all = seconds(in[1]), seconds(all[1])
		return true, nil
	}))
	return t
}

func directory(files map[string]string) fstest.MapFS {
	fsys := fstest.MapFS{}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return fsys
}

// object returns the text of an object.
func object(attributes map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		b.WriteString(name + " " + attributes[name] + "\n")
	}
	return b.String()
}

func seconds(text []byte) time.Duration {
	s, _ := strconv.ParseFloat(string(text), 64)
	return time.Duration(s * float64(time.Second))
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// BenchmarkSchedulingRun makes both decide about the same jobs on the same empty cluster.
func BenchmarkSchedulingRun(b *testing.B) {
	for _, in := range []input{
		{hosts: 1000, jobs: 100, tasks: 100, categories: 10, users: 10},
		{hosts: 1000, jobs: 10000, tasks: 1, categories: 100, users: 10},
		{hosts: 1000, jobs: 10000, tasks: 1, categories: 100, users: 100, policies: true},
	} {
		b.Run(in.String(), func(b *testing.B) {
			theirs := original(b, in)
			mine := ours(b, in)
			if theirs.starts != in.starts() || mine.starts != in.starts() {
				b.Fatalf("%d and %d tasks start, want %d", theirs.starts, mine.starts, in.starts())
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(theirs.decide.Seconds()*1e3, "original-ms")
			b.ReportMetric(mine.decide.Seconds()*1e3, "ours-ms")
			b.ReportMetric(theirs.decide.Seconds()/mine.decide.Seconds(), "ratio")
			b.ReportMetric(theirs.all.Seconds()*1e3, "original-booked-ms")
			b.ReportMetric(mine.all.Seconds()*1e3, "ours-booked-ms")
		})
	}
}
