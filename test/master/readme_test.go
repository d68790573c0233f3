package master

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/test/docs"
)

// shell is an interactive shell for the test's input.
type shell struct {
	testing.TB
	dir    string
	in     io.Writer
	client *api.Client        // client of the agent that is started in it
	said   testenv.Transcript // output of the shell and all its children
}

// TestReadme runs the section of the guide about an agent and a master, each line after the
// previous one has had its effect.
func TestReadme(t *testing.T) {
	blocks, err := docs.Blocks("../..", "docs/guides/build-a-master.md")
	if err != nil || len(blocks) != 1 {
		t.Fatalf("%d blocks, want 1: %v", len(blocks), err)
	}
	lines := blocks[0].Commands()
	if want := "make build && go build -o bin/master ./examples/master"; lines[0] != want {
		t.Fatalf("%q, expected %q, which the test does in its own way", lines[0], want)
	}
	s := openShell(t)
	state, jobs := api.State(""), 0 // of the only job; empty for none
	for _, line := range lines[1:] {
		s.typed(line)
		switch {
		case strings.Contains(line, "execd agent "):
			s.await(line, func(h *api.Health, j []api.Job) bool { return h.Draining == "" && stateOf(j) == state })
			continue
		case strings.Contains(line, "execd jobs "):
			jobs++
			s.awaitText(line, `(?m)^1 +- +nap +\S+ +`+string(state)+` `)
			continue
		case strings.Contains(line, "execd status "):
			s.awaitText(line, `(?m)^jobs +none$`)
			continue
		case strings.Contains(line, "kill -9 $agent"):
			s.awaitGone(line)
			continue
		case strings.Contains(line, "qsub "), strings.Contains(line, "qmod -usj "):
			state = api.Running
		case strings.Contains(line, "qmod -sj "):
			state = api.Suspended
		case strings.Contains(line, "qdel "):
			state = ""
		default:
			continue
		}
		s.await(line, func(_ *api.Health, j []api.Job) bool { return stateOf(j) == state })
	}
	s.awaitGone("the end")
	if jobs != 3 {
		t.Errorf("the jobs were looked at %d times", jobs)
	}
}

func stateOf(jobs []api.Job) api.State {
	if len(jobs) != 1 {
		return ""
	}
	return jobs[0].State
}

// openShell starts a shell in a directory that looks like a checkout after make build.
func openShell(t *testing.T) *shell {
	t.Helper()
	s := &shell{TB: t, dir: t.TempDir()}
	build(t, filepath.Join(s.dir, "bin"))
	examples, err := filepath.Abs("../../examples")
	if err == nil {
		err = os.Symlink(examples, filepath.Join(s.dir, "examples"))
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sh")
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, &s.said, &s.said
	cmd.Env = append(os.Environ(), "TMPDIR="+s.dir)
	// Processes that remain after a failure are killed together with the shell.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.in = in
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
	return s
}

func (s *shell) typed(line string) {
	s.Helper()
	if _, err := io.WriteString(s.in, line+"\n"); err != nil {
		s.Fatal(err)
	}
}

// ask requests the state of the agent.
func (s *shell) ask() (*api.Health, []api.Job, error) {
	if s.client == nil {
		found, err := filepath.Glob(filepath.Join(s.dir, "*", "socket"))
		if err != nil || len(found) != 1 {
			return nil, nil, errors.Join(err, errors.New("there is no socket"))
		}
		if s.client, err = api.Dial(api.Options{Socket: found[0], RetryFor: -1}); err != nil {
			return nil, nil, err
		}
	}
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	h, err := s.client.Health(ctx)
	if err != nil {
		return nil, nil, err
	}
	jobs, err := s.client.Jobs(ctx)
	return &h, jobs, err
}

// poll polls until a condition holds.
func (s *shell) poll(what string, happened func() bool) {
	s.Helper()
	timeout, again := time.After(patience), time.NewTicker(20*time.Millisecond)
	defer again.Stop()
	for !happened() {
		select {
		case <-again.C:
		case <-timeout:
			h, jobs, err := s.ask()
			state, _ := json.Marshal([]any{h, jobs}) // plain data
			s.Fatalf("%s: nothing has come of it\n%s\n%s, %v", what, s.said.String(), state, err)
		}
	}
}

func (s *shell) await(what string, is func(*api.Health, []api.Job) bool) {
	s.Helper()
	s.poll(what, func() bool {
		h, jobs, err := s.ask()
		return err == nil && is(h, jobs)
	})
}

func (s *shell) awaitGone(what string) {
	s.Helper()
	s.poll(what, func() bool {
		_, _, err := s.ask()
		return err != nil
	})
}

func (s *shell) awaitText(what, pattern string) {
	s.Helper()
	s.poll(what, func() bool { return regexp.MustCompile(pattern).MatchString(s.said.String()) })
}
