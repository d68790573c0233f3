package cluster

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/execd-project/execd/test/gridengine"
)

// cpuSeconds matches a running job in qstat -j that has used at least a second of processor time.
var cpuSeconds = regexp.MustCompile(`usage.*cpu=00:(0[1-9]|[1-5][0-9]|00:(0[1-9]|[1-5][0-9]))`)

// TestJobs checks jobs of real clients, of every kind, in one cell.
func TestJobs(t *testing.T) {
	c := start(t, gridengine.Config{Conf: map[string]string{"load_report_time": "00:00:01", "mailer": gridengine.BinDir + "/mailer"}})
	for path, text := range map[string]string{
		"mailer": "f=$(mktemp /tmp/new.XXXXXX); { echo \"$@\"; cat; } >$f; mv $f /tmp/mail.${f#/tmp/new.}\n",
		"prolog": "echo prolog $JOB_ID\n", "epilog": "echo epilog\n",
		"prolog1": "exit 1\n", "prolog99": "test -e /tmp/again.$JOB_ID || { touch /tmp/again.$JOB_ID; exit 99; }\n", "prolog100": "exit 100\n",
		"suspend": "touch /tmp/suspended.$1; kill -STOP -$2\n", "terminate": "touch /tmp/terminated.$1; kill -9 -$2\n",
	} {
		if err := c.AddFile(gridengine.BinDir+"/"+path, "#!/bin/sh\n"+text, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	c.queue("all.q", map[string]string{"slots": "40"})
	c.queue("steps.q", map[string]string{"prolog": gridengine.BinDir + "/prolog", "epilog": gridengine.BinDir + "/epilog"})
	c.queue("prolog1.q", map[string]string{"prolog": gridengine.BinDir + "/prolog1"})
	c.queue("prolog99.q", map[string]string{"prolog": gridengine.BinDir + "/prolog99"})
	c.queue("prolog100.q", map[string]string{"prolog": gridengine.BinDir + "/prolog100"})
	c.queue("suspend.q", nil)
	c.queue("method.q", map[string]string{
		"suspend_method":   gridengine.BinDir + "/suspend $job_id $job_pid",
		"terminate_method": gridengine.BinDir + "/terminate $job_id $job_pid",
	})
	c.queue("notify.q", map[string]string{"notify": "00:01:00"})
	if err := c.Configure("-Aprj", "science", "name science\noticket 0\nfshare 0\nacl NONE\nxacl NONE\n"); err != nil {
		t.Fatal(err)
	}

	t.Run("jobs", func(t *testing.T) {
		jobs(&cell{c.Cell, t})
		signals(&cell{c.Cell, t})
		failures(&cell{c.Cell, t})
	})
	c.nothingLeft()
	t.Run("no record is there twice", func(t *testing.T) {
		records, err := c.Records()
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]int{}
		for _, r := range records {
			if r["failed"] == "0" {
				seen[r["jobnumber"]+"."+r["taskid"]+" "+r["pe_taskid"]]++
			}
		}
		for id, n := range seen {
			if n > 1 {
				t.Errorf("%s has %d records", id, n)
			}
		}
	})
}

// jobs runs jobs that finish by themselves.
func jobs(c *cell) {
	c.run("a script gets its arguments and its environment", func(c *cell) {
		job := c.qsub("-q", "all.q", "-o", "/home/alice/args", "-j", "y", "-N", "argued", "-v", "A=1,B=two words", "-A", "acct", "-P", "science",
			c.script("args.sh", `printf '<%s>' "$@"; echo; echo "$A|$B|$JOB_NAME|$QUEUE|$NSLOTS|$SGE_TASK_ID|$SGE_O_LOGNAME|$SGE_CELL|$RESTARTED"`), "x y", "*", "")
		r := c.ended(job, 0, 1)[0]
		c.want(r, map[string]string{"exit_status": "0", "jobname": "argued", "account": "acct", "project": "science", "department": "defaultdepartment", "group": "alice"})
		want := "<x y><*><>\n1|two words|argued|all.q|1|undefined|alice|default|0\n"
		if got := c.file("/home/alice/args"); got != want {
			c.Errorf("it wrote %q, want %q", got, want)
		}
	})
	c.run("a binary runs with its arguments", func(c *cell) {
		job := c.qsub("-q", "all.q", "-b", "y", "-o", "/home/alice/binary", "-e", "/dev/null", "/bin/echo", "a b", "c")
		c.want(c.ended(job, 0, 1)[0], map[string]string{"exit_status": "0", "jobname": "echo"})
		if got := c.file("/home/alice/binary"); got != "a b c\n" {
			c.Errorf("it wrote %q", got)
		}
	})
	c.run("the input comes from a file, and errors go to another", func(c *cell) {
		if err := c.AddFile("/home/alice/input", "from the file\n", 0o644); err != nil {
			c.Fatal(err)
		}
		job := c.qsub("-q", "all.q", "-cwd", "-i", "input", "-o", "out.$JOB_ID", "-e", "err.$JOB_ID", c.script("io.sh", "cat; pwd; echo oops >&2\n"))
		c.ended(job, 0, 1)
		if got := c.file(fmt.Sprintf("/home/alice/out.%d", job)); got != "from the file\n/home/alice\n" {
			c.Errorf("it wrote %q", got)
		}
		if got := c.file(fmt.Sprintf("/home/alice/err.%d", job)); got != "oops\n" {
			c.Errorf("it complained %q", got)
		}
	})
	c.run("each task of an array has its number", func(c *cell) {
		job := c.qsub("-q", "all.q", "-t", "2-8:2", "-o", "/home/alice/", "-j", "y", "-N", "arr",
			c.script("array.sh", "echo $SGE_TASK_ID $SGE_TASK_FIRST $SGE_TASK_LAST $SGE_TASK_STEPSIZE; exit $SGE_TASK_ID\n"))
		for task := 2; task <= 8; task += 2 {
			c.want(c.ended(job, task, 1)[0], map[string]string{"exit_status": strconv.Itoa(task), "failed": "0"})
			if got, want := c.file(fmt.Sprintf("/home/alice/arr.o%d.%d", job, task)), fmt.Sprintf("%d 2 8 2\n", task); got != want {
				c.Errorf("task %d wrote %q, want %q", task, got, want)
			}
		}
	})
	c.run("limits are set, and one that is exceeded ends the job", func(c *cell) {
		soft := c.qsub("-q", "all.q", "-l", "h_fsize=1M,h_stack=8M,h_cpu=100", "-o", "/home/alice/limits", "-j", "y",
			c.script("limits.sh", "ulimit -f; ulimit -s\n"))
		long := c.qsub("-q", "all.q", "-l", "h_rt=2", "-m", "a", "-b", "y", "-o", "/dev/null", "-j", "y", "/bin/sleep", "1000")
		c.ended(soft, 0, 1)
		if got := c.file("/home/alice/limits"); got != "2048\n8192\n" { // dash prints blocks of 512 bytes
			c.Errorf("it has %q", got)
		}
		r := c.ended(long, 0, 1)[0]
		failed := "37"
		if c.series() != "8.1" {
			failed = "100"
		}
		c.want(r, map[string]string{"failed": failed, "exit_status": "137"})
		if n, _ := strconv.ParseFloat(r["ru_wallclock"], 64); n < 2 || n > patience.Seconds() {
			c.Errorf("it ran %v s", n)
		}
		c.mail(long, "Aborted", " Exit Status      = 137\n", " Signal           = KILL\n", "h_rt")
	})
	c.run("prolog and epilog write with the job", func(c *cell) {
		job := c.qsub("-q", "steps.q", "-o", "/home/alice/steps", "-j", "y", c.script("steps.sh", "echo job\n"))
		c.ended(job, 0, 1)
		if got, want := c.file("/home/alice/steps"), fmt.Sprintf("prolog %d\njob\nepilog\n", job); got != want {
			c.Errorf("it wrote %q, want %q", got, want)
		}
	})
	c.run("usage is shown while a job runs, and stands in its record", func(c *cell) {
		job := c.qsub("-q", "all.q", "-o", "/dev/null", "-j", "y",
			c.script("burn.sh", "while [ ! -e /tmp/go.$JOB_ID. ]; do i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; done\n"))
		c.until("qstat -j shows what it has used", func() bool {
			out, _ := c.Root("qstat", "-j", strconv.Itoa(job))
			return cpuSeconds.MatchString(out)
		})
		c.release(job)
		r := c.ended(job, 0, 1)[0]
		for _, name := range []string{"cpu", "ru_utime", "ru_maxrss", "maxvmem", "ru_wallclock", "ru_minflt"} {
			if v, _ := strconv.ParseFloat(r[name], 64); v <= 0 {
				c.Errorf("%s is %q", name, r[name])
			}
		}
		if r["start_time"] < r["qsub_time"] || r["end_time"] < r["start_time"] || r["qsub_time"] == "0" {
			c.Errorf("times %s, %s, %s", r["qsub_time"], r["start_time"], r["end_time"])
		}
	})
	c.run("its own shell runs it", func(c *cell) {
		job := c.qsub("-q", "all.q", "-S", "/bin/bash", "-o", "/home/alice/shell", "-j", "y", c.script("shell.sh", "echo $SHELL\n"))
		c.ended(job, 0, 1)
		if got := c.file("/home/alice/shell"); got != "/bin/bash\n" {
			c.Errorf("it wrote %q", got)
		}
	})
	c.run("paths are translated", func(c *cell) {
		if err := os.MkdirAll(c.Path("/home/alice/real"), 0o755); err != nil {
			c.Fatal(err)
		}
		if err := c.AddFile("/home/alice/.sge_aliases", "/home/alice/alias * * /home/alice/real\n", 0o644); err != nil {
			c.Fatal(err)
		}
		job := c.qsub("-q", "all.q", "-wd", "/home/alice/alias", "-o", "/home/alice/aliased", "-j", "y", "-b", "y", "/bin/pwd")
		c.ended(job, 0, 1)
		if got := c.file("/home/alice/aliased"); got != "/home/alice/real\n" {
			c.Errorf("it ran in %q", got)
		}
	})
	c.run("mail tells of the begin, of a suspension, and of the end", func(c *cell) {
		job := c.qsub("-q", "all.q", "-m", "bes", "-M", "alice@example.org", "-N", "mailed", "-o", "/dev/null", "-j", "y", c.script("mailed.sh", hold))
		c.awaitState(job, "r")
		c.alice("qmod", "-sj", strconv.Itoa(job))
		c.awaitState(job, "s")
		c.mail(job, "Suspended", " Owner           = alice\n")
		c.alice("qmod", "-usj", strconv.Itoa(job))
		c.mail(job, "Continued", " Master queue    = all.q")
		c.release(job)
		c.ended(job, 0, 1)
		c.mail(job, "Started", "-s Job "+strconv.Itoa(job)+" (mailed) Started alice@example.org\n", " User       = alice\n", " Queue      = all.q\n", " Host       = "+c.Host+"\n", " Start Time = ")
		c.mail(job, "Complete", " User             = alice\n", " Queue            = all.q@"+c.Host+"\n", " Exit Status      = 7\n", " Wallclock Time   = 00:", " Max vmem         = ")
	})
	c.run("a job is held to its cores", func(c *cell) {
		options := []string{"-binding", "explicit:0,0"}
		if c.series() == "9.1" { // the scheduler of 9.1 chooses the cores
			options = []string{"-bamount", "1", "-bunit", "C"}
		}
		job := c.qsub(append(options, "-q", "all.q", "-o", "/home/alice/bound", "-j", "y", c.script("bound.sh", "nproc; echo $SGE_BINDING\n"))...)
		c.ended(job, 0, 1)
		// A core has as many processors as threads.
		n, _, _ := strings.Cut(c.file("/home/alice/bound"), "\n0")
		if got, err := strconv.Atoi(n); err != nil || got < 1 || got >= runtime.NumCPU() && got > 1 {
			c.Errorf("it wrote %q on a host with %d processors", c.file("/home/alice/bound"), runtime.NumCPU())
		}
	})
	c.run("two hundred short jobs have a record each", func(c *cell) {
		job := c.qsub("-q", "all.q", "-t", "1-200", "-b", "y", "-o", "/dev/null", "-j", "y", "/bin/true")
		c.until("all have a record", func() bool {
			n := c.tasks(job)
			return len(n) == 200 && slices.Max(slices.Collect(maps.Values(n))) == 1
		})
	})
}

// tellBegin is the first line of a script for which a test waits with begun.
const tellBegin = ": >/tmp/began.$JOB_ID.${SGE_TASK_ID#undefined}\n"

// begun waits until a task runs, both for sge_qmaster and on its host: a job that is killed before
// that may be reported as never started.
func (c *cell) begun(job, task int) {
	c.Helper()
	path := fmt.Sprintf("/tmp/began.%d.", job)
	if task > 0 {
		path += strconv.Itoa(task)
	}
	c.until("job "+strconv.Itoa(job)+" has begun", func() bool { return c.exists(path) })
	c.until("it runs", func() bool { return !slices.ContainsFunc(c.states(job), func(s string) bool { return s != "r" }) })
}

// scripts numbers the scripts of sleeping jobs: qsub may read one while another is written.
var scripts atomic.Int64

// sleepScript returns a script that runs until it is killed.
func (c *cell) sleepScript() string {
	c.Helper()
	return c.script(fmt.Sprintf("sleep.%d.sh", scripts.Add(1)), tellBegin+"exec sleep 1000\n")
}

// sleeper starts a job that runs until it is killed, and waits until it has begun.
func (c *cell) sleeper(args ...string) int {
	c.Helper()
	job := c.qsub(append(append([]string{"-o", "/dev/null", "-j", "y"}, args...), c.sleepScript())...)
	c.begun(job, 0)
	return job
}

// signals tests orders of qdel, qmod and similar commands.
func signals(c *cell) {
	c.run("qdel ends a job", func(c *cell) {
		job := c.sleeper("-q", "all.q")
		c.alice("qdel", strconv.Itoa(job))
		c.want(c.ended(job, 0, 1)[0], map[string]string{"failed": "100", "exit_status": "137"})
		c.awaitState(job, "")
	})
	c.run("qdel -f ends a job", func(c *cell) {
		job := c.sleeper("-q", "all.q")
		c.root("qdel", "-f", strconv.Itoa(job))
		c.until("its process is gone", func() bool {
			names, err := c.AgentJobs()
			return err == nil && !slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, strconv.Itoa(job)+".") })
		})
	})
	c.run("one task of an array is ended", func(c *cell) {
		job := c.qsub("-q", "all.q", "-t", "1-2", "-o", "/dev/null", "-j", "y", c.sleepScript())
		c.begun(job, 1)
		c.begun(job, 2)
		c.alice("qdel", fmt.Sprintf("%d.1", job))
		c.want(c.ended(job, 1, 1)[0], map[string]string{"failed": "100"})
		c.awaitState(job, "r") // the other job
		c.alice("qdel", strconv.Itoa(job))
		c.want(c.ended(job, 2, 1)[0], map[string]string{"failed": "100"})
	})
	c.run("qmod -sj and -usj stop and continue a job", func(c *cell) {
		job := c.sleeper("-q", "all.q")
		pid, err := c.AgentJobPID(job, 0)
		if err != nil {
			c.Fatal(err)
		}
		c.alice("qmod", "-sj", strconv.Itoa(job))
		c.awaitState(job, "s")
		c.until("it is stopped", func() bool { return c.Stopped(pid) })
		c.alice("qmod", "-usj", strconv.Itoa(job))
		c.awaitState(job, "r")
		c.until("it goes on", func() bool { return !c.Stopped(pid) })
		c.alice("qdel", strconv.Itoa(job))
		c.ended(job, 0, 1)
	})
	c.run("qmod -sq and -usq stop and continue the jobs of a queue", func(c *cell) {
		job := c.sleeper("-q", "suspend.q")
		pid, err := c.AgentJobPID(job, 0)
		if err != nil {
			c.Fatal(err)
		}
		c.root("qmod", "-sq", "suspend.q")
		c.awaitState(job, "S")
		c.until("it is stopped", func() bool { return c.Stopped(pid) })
		c.root("qmod", "-usq", "suspend.q")
		c.until("it goes on", func() bool { return !c.Stopped(pid) })
		if c.series() != "8.1" {
			// qstat of 9.1.4 may show S until something else changes the job, also with sge_execd.
			c.alice("qalter", "-ac", "goes=on", strconv.Itoa(job))
		}
		c.awaitState(job, "r")
		c.alice("qdel", strconv.Itoa(job))
		c.ended(job, 0, 1)
	})
	c.run("the methods of a queue are used", func(c *cell) {
		job := c.sleeper("-q", "method.q")
		c.alice("qmod", "-sj", strconv.Itoa(job))
		c.until("the suspend method has run", func() bool { return c.exists(fmt.Sprintf("/tmp/suspended.%d", job)) })
		c.alice("qmod", "-usj", strconv.Itoa(job))
		c.awaitState(job, "r")
		c.alice("qdel", strconv.Itoa(job))
		c.ended(job, 0, 1)
		if !c.exists(fmt.Sprintf("/tmp/terminated.%d", job)) {
			c.Error("the terminate method has not run")
		}
	})
	c.run("a job is told before it is ended", func(c *cell) {
		job := c.qsub("-q", "notify.q", "-notify", "-o", "/home/alice/notified", "-j", "y",
			c.script("notified.sh", "trap 'echo told; exit 5' USR2; echo ready; while :; do sleep 0.1; done\n"))
		c.until("it is ready", func() bool {
			return c.exists("/home/alice/notified") && strings.Contains(c.file("/home/alice/notified"), "ready")
		})
		c.awaitState(job, "r")
		c.alice("qdel", strconv.Itoa(job))
		c.want(c.ended(job, 0, 1)[0], map[string]string{"exit_status": "5"})
		// The shell reports that its child was signaled as well.
		if got := c.file("/home/alice/notified"); !strings.HasSuffix(got, "told\n") {
			c.Errorf("it wrote %q", got)
		}
	})
	c.run("qmod -rj runs a job again", func(c *cell) {
		job := c.qsub("-q", "all.q", "-r", "y", "-o", "/home/alice/rerun", "-j", "y",
			c.script("rerun.sh", "echo $RESTARTED\n[ $RESTARTED = 1 ] || exec sleep 1000\n"))
		c.until("it has begun", func() bool { return c.exists("/home/alice/rerun") && c.file("/home/alice/rerun") != "" })
		c.awaitState(job, "r")
		c.alice("qmod", "-rj", strconv.Itoa(job))
		c.until("it has run again", func() bool { return c.file("/home/alice/rerun") == "0\n1\n" })
		c.awaitState(job, "")
	})
}

// failures tests jobs that fail, and the object to which each failure is attributed.
func failures(c *cell) {
	c.run("exit status 99 runs a job again", func(c *cell) {
		job := c.qsub("-q", "all.q", "-o", "/home/alice/e99", "-j", "y", c.script("e99.sh", "echo $RESTARTED\n[ $RESTARTED = 1 ] || exit 99\n"))
		r := c.ended(job, 0, 2)
		c.want(r[0], map[string]string{"failed": "25", "exit_status": "99"})
		c.want(r[1], map[string]string{"failed": "0", "exit_status": "0"})
	})
	c.run("exit status 100 leaves a job in error", func(c *cell) {
		job := c.qsub("-q", "all.q", "-o", "/dev/null", "-j", "y", c.script("e100.sh", "exit 100\n"))
		c.awaitState(job, "Eqw")
		c.want(c.ended(job, 0, 1)[0], map[string]string{"failed": "30", "exit_status": "100"})
		c.alice("qdel", strconv.Itoa(job))
	})
	c.run("an output file that cannot be written is an error of the job, which qstat -j explains", func(c *cell) {
		job := c.qsub("-q", "all.q", "-o", "/nonexistent/x", "-j", "y", "-b", "y", "/bin/true")
		c.awaitState(job, "Eqw")
		out := c.root("qstat", "-j", strconv.Itoa(job))
		if !strings.Contains(out, "/nonexistent/x") {
			c.Errorf("qstat -j does not name the file:\n%s", out)
		}
		c.want(c.ended(job, 0, 1)[0], map[string]string{"failed": "26"})
		_, _ = c.Root("qmod", "-cj", strconv.Itoa(job)) // exits with 1 although it succeeds
		c.ended(job, 0, 2)
		c.alice("qdel", strconv.Itoa(job))
	})
	c.run("a prolog that fails is an error of the queue, which qstat explains", func(c *cell) {
		job := c.qsub("-q", "prolog1.q", "-o", "/dev/null", "-j", "y", "-b", "y", "/bin/true")
		c.until("the queue is in error", func() bool {
			out, _ := c.Root("qstat", "-f", "-q", "prolog1.q", "-explain", "E")
			return strings.Contains(out, " E\n") && strings.Contains(out, strconv.Itoa(job))
		})
		c.want(c.ended(job, 0, 1)[0], map[string]string{"failed": "8"})
		if s := c.state(job); s != "qw" {
			c.Errorf("the job is in state %q", s)
		}
		c.alice("qdel", strconv.Itoa(job))
	})
	c.run("a prolog that ends with 99 has the job run again", func(c *cell) {
		job := c.qsub("-q", "prolog99.q", "-o", "/dev/null", "-j", "y", "-b", "y", "/bin/true")
		r := c.ended(job, 0, 2)
		c.want(r[0], map[string]string{"failed": "25"})
		c.want(r[1], map[string]string{"failed": "0"})
	})
	c.run("a prolog that ends with 100 is an error of the job", func(c *cell) {
		job := c.qsub("-q", "prolog100.q", "-o", "/dev/null", "-j", "y", "-b", "y", "/bin/true")
		c.awaitState(job, "Eqw")
		c.want(c.ended(job, 0, 1)[0], map[string]string{"failed": "30"})
		c.alice("qdel", strconv.Itoa(job))
	})
	c.run("a job that dies of a signal", func(c *cell) {
		job := c.qsub("-q", "all.q", "-o", "/dev/null", "-j", "y", c.script("segv.sh", "kill -SEGV $$\n"))
		c.want(c.ended(job, 0, 1)[0], map[string]string{"failed": "100", "exit_status": "139"})
	})
}

// mail waits for a mail about a job with a subject that ends with a word, and searches it for
// texts.
func (c *cell) mail(job int, word string, texts ...string) {
	c.Helper()
	subject, found := regexp.MustCompile(fmt.Sprintf(`^-s Job %d \([^)]*\) %s `, job, word)), ""
	c.until("there is mail: "+subject.String(), func() bool {
		files, _ := filepath.Glob(c.Path("/tmp") + "/mail.*")
		for _, f := range files {
			if text, err := os.ReadFile(f); err == nil && subject.Match(text) {
				found = string(text)
			}
		}
		return found != ""
	})
	for _, text := range texts {
		if !strings.Contains(found, text) {
			c.Errorf("there is no %q in the mail\n%s", text, found)
		}
	}
}

func (c *cell) exists(path string) bool {
	_, err := os.Stat(c.Path(path))
	return err == nil
}
