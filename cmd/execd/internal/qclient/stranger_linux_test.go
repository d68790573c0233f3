package qclient

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/cell/command"
	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/standalone/api"
)

// listenAs returns a listener that a process of a user has made, as the kernel tells its clients.
func listenAs(t *testing.T, uid int, path string) net.Listener {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	become := func(uid int) {
		t.Helper()
		if _, _, err := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0)); err != 0 { // of this thread only
			t.Fatal(err)
		}
	}
	become(uid)
	l, err := net.Listen("unix", path)
	become(0)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestCapturedFrontRequestsPrograms lets a captured front, which runs as another user, answer commands with programs to run as
// verifiers, and with texts to edit. No command runs a program that neither its user nor root has named.
func TestCapturedFrontRequestsPrograms(t *testing.T) {
	testenv.Require(t, testenv.Root)
	const stranger = 65534
	dir := t.TempDir()
	for at := dir; at != os.TempDir(); at = filepath.Dir(at) {
		if err := os.Chmod(at, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	program, ran := filepath.Join(dir, "program"), filepath.Join(dir, "ran")
	testenv.WriteFile(t, program, "#!/bin/sh\n: >"+ran+"\n")
	if err := os.Chmod(program, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("EDITOR", program)
	for name, c := range map[string]struct {
		answer, command string
		args            []string
		want            string
	}{
		"a verifier for qstat":         {`{"verify":{"programs":["` + program + `"]}}`, "qstat", nil, `the daemon requests the verifiers ["` + program + `"], expected []`},
		"a verifier for qconf":         {`{"verify":{"programs":["` + program + `"]}}`, "qconf", []string{"-mq", "all.q"}, "the daemon requests the verifiers"},
		"a verifier for a job":         {`{"verify":{"programs":["` + program + `"]}}`, "qsub", []string{"-b", "y", "true"}, "the daemon requests the verifiers"},
		"another verifier for a job":   {`{"verify":{"programs":["` + program + `"]}}`, "qsub", []string{"-jsv", "/jsv", "-b", "y", "true"}, `expected ["/jsv"]`},
		"one verifier more":            {`{"verify":{"programs":["/jsv","` + program + `"]}}`, "qsub", []string{"-jsv", "/jsv", "-b", "y", "true"}, `expected ["/jsv"]`},
		"a verifier that nobody needs": {`{"verify":{"programs":[]}}`, "qstat", nil, "the daemon requests the verifiers"},
		"an editor for qstat":          {`{"edit":{"name":"x","text":"eA=="}}`, "qstat", nil, "an editor"},
	} {
		socket := filepath.Join(dir, "s")
		s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(c.answer))
		})}
		l := listenAs(t, stranger, socket)
		served := make(chan struct{})
		go func() {
			defer close(served)
			_ = s.Serve(l)
		}()
		d, err := api.Dial(socket, time.Second, nil)
		if err != nil {
			t.Fatal(err)
		}
		cmd := &Command{Name: c.command, Args: c.args, Stdout: &strings.Builder{}, Stderr: &strings.Builder{}}
		_, err = cmd.ask(t.Context(), d, &api.CommandRequest{Name: c.command}, &command.Input{Name: c.command, Args: c.args, Dir: "/"})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if _, err := os.Stat(ran); err == nil {
			t.Errorf("%s: the command has run the program", name)
			_ = os.Remove(ran)
		}
		d.Agent().Close()
		s.Close()
		<-served
	}
}
