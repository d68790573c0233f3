package cluster

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/execd-project/execd/test/gridengine"
)

// TestInteractive checks qrsh and qlogin with the method builtin.
func TestInteractive(t *testing.T) { interactiveJobs(t, "") }

func interactiveJobs(t *testing.T, front string) {
	t.Helper()
	c := start(t, gridengine.Config{FrontUser: front, Conf: map[string]string{"load_report_time": "00:00:01"}})
	c.queue("all.q", map[string]string{"slots": "20"})
	c.queue("term.q", map[string]string{"terminate_method": "SIGTERM"})
	c.queue("notify.q", map[string]string{"notify": "00:00:05"})
	if err := c.AddFile(gridengine.BinDir+"/terminate", "#!/bin/sh\nkill -9 -$1\n", 0o755); err != nil {
		t.Fatal(err)
	}
	c.queue("method.q", map[string]string{"terminate_method": gridengine.BinDir + "/terminate $job_pid"})
	t.Run("sessions", func(t *testing.T) {
		c := &cell{c.Cell, t}
		c.run("a command runs, and its output comes back", func(c *cell) {
			if out := c.alice("qrsh", "-now", "n", "-q", "all.q", "echo", "hello;", "id", "-un"); out != "hello\nalice\n" {
				c.Errorf("it wrote %q", out)
			}
		})
		c.run("the input goes to it", func(c *cell) {
			out := c.alice("sh", "-c", "echo from here | qrsh -now n -q all.q cat")
			if out != "from here\n" {
				c.Errorf("it wrote %q", out)
			}
		})
		c.run("much goes both ways", func(c *cell) {
			out := c.alice("sh", "-c", "seq 1 100000 | qrsh -now n -q all.q cat | cksum; seq 1 100000 | cksum")
			if lines := strings.Split(strings.TrimSpace(out), "\n"); len(lines) != 2 || lines[0] != lines[1] {
				c.Errorf("the sums are %q", lines)
			}
		})
		c.run("its exit status and its errors come back", func(c *cell) {
			out := c.alice("sh", "-c", "qrsh -now n -q all.q 'echo oops >&2; exit 7' 2>/home/alice/qrsh.err; echo $?")
			if out != "7\n" {
				c.Errorf("the exit status is %q", out)
			}
			if got := c.file("/home/alice/qrsh.err"); !strings.Contains(got, "oops") {
				c.Errorf("the errors are %q", got)
			}
		})
		c.run("its environment is that of a job", func(c *cell) {
			out := c.alice("qrsh", "-now", "n", "-q", "all.q", "-v", "X=y z", "echo $X $QUEUE; test -n \"$TMPDIR\" && echo $JOB_ID")
			if f := strings.Fields(out); len(f) != 4 || strings.Join(f[:3], " ") != "y z all.q" {
				c.Errorf("it wrote %q", out)
			} else if n, err := strconv.Atoi(f[3]); err == nil {
				c.want(c.ended(n, 0, 1)[0], map[string]string{"exit_status": "0", "failed": "0", "owner": "alice"})
			}
		})
		c.run("with -pty there is a terminal", func(c *cell) {
			out := c.alice("qrsh", "-now", "n", "-q", "all.q", "-pty", "y", "tty; test -t 0 && echo yes")
			if !strings.Contains(out, "/dev/pts/") || !strings.Contains(out, "yes") {
				c.Errorf("it wrote %q", out)
			}
		})
		c.run("qlogin is a shell on a terminal", func(c *cell) {
			// Input before the shell starts is lost, and so is input after the end of the input.
			if err := c.AddFile("/home/alice/.bash_profile", "[ ! -t 0 ] || touch /home/alice/login.ready\n", 0o644); err != nil {
				c.Fatal(err)
			}
			out := c.alice("sh", "-c", `cd /home/alice
				{ while [ ! -e login.ready ]; do sleep 0.1; done; echo 'tty; echo $0 $JOB_ID; stty size; exit 3'; while [ ! -e login.over ]; do sleep 0.1; done; } |
				{ script -qec 'stty rows 33 cols 101; qlogin -now n -q all.q' /dev/null; echo status $?; touch login.over; }`)
			if !strings.Contains(out, "/dev/pts/") || !strings.Contains(out, "33 101") || !strings.Contains(out, "-bash ") || !strings.Contains(out, "status 3") {
				c.Errorf("it wrote %q", out)
			}
		})
		// The exit status of the client, and the records, are the same as with the original. With
		// the original, however, -notify prevents the end of a qrsh job.
		for name, end := range map[string]struct {
			options, trap, command string
			status, failed         string
		}{
			"qdel ends it": {"-q all.q", "", "exec sleep 1000", "137", "100"},
			"a signal for the job is for its command":     {"-q term.q", `trap "exit 5" TERM; `, "while :; do sleep 0.1; done", "5", "0"},
			"a signal ends it":                            {"-q term.q", "", "exec sleep 1000", "143", "100"},
			"a terminate method ends its command":         {"-q method.q", "", "exec sleep 1000", "137", "100"},
			"it is told before it is ended":               {"-notify -q notify.q", `trap "echo told" USR2; `, "while :; do sleep 0.1; done", "told\n137", "100"},
			"what it runs beside its command ends, too":   {"-q all.q", "", "setsid sleep 1000 & exec sleep 1000", "137", "100"},
			"with a terminal it ends likewise":            {"-q all.q -pty y", "", "exec sleep 1000", "137", "100"},
			"a terminal does not save it from its method": {"-q method.q -pty y", "", "exec sleep 1000", "137", "100"},
		} {
			c.run(name, func(c *cell) {
				path := "/home/alice/number." + strings.ReplaceAll(name, " ", ".")
				done := make(chan string, 1)
				go func() {
					out, _ := c.User("alice", "sh", "-c", "qrsh -now n "+end.options+" '"+end.trap+"echo $JOB_ID >"+path+"; "+end.command+"'; echo $?")
					done <- strings.ReplaceAll(out, "\r", "")
				}()
				// A job that qstat shows as running may not have reached the supervisor yet, and
				// killing it before that causes another failure.
				job := c.number(path)
				c.awaitState(job, "r")
				c.alice("qdel", strconv.Itoa(job))
				if out := <-done; out != end.status+"\n" {
					c.Errorf("qrsh ended with %q", out)
				}
				status := end.status[strings.LastIndexByte(end.status, '\n')+1:]
				c.want(c.ended(job, 0, 1)[0], map[string]string{"failed": end.failed, "exit_status": status})
			})
		}
	})
	c.nothingLeft()
}

// number waits for a file with the number of a job.
func (c *cell) number(path string) (job int) {
	c.Helper()
	c.until("a job writes its number", func() bool {
		text, _ := os.ReadFile(c.Path(path))
		job, _ = strconv.Atoi(strings.TrimSpace(string(text)))
		return job != 0 && strings.HasSuffix(string(text), "\n")
	})
	return job
}
