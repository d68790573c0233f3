package standalone

import (
	"context"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/execd-project/execd/internal/testenv"
)

// typist is a shell that somebody types the README into.
type typist struct {
	testing.TB
	home string
	in   io.Writer
	said testenv.Transcript // of the shell and all that it starts
}

// What the lines of the README print; each of them must end with exit status 0.
var printed = []struct{ line, pattern string }{
	{"execd qsub -sync y", `Job 1 exited with exit code 0\.`},
	{"cat hello.out", `(?m)^hello Ada, this is job 1 \(hello\) in queue all\.q$`},
	{"execd qacct -j hello", `(?m)^exit_status +0`},
	{"execd qstat  ", `(?s) first .* r .* second .* qw `},
	{"execd qquota", `(?m)^fair/1 +slots=1/1 +users `},
	{"execd qstat -j second", `(?m)^waiting for: +a resource quota`},
	{"execd sensor check", `0 errors, 0 warnings`},
	{"execd qhost -F", `hl:scratch_free=[0-9.]+[KMGT]`},
	{"execd qstat -j large", `(?m)^scheduling info: +\(-l scratch_free=500T\) cannot run|(?m)^waiting for:.*scratch_free`},
	{"execd qstat -ext", `(?s) chapter .* thesis .* lesson .* teaching .* qw `},
	{"execd sge_share_mon", `(?m)/thesis\t\tthesis\t75\t`},
}

// TestReadme types the four steps of the README, as they are, as an ordinary user.
func TestReadme(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	s, leave := openTypist(t)
	blocks := regexp.MustCompile("(?s)### [1-4]\\. [^\n]*\n.*?```\n(.*?)```").FindAllSubmatch(readme, -1)
	if len(blocks) != 4 {
		t.Fatalf("%d steps, want 4", len(blocks))
	}
	checked := 0
	for i, b := range blocks {
		for j, line := range strings.Split(strings.TrimSpace(string(b[1])), "\n") {
			if i == 0 && j == 0 {
				const build = "make build && "
				if !strings.HasPrefix(line, build) {
					t.Fatalf("%q, expected %q, which the test does in its own way", line, build)
				}
				line = strings.TrimPrefix(line, build)
			}
			pattern := ""
			for _, p := range printed {
				if strings.HasPrefix(line, p.line) {
					pattern, checked = p.pattern, checked+1
				}
			}
			s.types(line, pattern)
			if strings.HasPrefix(line, "execd qsub") {
				aSecond() // somebody who types is no faster, and who came first has an urgency
			}
		}
	}
	if checked != len(printed) {
		t.Errorf("%d lines print what is known, want %d", checked, len(printed))
	}
	undo := regexp.MustCompile("(?m)^rm -r ~/.*configuration$").Find(readme)
	if undo == nil {
		t.Fatal("README does not say how to undo the steps")
	}
	leave()
	for _, there := range []bool{true, false} {
		out, err := exec.CommandContext(t.Context(), "sh", "-c", "HOME="+s.home+"; "+string(undo)).CombinedOutput()
		if (err == nil) != there {
			t.Errorf("%s, with the configuration there %v: %v\n%s", undo, there, err, out)
		}
	}
}

// aSecond waits for the next second: times of submission have whole ones.
func aSecond() {
	for now := time.Now().Unix(); time.Now().Unix() == now; {
		<-time.After(5 * time.Millisecond)
	}
}

// types types a line, and where it has to print something types it again until it has.
func (s *typist) types(line, pattern string) {
	s.Helper()
	want := regexp.MustCompile(pattern)
	var said, last string
	for end := time.Now().Add(patience); time.Now().Before(end); {
		from := len(s.said.String())
		if _, err := io.WriteString(s.in, line+"\n"+`echo "== $? =="`+"\n"); err != nil {
			s.Fatal(err)
		}
		ended := regexp.MustCompile(`(?m)^== (\d+) ==$`)
		var status []string
		for status == nil && time.Now().Before(end) {
			said = s.said.String()[from:]
			if status = ended.FindStringSubmatch(said); status == nil {
				<-time.After(5 * time.Millisecond)
			}
		}
		if status == nil || status[1] != "0" {
			s.Fatalf("%s: exit status %q\n%s\nbefore that:\n%s", line, status, said, last)
		}
		if want.MatchString(said) {
			return
		}
		last = said
		<-time.After(100 * time.Millisecond) // as who looks again
	}
	s.Fatalf("%s: not to be seen: %s\n%s", line, pattern, said)
}

// openTypist opens a shell in what looks like a checkout after make build, of a user who
// has nothing yet. leave waits for the end of what was started in it.
func openTypist(t *testing.T) (s *typist, leave func()) {
	t.Helper()
	home := t.TempDir()
	testenv.LetIn(t, home)
	checkout := filepath.Join(home, "execd")
	copied := exec.CommandContext(t.Context(), "sh", "-ec", `mkdir -p "$1/bin"; cp -R ../../examples "$1"; cp "$2/execd" "$2/sge_shepherd-go" "$1/bin"; chmod -R go+rX "$3"`, "sh", checkout, built(t), home)
	if out, err := copied.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s = &typist{TB: t, home: home}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "sh") // it ends the daemon after a failure, too
	cmd.Dir, cmd.Stdout, cmd.Stderr = checkout, &s.said, &s.said
	cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if os.Getuid() == 0 {
		u, err := user.Lookup("nobody")
		if err != nil {
			t.Fatal(err)
		}
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(number(t, u.Uid)), Gid: uint32(number(t, u.Gid))}
		if out, err := exec.CommandContext(t.Context(), "chown", "-R", u.Username, home).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	cmd.WaitDelay = 5 * time.Second
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.in = in
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	leave = func() {
		if _, err := io.WriteString(in, "wait\nexit 0\n"); err != nil {
			t.Error(err)
		}
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v\n%s", err, s.said.String())
		}
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_, _ = io.WriteString(in, "\nexecd qdel -u '*'; sleep 1; kill $!; wait; exit 1\n")
			in.Close()
			_ = cmd.Wait()
		}
	})
	return s, leave
}
