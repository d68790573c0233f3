package verifier

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/submit"
)

// serves is a verifier that rejects jobs with its process ID. For jobs with certain names it hangs,
// exits, or sends wrong answers.
const serves = `#!/bin/sh
while read -r line; do case "$line" in
START) name=; echo STARTED;;
"PARAM N "*) name=${line#PARAM N };;
BEGIN) case $name in
	hang) echo LOG INFO hanging; exec sleep 600;;
	last) echo RESULT STATE REJECT $$; exit;;
	more) echo RESULT STATE REJECT $$; echo RESULT STATE ACCEPT;;
	oops) echo oops >&2; echo RESULT STATE ACCEPT;;
	fine) echo PARAM p -1; echo RESULT STATE CORRECT;;
	*) echo RESULT STATE REJECT $$;;
	esac;;
QUIT) exit;;
esac; done
`

// site returns a verifier of a site that this process may run.
func site(t *testing.T, text string) (path, url string) {
	t.Helper()
	path = written(t, text)
	if os.Geteuid() == 0 {
		return path, "script:root@" + path
	}
	return path, "script:" + path
}

func named(name string) []submit.Parameter { return []submit.Parameter{{Name: "N", Value: name}} }

func server(t *testing.T, log Log) *Server {
	t.Helper()
	s := NewServer(log)
	t.Cleanup(s.Close)
	return s
}

func quiet(_, _ string) {}

// number returns the process ID of the verifier that checks a job.
func number(t *testing.T, s *Server, url, name string) string {
	t.Helper()
	_, err := s.Verify(t.Context(), url, time.Minute, named(name), nil)
	if !errors.As(err, new(*RejectedError)) {
		t.Fatal(err)
	}
	return err.Error()
}

// TestVerifierIsKept checks that one process serves all jobs until it ends, its file changes, or it
// sends more than one answer to a job.
func TestVerifierIsKept(t *testing.T) {
	path, url := site(t, serves)
	s := server(t, quiet)
	first := number(t, s, url, "a")
	if changes, err := s.Verify(t.Context(), url, time.Minute, named("fine"), nil); err != nil || len(changes) != 1 || changes[0].Value != "-1" {
		t.Errorf("changes %v, error %v", changes, err)
	}
	if again := number(t, s, url, "last"); again != first {
		t.Errorf("asked %s, then %s", first, again)
	}
	second := number(t, s, url, "b")
	if second == first {
		t.Error("one that has ended answers")
	}
	if err := os.WriteFile(path, []byte(serves+"# changed\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	third := number(t, s, url, "more")
	if third == second {
		t.Error("one that has been changed is not started anew")
	}
	if got := number(t, s, url, "c"); got == third {
		t.Error("one that has said more than was asked is asked again")
	}
	s.Retire()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Verify(t.Context(), url, time.Minute, nil, nil); err == nil || err.Error() != fmt.Sprintf("JSV file %q does not exist", path) {
		t.Error(err)
	}
}

// TestVerifierThatHangs checks that a verifier that hangs with one job has that job refused, and
// does not delay other jobs.
func TestVerifierThatHangs(t *testing.T) {
	_, url := site(t, serves)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	hangs := make(chan bool, 1)
	s := server(t, func(_, text string) {
		if text == "hanging" {
			hangs <- true
		}
	})
	ended := make(chan error, 1)
	go func() {
		_, err := s.Verify(ctx, url, time.Hour, named("hang"), nil)
		ended <- err
	}()
	<-hangs
	number(t, s, url, "another")
	cancel()
	if err := <-ended; err == nil {
		t.Error("the job is taken")
	}
	if _, err := s.Verify(t.Context(), url, 100*time.Millisecond, named("hang"), nil); err == nil || !strings.Contains(err.Error(), "got no response") {
		t.Error(err)
	}
	number(t, s, url, "another")
}

func TestVerifierOfASiteThatIsNone(t *testing.T) {
	path, url := site(t, serves)
	s := server(t, quiet)
	for name, c := range map[string]struct{ url, want string }{
		"of another kind":                {"perl:" + path, `type "perl" in JSV URL is invalid`},
		"a directory":                    {filepath.Dir(path), "is either not a file or not executable"},
		"that writes to standard error":  {url, "JSV stderr: oops"},
		"of a user that is none":         {"nobodyatall@" + path, `"nobodyatall"`},
		"that is not executable for all": {"script:nobody@" + path, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.Verify(t.Context(), c.url, time.Minute, named("oops"), nil)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}

// TestVerifierIsNotRootUnasked checks that a daemon of root runs a verifier as root only if its URL
// says so, and that it does not run a verifier that other users can write.
func TestVerifierIsNotRootUnasked(t *testing.T) {
	testenv.Require(t, testenv.Root)
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { // so that every user can enter it
		t.Fatal(err)
	}
	path := filepath.Join(dir, "jsv")
	text := strings.Replace(serves, "last) echo RESULT STATE REJECT $$", "last) echo RESULT STATE REJECT $(id -un)", 1)

	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	s := server(t, quiet)
	for user, want := range map[string]string{"": "nobody", "nobody@": "nobody", "root@": "root"} {
		if got := number(t, s, user+path, "last"); !strings.HasPrefix(got, want) {
			t.Errorf("%q: it ran as %s", user, got)
		}
	}
	if err := os.Chmod(path, 0o757); err != nil {
		t.Fatal(err)
	}
	for user, name := range map[string]string{"": "nobody", "nobody@": "nobody", "root@": "root"} {
		_, err := s.Verify(t.Context(), user+path, time.Minute, named("last"), nil)
		if err == nil || !strings.Contains(err.Error(), "is not run as "+name) || !strings.Contains(err.Error(), "may be written by everybody") {
			t.Errorf("%q: %v", user, err)
		}
	}
}
