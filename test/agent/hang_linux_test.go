package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/internal/testenv"
)

// Request numbers of linux/fs.h: fsfreeze(8).
const (
	fiFreeze = 0xc0045877
	fiThaw   = 0xc0045878
)

// longestFreeze is the time, in seconds, after which a frozen file system is thawed even if the
// test has died. Until then processes that write to it cannot be killed.
const longestFreeze = "120" // seconds

// loopMounted creates a file system that can be frozen: writes to it then block, as on a disk or a
// file server that does not answer.
func loopMounted(t testing.TB, dir string) (freeze, thaw func()) {
	t.Helper()
	image := filepath.Join(t.TempDir(), "image")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"truncate", "-s", "32M", image},
		{"mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", image},
		{"mount", "-o", "loop", image, dir},
	} {
		if out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	top, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	order := func(request uint) error { return unix.IoctlSetInt(int(top.Fd()), request, 0) }
	// A separate process, because the test may be killed.
	deadline := exec.CommandContext(context.Background(), "sh", "-c", "sleep $0; exec fsfreeze -u $1", longestFreeze, dir)
	if err := deadline.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = order(fiThaw)
		_ = deadline.Process.Kill()
		_ = deadline.Wait()
		top.Close()
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	must := func(request uint) func() {
		return func() {
			t.Helper()
			if err := order(request); err != nil {
				t.Fatal(err)
			}
		}
	}
	return must(fiFreeze), must(fiThaw)
}

// serviceManager creates the socket of a service manager, and counts the agent's watchdog messages.
func serviceManager(t testing.TB, dir string) (env []string, beats *atomic.Int64) {
	t.Helper()
	path := filepath.Join(dir, "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	beats = new(atomic.Int64)
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := conn.Read(buf)
			if err != nil {
				return
			}
			if strings.Contains(string(buf[:n]), "WATCHDOG=1") {
				beats.Add(1)
			}
		}
	}()
	return []string{"NOTIFY_SOCKET=" + path, "WATCHDOG_USEC=1000000"}, beats
}

// TestHungDisk makes the disk of the spool area block all writes, while one job runs and every
// order that needs a write is sent. The agent stays alive, reports the problem, and accepts no
// jobs. When the disk works again, all orders are executed.
func TestHungDisk(t *testing.T) {
	testenv.Require(t, testenv.Root, testenv.Loop)
	n := newNode(t, "")
	freeze, thaw := loopMounted(t, n.spool())
	env, beats := serviceManager(t, n.dir)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	// On another disk: orders must reach the table of jobs, and not wait for their audit record.
	n.args = []string{"--audit", filepath.Join(n.dir, "audit")}
	n.start(env...)
	gate := filepath.Join(n.open("gate"), "gate")
	if err := unix.Mkfifo(gate, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(gate, 0o666); err != nil {
		t.Fatal(err)
	}
	n.mustStart(ctx, n.job(1, "read x < "+gate+"\nexit 9\n"))
	n.states(ctx, api.Running, 1)
	n.mustStart(ctx, n.job(2, "exit 0\n"))
	over := n.watching(ctx, 0, "the end of job 2", func(r api.Report) bool {
		return r.Job != nil && r.Job.Job == 2 && r.Job.State.Over()
	})

	freeze()
	// Each on its own connection: the answers arrive when the disk works again.
	orders := map[string]func(*api.Client) error{
		"start":       func(c *api.Client) error { _, err := c.Start(ctx, n.job(3, "exit 0\n")); return err },
		"suspend":     func(c *api.Client) error { return c.Signal(ctx, api.ID{Job: 1}, api.Suspend) },
		"drain":       func(c *api.Client) error { return c.Drain(ctx, "a test") },
		"acknowledge": func(c *api.Client) error { return c.Acknowledge(ctx, over) },
	}
	type answer struct {
		order string
		err   error
	}
	answers := make(chan answer, len(orders))
	for name, order := range orders {
		client, err := api.Dial(api.Options{Socket: n.socket, RetryFor: patience})
		if err != nil {
			t.Fatal(err)
		}
		go func() { answers <- answer{name, order(client)} }()
	}
	silent := time.NewTicker(10 * time.Millisecond)
	defer silent.Stop()
	for {
		h, err := n.client.Health(ctx)
		if err != nil {
			t.Fatalf("%v\n%s", err, n.log())
		}
		if strings.Contains(fmt.Sprint(h.Troubles), "does not answer") && strings.Contains(h.Draining, n.spool()) {
			break
		}
		<-silent.C
	}
	if _, err := n.client.Jobs(ctx); err != nil {
		t.Error(err)
	}
	for more := beats.Load() + 3; beats.Load() < more; <-silent.C {
		if ctx.Err() != nil {
			t.Fatalf("the watchdog is not answered while the disk does not answer\n%s", n.log())
		}
	}
	once, err := api.Dial(api.Options{Socket: n.socket, RetryFor: 3 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if err := once.Admit(ctx, n.job(4, "exit 0\n")); err == nil || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("a start on a host whose disk does not answer: %v\n%s", err, n.log())
	}
	thaw()
	for range orders {
		a := <-answers
		if e, ok := errors.AsType[*api.Error](a.err); a.order == "start" && ok && e.Code == api.Unavailable {
			continue // it arrived after the problem with the disk was noticed
		}
		if a.err != nil {
			t.Errorf("%s: %v", a.order, a.err)
		}
	}
	if err := n.client.ResumeHost(ctx); err != nil {
		t.Error(err)
	}
	if h, err := n.client.Health(ctx); err != nil || len(h.Troubles) > 0 || h.Draining != "" {
		t.Errorf("afterwards the health is %+v, %v", h, err)
	}
	if err := n.client.Signal(ctx, api.ID{Job: 1}, api.Resume); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(gate, []byte("\n"), 0); err != nil {
		t.Fatal(err)
	}
	n.watching(ctx, 0, "the end of job 1", func(r api.Report) bool { return r.Job != nil && r.Job.Job == 1 && r.Job.State.Over() })
}
