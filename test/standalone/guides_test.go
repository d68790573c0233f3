package standalone

import (
	"context"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/test/docs"
)

// typist is a shell that runs the commands of the guides.
type typist struct {
	testing.TB
	home string
	in   io.Writer
	said testenv.Transcript // output of the shell and all its children
}

// The output of command lines in the guides. A line is identified by a part of it.
var printed = map[string][]struct{ line, pattern string }{
	"README.md": {
		{"-sync y", `Job 1 exited with exit code 0\.`},
		{"cat hello.out", `(?m)^hello Ada, this is job 1 \(hello\) in queue all\.q$`},
		{"execd qacct -j hello", `(?m)^exit_status +0`},
	},
	"docs/guides/get-started.md": {
		{"execd status", `takes jobs`},
		{"cat hello.out", `(?m)^hello Ada, this is job 1 \(hello\) in queue all\.q$`},
		{"execd qacct -j hello", `(?m)^exit_status +0`},
		{"# r: running", ` nap .* r `},
		{"execd qstat -j nap", `job_name: +nap`},
		{"-N short", `exceeded limit h_rt of 1 s`},
	},
	"docs/guides/load-sensor.md": {
		{"execd sensor check", `0 errors, 0 warnings`},
		{"# the value appears", `gl:licenses=3`},
		{"execd status --json", `licenses\.sh`},
		{"execd qstat -j many", `(?m)^waiting for:.*licenses|-l licenses=10`},
		{"# the next report", `gl:licenses=20`},
	},
	"docs/guides/move-a-cell.md": {
		{"execd simulate", `tasks finished +21`},
	},
	"docs/guides/operate.md": {
		{"# exit status 1 if", `takes jobs`},
		{"execd doctor", `h_rt`},
		{"# the reason; running", `new disk`},
		{"# the job runs", ` long .* r `},
	},
	"docs/guides/policies.md": {
		{"# the first job runs", `(?s) first .* r .* second .* qw `},
		{"execd qquota", `(?m)^fair/1 +slots=1/1 +users `},
		{"execd qstat -j second", `(?m)^waiting for: +a resource quota`},
		{"execd qstat -ext", `(?s) chapter .* thesis .* lesson .* teaching .* qw `},
		{"execd sge_share_mon", `(?m)/thesis\t\tthesis\t75\t`},
		{"# state D", `(?m)^all\.q@.* D *$`},
		{"# state S", `(?s)(normal .* S .* urgent .* r )|(urgent .* r .* normal .* S )`},
		{"machine.swf", `tasks finished`},
		{"agent/configuration --jobs", `1\.9 .* all\.q@`},
	},
	"docs/guides/prolog-epilog.md": {
		{"-N prepared", `exited with exit code 0`},
		{"cat prepared.out", `(?s)prolog: preparing job 1 of .*the data of job 1.*epilog: job 1 finished with 0`},
		{"# pending again", ` unlucky .* qw `},
		{"execd qstat -j unlucky", `error reason.*prolog`},
		{"-explain E", `(?m)^all\.q@.* E *$`},
		{"cat unlucky.out", `no license`},
	},
	"examples/README.md": {
		{"execd run", `hello Ada, this is job 1`},
	},
}

// TestGuides runs the commands of the README and the guides unchanged, as an ordinary user.
func TestGuides(t *testing.T) {
	for _, page := range docs.Guides {
		t.Run(page, func(t *testing.T) {
			blocks, err := docs.Blocks("../..", page)
			if err != nil {
				t.Fatal(err)
			}
			s, leave := openTypist(t)
			var checked []string
			for _, b := range blocks {
				if !b.Typed() {
					continue
				}
				for _, line := range b.Commands() {
					line = strings.TrimPrefix(line, "make build && ") // openTypist has done that
					pattern := ""
					for _, p := range printed[page] {
						if strings.Contains(line, p.line) {
							pattern, checked = p.pattern, append(checked, p.line)
						}
					}
					s.types(line, pattern)
					if strings.HasPrefix(line, "execd qsub") {
						aSecond() // somebody who types is no faster, and who came first has an urgency
					}
				}
			}
			leave()
			for _, p := range printed[page] {
				if !slices.Contains(checked, p.line) {
					t.Errorf("%s has no line with %q", page, p.line)
				}
			}
		})
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
