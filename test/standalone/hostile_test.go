package standalone

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/execd-project/execd/internal/testenv"
)

// TestManyClientsWaitForJobs waits as one user for the ends of 200 jobs at the same time: each
// client gets the result, and meanwhile other commands work for that user and for others.
func TestManyClientsWaitForJobs(t *testing.T) {
	const jobs = 200
	m := newMachine(t, 20)
	m.start()
	users := someUsers(t, 2)
	u, other := users[0], users[len(users)-1]
	out := m.open("out")
	m.write("wait.sh", "#!/bin/sh\nwhile ! [ -e "+out+"/go ]; do sleep 0.2; done\nexit 3\n")
	results := make(chan result, jobs)
	for range jobs {
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
			defer cancel()
			cmd := m.command(ctx, u, "qsub", "-sync", "y", "-wd", "/", "-o", "/dev/null", "-j", "y", "wait.sh")
			text, _ := cmd.CombinedOutput()
			results <- result{stdout: string(text), status: cmd.ProcessState.ExitCode()}
		}()
	}
	m.until("all are there", func() bool { return strings.Count(m.as(other, "qstat", "-u", "*").stdout, "wait.sh") == jobs })
	if r := m.as(u, "qstat", "-j", "1"); r.status != 0 || r.stderr != "" {
		t.Errorf("another command of who waits: %+v", r)
	}
	if r := m.as(other, "qsub", "-h", "-wd", "/", "-b", "y", "true"); r.status != 0 || r.stderr != "" {
		t.Errorf("somebody else: %+v", r)
	}
	m.write("out/go", "")
	for range jobs {
		if r := <-results; r.status != 3 || !strings.Contains(r.stdout, "exited with exit code 3.") {
			t.Errorf("%+v", r)
		}
	}
}

// hostileEnv makes this program act as the client of a hostile user: see hostile.
const hostileEnv = "EXECD_TEST_HOSTILE"

// hostile does to a socket what somebody may try, until its standard input ends. It says when
// it has begun.
func hostile(what, socket string) {
	message := func(rest string) string {
		text := `{"key":"k","name":"qstat","args":["-u","*"],"directory":"/"` + rest + "}"
		return fmt.Sprintf("POST /execd.v1.Cell/Command HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
	}
	text := message(map[string]string{
		"dripping": `,"stdin":"` + strings.Repeat("QUFB", 1<<20) + `"`,
		"large":    `,"stdin":"` + strings.Repeat("QUFB", 15<<20) + `"`,
		"words":    `,"files":[` + strings.Repeat("{},", 20<<20) + "{}]",
	}[what])
	attack, number := map[string]func(net.Conn){
		// Connections that say nothing.
		"silence": func(c net.Conn) { _, _ = io.Copy(io.Discard, c) },
		// Messages that come one byte at a time.
		"dripping": func(c net.Conn) {
			for i := range text {
				if _, err := io.WriteString(c, text[i:i+1]); err != nil {
					return
				}
				if i > 1000 { // in the middle of the message
					time.Sleep(time.Second) //nolint:forbidigo // that is the attack
				}
			}
		},
		// Requests for long lists whose answers are never read.
		"deafness": func(c net.Conn) {
			for {
				if _, err := io.WriteString(c, text); err != nil {
					return
				}
			}
		},
		// One command after the other.
		"flood": func(c net.Conn) {
			for r := bufio.NewReader(c); ; {
				if _, err := io.WriteString(c, text); err != nil {
					return
				}
				if _, err := r.Discard(1); err != nil {
					return
				}
				_, _ = r.Discard(r.Buffered())
			}
		},
		// The largest messages.
		"large": func(c net.Conn) {
			_, _ = io.WriteString(c, text)
			_, _ = io.Copy(io.Discard, c)
		},
		// Messages that take more in memory than on the way.
		"words": func(c net.Conn) {
			_, _ = io.WriteString(c, text)
			_, _ = io.Copy(io.Discard, c)
		},
	}[what], map[string]int{"silence": 2000, "dripping": 500, "deafness": 200, "flood": 100, "large": 24, "words": 8}[what]
	var begun sync.WaitGroup
	for range number {
		begun.Add(1)
		go func() {
			c, err := net.Dial("unix", socket)
			begun.Done()
			if err == nil {
				attack(c)
				c.Close()
			}
		}()
	}
	begun.Wait()
	fmt.Println("begun")
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

// TestHostileUser runs attacks as one user. Meanwhile another user submits jobs, and the memory of
// the daemon stays within bounds.
func TestHostileUser(t *testing.T) {
	testenv.Require(t, testenv.Root)
	m := newMachine(t, 2)
	m.start()
	users := someUsers(t, 2)
	program := filepath.Join(m.dir, "hostile")
	if self, err := os.Executable(); err != nil {
		t.Fatal(err)
	} else if out, err := exec.CommandContext(t.Context(), "install", "-m", "755", self, program).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if r := m.as(users[1], "qsub", "-h", "-wd", "/", "-t", "1-2000", "-b", "y", "true"); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	for range 100 { // for lists that are long
		if r := m.as(users[1], "qsub", "-h", "-wd", "/", "-b", "y", "true"); r.status != 0 {
			t.Fatalf("%+v", r)
		}
	}
	for _, what := range []string{"silence", "dripping", "deafness", "flood", "large", "words"} {
		t.Run(what, func(t *testing.T) {
			end := m.attack(t, users[0], program, what)
			worst := time.Duration(0)
			for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
				began := time.Now()
				r := m.as(users[1], "qsub", "-h", "-wd", "/", "-b", "y", "true")
				worst = max(worst, time.Since(began))
				if r.status != 0 || r.stderr != "" {
					t.Errorf("somebody else: %+v", r)
				}
			}
			if r := m.root("qhost"); r.status != 0 || r.stderr != "" {
				t.Errorf("root: %+v", r)
			}
			end()
			t.Attr("other_qsub_at_most", worst.Round(time.Millisecond).String())
			mebibytes := m.peak(t)
			t.Attr("daemon_MiB", strconv.Itoa(mebibytes))
			const most = 700
			if mebibytes > most {
				t.Errorf("the daemon had %d MiB, at most %d are in order", mebibytes, most)
			}
		})
	}
	if r := m.as(users[0], "qsub", "-h", "-wd", "/", "-b", "y", "true"); r.status != 0 {
		t.Errorf("who was hostile, afterwards: %+v", r)
	}
}

// attack runs an attack as a user, until the function that it returns is called.
func (m *machine) attack(t *testing.T, u *user.User, program, what string) func() {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Env = []string{hostileEnv + "=" + what + " " + m.socket()}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(number(t, u.Uid)), Gid: uint32(number(t, u.Gid))}}
	ready, end := testenv.Begin(t, cmd)
	if ready != "begun\n" {
		t.Errorf("%q", ready)
	}
	return func() {
		if err := end(); err != nil {
			t.Error(err)
		}
	}
}

// peak returns the daemon's peak memory, in MiB.
func (m *machine) peak(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", m.daemon.Pid()))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`VmHWM:\s*(\d+) kB`).FindSubmatch(text)
	if found == nil {
		t.Fatalf("%s", text)
	}
	return number(t, string(found[1])) >> 10
}
