package celldir

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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

// TestSettings has shells read the settings, twice, and compares what they are then.
func TestSettings(t *testing.T) {
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
		"/bin/lx-amd64": 0o755, "/util": 0o755, "/util/arch": 0o755, "/util/resources": 0o755, "/util/resources/jsv": 0o755,
	} {
		if info, err := os.Stat(dir + "/sge" + path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v (%v), want %v", path, info.Mode(), err, want)
		}
	}
}

func TestLineBreaks(t *testing.T) {
	dir := t.TempDir()
	if err := Make(dir+"/a\nb", contents(dir)); err == nil || !strings.Contains(err.Error(), "line break") {
		t.Errorf("a path with a line break: %v", err)
	}
}

// TestJSV talks with a JSV script that uses the functions.
func TestJSV(t *testing.T) {
	dir := makeDir(t)
	const script = `
jsv_on_start() { jsv_send_env; }
jsv_on_verify() {
	jsv_log_info "$(jsv_is_param N) $(jsv_get_param N) $(jsv_is_param P) <$(jsv_get_param P)>"
	jsv_log_info "$(jsv_sub_is_param l_hard h_rt) $(jsv_sub_get_param l_hard h_rt) $(jsv_sub_is_param l_hard h) $(jsv_sub_get_param l_hard lic)"
	jsv_log_info "$(jsv_is_env A) $(jsv_get_env A) $(jsv_is_env B)"
	jsv_set_param N 'a  *'
	jsv_set_param P ''
	jsv_sub_add_param l_hard h_vmem 2G
	jsv_sub_add_param l_hard h_rt 7
	jsv_sub_del_param l_hard lic
	jsv_sub_del_param l_hard nothing
	jsv_add_env B 'x y'
	jsv_mod_env A ''
	jsv_del_env C
	jsv_del_env D
	jsv_log_warning "$(jsv_get_param N)"
	jsv_correct "it is" better
}
. "$SGE_ROOT/util/resources/jsv/jsv_include.sh"
jsv_main
`
	const job = "START\nPARAM VERSION 1.0\nPARAM N $(touch planted) `touch planted` \"'\nPARAM l_hard h_rt=60,lic\nPARAM e\n" +
		"ENV ADD A \\ back  slash \nENV ADD C c\nENV ADD x;touch${IFS}planted v\nENV ADD é=1 v\nBEGIN\n"
	want := []string{
		"SEND ENV", "STARTED",
		"LOG INFO true $(touch planted) `touch planted` \"' false <>",
		"LOG INFO true 60 false ",
		"LOG INFO true \\ back  slash  false",
		"PARAM N a  *", "PARAM P", "PARAM l_hard h_rt=60,lic,h_vmem=2G", "PARAM l_hard lic,h_vmem=2G,h_rt=7", "PARAM l_hard h_vmem=2G,h_rt=7",
		"ENV ADD B x y", "ENV MOD A", "ENV DEL C",
		"LOG WARNING a  *", "RESULT STATE CORRECT it is better",
	}
	for _, shell := range []string{"sh", "bash"} {
		t.Run(shell, func(t *testing.T) {
			work := t.TempDir()
			cmd := exec.Command(shell, "-c", script)
			cmd.Dir = work
			cmd.Env = []string{"PATH=/usr/bin:/bin", "SGE_ROOT=" + dir}
			cmd.Stdin = strings.NewReader(job + job + "QUIT\nSTART\n")
			out, err := cmd.CombinedOutput()
			got := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
			if diff := cmp.Diff(slices.Concat(want, want), got); err != nil || diff != "" {
				t.Errorf("%v: want (-) and got (+):\n%s", err, diff)
			}
			if names, err := os.ReadDir(work); err != nil || len(names) > 0 {
				t.Errorf("a value was run as a command: %v (%v)", names, err)
			}
		})
	}
	cmd := exec.Command(dir + "/util/resources/jsv/jsv.sh")
	cmd.Env = []string{"PATH=/usr/bin:/bin", "SGE_ROOT=" + dir}
	cmd.Stdin = strings.NewReader("START\nPARAM b y\nBEGIN\nQUIT\n")
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "STARTED\nRESULT STATE ACCEPT accepted\n" {
		t.Errorf("the script to begin with: %q (%v)", out, err)
	}
}
