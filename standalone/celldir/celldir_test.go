package celldir

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/testenv"
)

// odd is a name that shells take apart where it is not quoted.
const odd = `o'd d"$x !y\`

func contents(dir string) Contents {
	return Contents{
		Host: "node1", Socket: filepath.Join(dir, odd, "sock"), Accounting: filepath.Join(dir, "records"),
		Executable: "/bin/true", Arch: "lx-amd64", Commands: []string{"qstat", "qsub"},
	}
}

// makeDir makes a directory and returns its path.
func makeDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), odd)
	if err := Make(dir, contents(filepath.Dir(dir))); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestShellsReadSettingsTwice makes shells read the settings file twice, and compares the
// variables.
func TestShellsReadSettingsTwice(t *testing.T) {
	dir := makeDir(t)
	bin := dir + "/bin/lx-amd64"
	want := strings.Join([]string{dir, "default", "lx-amd64", filepath.Join(filepath.Dir(dir), odd, "sock"), bin + ":/usr/bin:/bin"}, "\n") + "\n"
	const show = `printf '%s\n' "$SGE_ROOT" "$SGE_CELL" "$SGE_ARCH" "$EXECD_SOCKET" "$PATH"`
	for _, shell := range []string{"sh", "bash", "tcsh"} {
		t.Run(shell, func(t *testing.T) {
			if shell == "tcsh" {
				testenv.Require(t, testenv.Csh)
			}
			script := `. "$FILE".sh; . "$FILE".sh; ` + show
			args := []string{"-c", script}
			if shell == "tcsh" {
				args = []string{"-f", "-c", `source "$FILE".csh; source "$FILE".csh; sh -c '` + strings.ReplaceAll(show, `'`, `'\''`) + `'`}
			}
			cmd := exec.Command(shell, args...)
			cmd.Env = []string{"PATH=/usr/bin:/bin", "FILE=" + dir + "/default/common/settings", "SGE_QMASTER_PORT=1"}
			out, err := cmd.CombinedOutput()
			if diff := cmp.Diff(want, string(out)); err != nil || diff != "" {
				t.Errorf("%v: want (-) and got (+):\n%s", err, diff)
			}
		})
	}
}

// TestMakeAgain leaves what administrators edit, and mends the rest.
func TestMakeAgain(t *testing.T) {
	dir := makeDir(t)
	c := contents(filepath.Dir(dir))
	arch := dir + "/util/arch"
	before, err := os.Stat(arch)
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{dir + "/default/common/sge_request": "-N mine\n", dir + "/default/common/act_qmaster": "other\n"} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(dir + "/bin/lx-amd64/qsub"); err != nil {
		t.Fatal(err)
	}
	c.Executable = "/bin/false"
	if err := Make(dir, c); err != nil {
		t.Fatal(err)
	}
	if after, err := os.Stat(arch); err != nil || !os.SameFile(before, after) {
		t.Errorf("a file that was as it should be was replaced (%v)", err)
	}
	for path, want := range map[string]string{dir + "/default/common/sge_request": "-N mine\n", dir + "/default/common/act_qmaster": "node1\n"} {
		if text, err := os.ReadFile(path); err != nil || string(text) != want {
			t.Errorf("%s: %q (%v), want %q", path, text, err, want)
		}
	}
	for path, want := range map[string]string{"/bin/lx-amd64/qsub": "/bin/false", "/bin/lx-amd64/qstat": "/bin/false", "/default/common/accounting": c.Accounting} {
		if to, err := os.Readlink(dir + path); err != nil || to != want {
			t.Errorf("%s goes to %q (%v), want %q", path, to, err, want)
		}
	}
	if text, err := ReadRequest(dir, "sge_request"); err != nil || string(text) != "-N mine\n" {
		t.Errorf("the default options: %q (%v)", text, err)
	}
	out, err := exec.Command(arch).Output()
	if err != nil || string(out) != "lx-amd64\n" {
		t.Errorf("arch: %q (%v)", out, err)
	}
}

// TestUmask makes a directory that all users read, from a daemon with a strict umask.
func TestUmask(t *testing.T) {
	dir := t.TempDir()
	defer unix.Umask(unix.Umask(0o077))
	if err := Make(dir+"/sge", contents(dir)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]fs.FileMode{
		"": 0o755, "/default": 0o755, "/default/common": 0o755, "/default/common/settings.sh": 0o644, "/bin": 0o755,
		"/bin/lx-amd64": 0o755, "/lib/lx-amd64": 0o755, "/util": 0o755, "/util/arch": 0o755, "/util/resources": 0o755, "/util/resources/jsv": 0o755,
	} {
		if info, err := os.Stat(dir + "/sge" + path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v (%v), want %v", path, info.Mode(), err, want)
		}
	}
}

// TestLibrary links the DRMAA library, and removes the links when the library is removed.
func TestLibrary(t *testing.T) {
	dir := t.TempDir()
	c := contents(dir)
	c.Library = filepath.Join(dir, "libdrmaa.so.1.0")
	for range 2 {
		if err := Make(dir+"/sge", c); err != nil {
			t.Fatal(err)
		}
	}
	links, err := filepath.Glob(dir + "/sge/lib/lx-amd64/*")
	if err != nil || len(links) != 2 {
		t.Errorf("links: %q (%v)", links, err)
	}
	for _, path := range links {
		if to, err := os.Readlink(path); err != nil || to != c.Library {
			t.Errorf("%s is a link to %q (%v)", path, to, err)
		}
	}
	c.Library = ""
	if err := Make(dir+"/sge", c); err != nil {
		t.Fatal(err)
	}
	if links, err := filepath.Glob(dir + "/sge/lib/lx-amd64/*"); err != nil || len(links) != 0 {
		t.Errorf("without the library there are %q (%v)", links, err)
	}
}

func TestLineBreaks(t *testing.T) {
	dir := t.TempDir()
	if err := Make(dir+"/a\nb", contents(dir)); err == nil || !strings.Contains(err.Error(), "line break") {
		t.Errorf("a path with a line break: %v", err)
	}
}
