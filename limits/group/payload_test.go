package group_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/limits/group"
	"github.com/execd-project/execd/test/payload/rawfork"
)

// payloadEnv is the variable that makes the test executable run as a job. Its value is "NAME
// ARGUMENT".
const payloadEnv = "EXECD_GROUP_PAYLOAD"

func TestMain(m *testing.M) {
	if job := os.Getenv(payloadEnv); job != "" {
		payload(job)
		return
	}
	os.Exit(m.Run())
}

// payload reports that it is in the group, and then performs its task.
func payload(job string) {
	name, argument, _ := strings.Cut(job, " ")
	n, _ := strconv.Atoi(argument)
	switch name {
	case "signals":
		c := make(chan os.Signal, 10)
		signal.Notify(c, syscall.SIGUSR1)
		fmt.Println("ready")
		for range c {
			fmt.Println("got it")
		}
	case "spin":
		fmt.Println("ready")
		for end := time.Now().Add(time.Duration(n) * time.Millisecond); time.Now().Before(end); {
		}
	case "alloc":
		fmt.Println("ready")
		b := make([]byte, n<<20)
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		fmt.Println("has it all", b[len(b)/2])
	case "sleep":
		fmt.Println("ready")
	case "tree":
		fmt.Println("ready")
		rawfork.Quiet()
		rawfork.Tree(n)
	case "bomb":
		fmt.Println("ready")
		rawfork.Quiet()
		forkBomb()
	case "chain":
		fmt.Println("ready")
		rawfork.Quiet()
		rawfork.Chain(false)
	}
	for name != "spin" {
		_ = unix.Pause() // the runtime would report select {} as a deadlock
	}
}

// forkBomb forks in all its processes until the kernel refuses, and keeps trying.
//
//go:norace
func forkBomb() {
	for {
		if _, errno := rawfork.Fork(); errno != 0 {
			rawfork.Nap(2e6)
		}
	}
}

// job is a payload that runs in a group.
type job struct {
	cmd *exec.Cmd
	out *bufio.Reader
}

// start runs a payload in a group and returns once it is in the group.
func start(t *testing.T, g *group.Group, payload string) *job {
	t.Helper()
	entries, err := g.Entries()
	if err != nil {
		t.Fatal(err)
	}
	defer group.CloseEntries(entries)
	// The payload enters the group before it has a second thread.
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var enter strings.Builder
	for i := range entries {
		fmt.Fprintf(&enter, "echo 0 >&%d || exit\n", 3+i)
	}
	cmd := exec.Command("/bin/sh", "-c", enter.String()+`exec "$0"`, self)
	cmd.Env = []string{payloadEnv + "=" + payload, "GOMAXPROCS=1"}
	for _, d := range entries {
		fd, err := unix.FcntlInt(uintptr(d.FD), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		f := os.NewFile(uintptr(fd), d.Path)
		defer f.Close()
		cmd.ExtraFiles = append(cmd.ExtraFiles, f)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	j := &job{cmd, bufio.NewReader(stdout)}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	j.expect(t, "ready")
	return j
}

func (j *job) expect(t *testing.T, want string) {
	t.Helper()
	if got, err := j.out.ReadString('\n'); strings.TrimSpace(got) != want {
		t.Fatalf("the job says %q (%v), want %q", got, err, want)
	}
}
