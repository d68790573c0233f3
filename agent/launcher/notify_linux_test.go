package launcher

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/execd-project/execd/internal/clock"
	"github.com/execd-project/execd/internal/host/servicemanager"
	"github.com/execd-project/execd/internal/testenv"
)

// TestNotify checks that the service manager gets the messages of the front from the launcher, and nothing else.
func TestNotify(t *testing.T) {
	testenv.Require(t, testenv.Root)
	path := filepath.Join(t.TempDir(), "notify")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	w, _ := newStrictWorld(t, func(s *Server) {
		var err error
		if s.Manager, err = servicemanager.New(clock.System()); err != nil {
			t.Fatal(err)
		}
	})
	for _, c := range []struct {
		state *servicemanager.State
		want  string // of the message; empty if it is refused
	}{
		{&servicemanager.State{Ready: true, Status: "no jobs"}, "READY=1\nSTATUS=no jobs"},
		{&servicemanager.State{Watchdog: true}, "WATCHDOG=1"},
		{&servicemanager.State{Status: "a\nMAINPID=1\nb"}, "STATUS=a MAINPID=1 b"},
		{&servicemanager.State{Status: strings.Repeat("x", mostStatus+1)}, ""},
		{&servicemanager.State{Watchdog: true}, "WATCHDOG=1"},
	} {
		if e := w.ask(kindNotify, c.state); (e == nil) != (c.want != "") {
			t.Errorf("%.40q: %v", c.state.Status, e)
		}
		if c.want == "" {
			continue
		}
		if err := manager.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 4096)
		n, err := manager.Read(b)
		if err != nil || string(b[:n]) != c.want {
			t.Errorf("the manager is told %q (%v), expected %q", b[:n], err, c.want)
		}
	}
	// The manager would end the launcher. The next message shows that it gets none.
	for _, state := range []*servicemanager.State{{Stopping: true}, {Status: "last"}} {
		if e := w.ask(kindNotify, state); e != nil {
			t.Error(e)
		}
	}
	b := make([]byte, 4096)
	if n, err := manager.Read(b); err != nil || string(b[:n]) != "STATUS=last" {
		t.Errorf("the manager is told %q (%v)", b[:n], err)
	}
	if e := w.ask(kindNotify, map[string]any{"mainpid": 1}); e == nil {
		t.Error("the launcher takes an order with an unknown field")
	}
}
