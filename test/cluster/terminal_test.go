package cluster

import (
	"os"
	"syscall"
	"testing"

	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/test/gridengine"
	"github.com/execd-project/execd/test/terminal"
)

// sit runs a command of alice at a terminal.
func (c *cell) sit(line string) *terminal.Session {
	c.Helper()
	return terminal.Start(c, c.UserCommand("alice", "sh", "-c", line), 33, 101)
}

// TestTerminals checks qrsh and qlogin at terminals.
func TestTerminals(t *testing.T) { terminals(t, "") }

func terminals(t *testing.T, front string) {
	t.Helper()
	c := start(t, gridengine.Config{FrontUser: front, Conf: map[string]string{"load_report_time": "00:00:01"}})
	c.queue("all.q", map[string]string{"slots": "20"})
	script := c.script("talk.sh", terminal.Script)
	c.script("patient.sh", `trap 'echo size $(stty size)' WINCH; trap 'echo caught; exit 5' INT; echo patient; while :; do sleep 0.1; done`)
	t.Run("terminals", func(t *testing.T) {
		c := &cell{c.Cell, t}
		c.run("qrsh -pty y: sizes, keys, much output, and the exit status", func(c *cell) {
			s := c.sit("exec qrsh -now n -q all.q -pty y " + script)
			terminal.Talk(c.T, s)
			s.Type("end\r")
			if status := s.Status(); status != 7 || !s.Cooked() {
				c.Errorf("qrsh ended with %d, and left the terminal as it was: %t", status, s.Cooked())
			}
		})
		c.run("Ctrl-D ends the input", func(c *cell) {
			s := c.sit("exec qrsh -now n -q all.q -pty y " + script)
			s.See("begins with 33 101")
			s.Type(terminal.EndOfFile)
			s.See("end of file")
			if status := s.Status(); status != 8 || !s.Cooked() {
				c.Errorf("qrsh ended with %d, and left the terminal as it was: %t", status, s.Cooked())
			}
		})
		c.run("qlogin and qrsh alone are shells on a terminal", func(c *cell) {
			for _, command := range []string{"qlogin", "qrsh"} {
				s := c.sit("exec " + command + " -now n -q all.q")
				s.See("$ ")
				s.Type("stty -echo; PS1=; echo size $(stty size); sh patient.sh; echo then $?\r")
				s.See("size 33 101")
				s.See("patient")
				s.Resize(44, 122)
				s.See("size 44 122")
				s.Type(terminal.Interrupt)
				s.See("caught")
				s.See("then 5")
				s.Type("exit 9\r")
				if status := s.Status(); status != 9 || !s.Cooked() {
					c.Errorf("%s ended with %d, and left the terminal as it was: %t", command, status, s.Cooked())
				}
			}
		})
		c.run("a client that is ended leaves no job", func(c *cell) {
			s := c.sit("echo $$ >/home/alice/client; exec qrsh -now n -q all.q -pty y 'echo $JOB_ID >/home/alice/left; exec sleep 1000'")
			job := c.number("/home/alice/left")
			if err := c.Kill(c.number("/home/alice/client"), syscall.SIGTERM); err != nil {
				c.Fatal(err)
			}
			_ = s.Status() // the exit status of the original differs
			c.ended(job, 0, 1)
		})
		c.run("input from a file and from a pipe ends", func(c *cell) {
			if err := c.AddFile("/home/alice/some", "from a file\n", 0o644); err != nil {
				c.Fatal(err)
			}
			for line, want := range map[string]string{
				"qrsh -now n -q all.q cat <some":                   "from a file\n",
				"qrsh -now n -q all.q 'cat; echo over' </dev/null": "over\n",
				"echo piped | qrsh -now n -q all.q 'cat; exit 4'":  "piped\n",
			} {
				out, _ := c.User("alice", "sh", "-c", line)
				if out != want {
					c.Errorf("%s: %q, want %q", line, out, want)
				}
			}
		})
	})
	if os.Getenv(originalEnv) == "" {
		c.nothingLeft()
	}
}

// standalone starts execd standalone in the cell, and returns what precedes its commands.
func (c *cell) standalone() (prefix string) {
	c.Helper()
	const dir, socket = "/home/cell/standalone", "/home/cell/run/standalone.sock"
	for name, text := range map[string]string{
		"conf/queues/all.q": "qname all.q\nhostlist node1\nslots 9\nshell /bin/sh\nload_thresholds NONE\n",
		"conf/hosts/node1":  "hostname node1\n",
		"conf/conf/global":  "gid_range 55000-55999\n",
		"commands/empty":    "",
	} {
		if err := c.AddFile(dir+"/"+name, text, 0o644); err != nil {
			c.Fatal(err)
		}
	}
	c.root("sh", "-c", `mkdir -p /home/cell/run; chmod 755 /home/cell/run; cd `+dir+`; for n in qrsh qlogin qstat qdel; do ln -s `+gridengine.BinDir+`/execd commands/$n; done
setsid `+gridengine.BinDir+`/execd standalone --conf `+dir+`/conf --spool `+dir+`/spool --socket `+socket+` --host node1 </dev/null >log 2>&1 &`)
	c.Cleanup(func() {
		if c.Failed() {
			c.Logf("the log of execd standalone:\n%s", c.file(dir+"/log"))
		}
	})
	prefix = "export PATH=" + dir + "/commands:/usr/bin:/bin EXECD_SOCKET=" + socket + "; "
	c.until("execd standalone answers", func() bool {
		_, err := c.User("alice", "sh", "-c", prefix+"qstat")
		return err == nil
	})
	return prefix
}

// TestStandaloneTerminals checks terminals under execd standalone, with its own qrsh and qlogin.
func TestStandaloneTerminals(t *testing.T) {
	testenv.Require(t, testenv.Root, testenv.GridEngine)
	c := &cell{gridengine.Start(t, gridengine.Config{Bare: true, Agent: built(t)}), t}
	commands := c.standalone()
	script := c.script("talk.sh", terminal.Script)
	over := func(c *cell, s *terminal.Session, want int) {
		c.Helper()
		if status := s.Status(); status != want || !s.Cooked() {
			c.Errorf("it ended with %d, want %d, and left the terminal as it was: %t", status, want, s.Cooked())
		}
	}
	t.Run("terminals", func(t *testing.T) {
		c := &cell{c.Cell, t}
		c.run("sizes, keys, much output, and the exit status", func(c *cell) {
			s := c.sit(commands + "exec qrsh -pty y " + script)
			terminal.Talk(c.T, s)
			s.Type("end\r")
			over(c, s, 7)
		})
		c.run("Ctrl-D ends the input", func(c *cell) {
			s := c.sit(commands + "exec qrsh -pty y " + script)
			s.See("begins with 33 101")
			s.Type(terminal.EndOfFile)
			s.See("end of file")
			over(c, s, 8)
		})
		c.run("qlogin is a shell on a terminal", func(c *cell) {
			s := c.sit(commands + "exec qlogin")
			s.See("$ ")
			s.Type("stty -echo; PS1=; echo size $(stty size); exit 9\r")
			s.See("size 33 101")
			over(c, s, 9)
		})
		c.run("a client that is ended leaves the terminal as it was", func(c *cell) {
			s := c.sit(commands + "echo $$ >/home/alice/client; exec qrsh -pty y " + script)
			s.See("begins with 33 101")
			if err := c.Kill(c.number("/home/alice/client"), syscall.SIGTERM); err != nil {
				c.Fatal(err)
			}
			over(c, s, 1)
		})
		c.run("without a terminal there is none", func(c *cell) {
			s := c.sit(commands + "qrsh 'tty; exit 3'; echo then $?")
			s.See("not a tty")
			s.See("then 3")
			over(c, s, 0)
		})
	})
}
