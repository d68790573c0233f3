// Package packaging is what packages are made of: make package. Its tests look at
// what came of that (EXECD_TEST_PACKAGES), install it below a scratch directory, and
// have systemd look at the unit.
package packaging

import (
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/cell/command"
	"github.com/execd-project/execd/internal/testenv"
)

//go:embed execd.service
var unit string

// pages are the manual pages that packages have.
func pages(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, p := range glob(t, "../docs/man/*.[1-8]") {
		names = append(names, "/usr/share/man/man"+p[len(p)-1:]+"/"+filepath.Base(p)+".gz")
	}
	for _, p := range glob(t, "../docs/man/commands/*.1") {
		names = append(names, "/usr/share/man/man1/execd-"+filepath.Base(p)+".gz")
	}
	return names
}

// glob returns the files that a pattern names; there must be some.
func glob(t *testing.T, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("no files %s: %v", pattern, err)
	}
	return paths
}

// Files that only one of the packages has, by the rules of its distributions.
var (
	onlyDeb = []string{"/usr/share/doc/execd/changelog.gz", "/usr/share/doc/execd/copyright", "/usr/share/lintian/overrides/execd", "/usr/share/zsh/vendor-completions/_execd"}
	onlyRpm = []string{"/usr/share/licenses/execd/LICENSE", "/usr/share/zsh/site-functions/_execd"}
)

// expected returns the files of a package, with their modes: those of both and some of its own.
func expected(t *testing.T, own []string) []string {
	t.Helper()
	list := []string{
		"-rw-r--r-- /etc/default/execd",
		"drwxr-xr-x /etc/execd",
		"lrwxrwxrwx /usr/bin/execd",
		"drwxr-xr-x /usr/lib/execd",
		"drwxr-xr-x /usr/lib/execd/bin",
		"-rwxr-xr-x /usr/lib/execd/execd",
		"-rwxr-xr-x /usr/lib/execd/execd-launcher",
		"-rwxr-xr-x /usr/lib/execd/sge_shepherd-go",
		"drwxr-xr-x /usr/lib/execd/share",
		"drwxr-xr-x /usr/lib/execd/share/man",
		"drwxr-xr-x /usr/lib/execd/share/man/man1",
		"-rw-r--r-- /usr/lib/systemd/system/execd-front.service",
		"-rw-r--r-- /usr/lib/systemd/system/execd-launcher.service",
		"-rw-r--r-- /usr/lib/systemd/system/execd-standalone.service",
		"-rw-r--r-- /usr/lib/systemd/system/execd.service",
		"-rw-r--r-- /usr/lib/systemd/user/execd.service",
		"-rw-r--r-- /usr/lib/sysusers.d/execd.conf",
		"-rw-r--r-- /usr/share/bash-completion/completions/execd",
		"drwxr-xr-x /usr/share/doc/execd",
		"drwxr-xr-x /usr/share/doc/execd/docs",
		"drwxr-xr-x /usr/share/doc/execd/docs/design",
		"drwxr-xr-x /usr/share/doc/execd/docs/guides",
		"drwxr-xr-x /usr/share/doc/execd/docs/images",
		"-rw-r--r-- /usr/share/doc/execd/CHANGELOG.md",
		"-rw-r--r-- /usr/share/doc/execd/README.md",
		"-rw-r--r-- /usr/share/doc/execd/SECURITY.md",
		"-rw-r--r-- /usr/share/doc/execd/execd.cdx.json",
		"-rw-r--r-- /usr/share/doc/execd/execd-launcher.cdx.json",
		"-rw-r--r-- /usr/share/doc/execd/sge_shepherd-go.cdx.json",
		"-rw-r--r-- /usr/share/fish/vendor_completions.d/execd.fish",
		"drwxr-xr-x /var/spool/execd",
	}
	for _, p := range slices.Concat(pages(t), own) {
		list = append(list, "-rw-r--r-- "+p)
		if filepath.Base(p) == "LICENSE" {
			list = append(list, "drwxr-xr-x "+filepath.Dir(p))
		}
	}
	for _, name := range append(command.Names(), "qacct") {
		list = append(list, "lrwxrwxrwx /usr/lib/execd/bin/"+name, "lrwxrwxrwx /usr/lib/execd/share/man/man1/"+name+".1.gz")
	}
	for name := range command.Absent {
		list = append(list, "lrwxrwxrwx /usr/lib/execd/bin/"+name)
	}
	for _, p := range slices.Concat(glob(t, "../docs/*.md"), glob(t, "../docs/*.json"), glob(t, "../docs/*/*.md"), glob(t, "../docs/images/*.png")) {
		list = append(list, "-rw-r--r-- /usr/share/doc/execd"+strings.TrimPrefix(p, ".."))
	}
	err := filepath.WalkDir("../examples", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		list = append(list, info.Mode().String()+" /usr/share/doc/execd"+strings.TrimPrefix(path, ".."))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(list)
	return list
}

// one returns the only package of a format.
func one(t *testing.T, pattern string) string {
	t.Helper()
	testenv.Require(t, testenv.Packages)
	paths, err := filepath.Glob(filepath.Join(os.Getenv(testenv.PackagesEnv), pattern))
	if err != nil || len(paths) != 1 {
		t.Fatalf("%d packages %s, want one: %q (%v)", len(paths), pattern, paths, err)
	}
	return paths[0]
}

// output runs a command.
func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// version matches versions that both dpkg and rpm sort correctly.
var version = regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+[A-Za-z0-9.+~]*$`)

func TestDeb(t *testing.T) {
	deb, want := one(t, "execd_*.deb"), expected(t, onlyDeb)
	var got []string
	for line := range strings.Lines(output(t, "dpkg-deb", "-c", deb)) {
		f := strings.Fields(line)
		mode, path := strings.Replace(f[0], "l---------", "lrwxrwxrwx", 1), "/"+strings.Trim(strings.TrimPrefix(f[5], "."), "/")
		if f[1] != "root/root" {
			t.Errorf("%s belongs to %s", path, f[1])
		}
		if mode[0] == 'd' && !slices.Contains(want, mode+" "+path) {
			if mode != "drwxr-xr-x" { // one above those that are meant
				t.Errorf("the folder %s has the mode %s", path, mode)
			}
			continue
		}
		got = append(got, mode+" "+path)
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want (-) and got (+):\n%s", diff)
	}
	if v := strings.TrimSpace(output(t, "dpkg-deb", "-f", deb, "Version")); !version.MatchString(v) {
		t.Errorf("the version is %q", v)
	}
	if c := output(t, "dpkg-deb", "-I", deb, "conffiles"); c != "/etc/default/execd\n" {
		t.Errorf("conffiles: %q", c)
	}
}

func TestRpm(t *testing.T) {
	rpm, want := one(t, "execd-[0-9]*.rpm"), expected(t, onlyRpm)
	var got []string
	const format = `[%{FILEMODES:perms} %{FILENAMES} %{FILEUSERNAME} %{FILEGROUPNAME} <%{FILEFLAGS:fflags}>\n]`
	for line := range strings.Lines(output(t, "rpm", "-qp", "--qf", format, rpm)) {
		f := strings.Fields(line)
		mode, path := strings.Replace(f[0], "l---------", "lrwxrwxrwx", 1), f[1]
		if f[2] != "root" || f[3] != "root" {
			t.Errorf("%s belongs to %s:%s", path, f[2], f[3])
		}
		if flags := f[4]; (flags == "<cn>") != (path == "/etc/default/execd") {
			t.Errorf("%s has the flags %s", path, flags)
		}
		got = append(got, mode+" "+path)
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want (-) and got (+):\n%s", diff)
	}
	if v := output(t, "rpm", "-qp", "--qf", "%{VERSION}", rpm); !version.MatchString(v) {
		t.Errorf("the version is %q", v)
	}
	for _, script := range []string{"POSTIN", "PREUN", "POSTUN"} {
		if text := output(t, "rpm", "-qp", "--qf", "%{"+script+"}", rpm); !strings.Contains(text, "systemctl") {
			t.Errorf("%s is %q", script, text)
		}
	}
}

// TestInstall installs the package below a scratch directory, upgrades it, and
// removes it again.
func TestInstall(t *testing.T) {
	deb := one(t, "execd_*.deb")
	testenv.Require(t, testenv.Root)
	root := t.TempDir()
	for _, dir := range []string{"updates", "info"} {
		if err := os.MkdirAll(root+"/var/lib/dpkg/"+dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(root+"/var/lib/dpkg/status", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	// root contains no shell. So dpkg runs the scripts outside, with the path of root in DPKG_ROOT.
	dpkg := func(args ...string) {
		t.Helper()
		output(t, "dpkg", append([]string{"--root=" + root, "--force-script-chrootless", "--log=/dev/null"}, args...)...)
	}
	dpkg("-i", deb)
	if out := output(t, root+"/usr/bin/execd", "version"); !strings.HasPrefix(out, "execd ") {
		t.Errorf("version: %q", out)
	}
	// It finds its supervisor: what is missing then is an option.
	out, err := exec.Command(root+"/usr/bin/execd", "run", "-verify", "-b", "y", "true").CombinedOutput()
	if strings.Contains(string(out), "sge_shepherd-go") {
		t.Errorf("%s (%v)", out, err)
	}
	firstGPUJob(t, root)
	if _, err := exec.LookPath("systemd-sysusers"); err == nil {
		if users, err := os.ReadFile(root + "/etc/passwd"); err != nil || !strings.HasPrefix(string(users), "execd:") && !strings.Contains(string(users), "\nexecd:") {
			t.Errorf("there is no user execd: %q (%v)", users, err)
		}
	}
	const setting = "EXECD_OPTS=mine\n"
	if err := os.WriteFile(root+"/etc/default/execd", []byte(setting), 0o644); err != nil {
		t.Fatal(err)
	}
	dpkg("--force-confold", "-i", deb)
	if b, err := os.ReadFile(root + "/etc/default/execd"); err != nil || string(b) != setting {
		t.Errorf("after an upgrade the settings are %q (%v)", b, err)
	}
	if _, err := os.Stat(root + "/etc/systemd"); err == nil {
		t.Error("the unit was enabled")
	}

	running := root + "/var/spool/execd/agent/active_jobs/7.1"
	if err := os.MkdirAll(running, 0o755); err != nil {
		t.Fatal(err)
	}
	dpkg("-r", "execd")
	if _, err := os.Stat(root + "/usr/bin/execd"); err == nil {
		t.Error("execd is still there")
	}
	dpkg("-P", "execd")
	if _, err := os.Stat(running); err != nil {
		t.Errorf("purge has removed a job: %v", err)
	}
	if err := os.Remove(running); err != nil {
		t.Fatal(err)
	}
	dpkg("-i", deb)
	dpkg("-P", "execd")
	for _, path := range []string{"/var/spool/execd", "/etc/default/execd", "/usr/lib/execd"} {
		if _, err := os.Lstat(root + path); err == nil {
			t.Errorf("%s is left", path)
		}
	}
}

// firstGPUJob checks that one command of a user, after the installation below root, runs a job with a GPU.
func firstGPUJob(t *testing.T, root string) {
	t.Helper()
	const nobody, uuid = 65534, "GPU-11111111-aaaa-bbbb-cccc-000000000001"
	gpus, home := t.TempDir(), t.TempDir()
	testenv.GPUs(t, gpus, testenv.GPU{Vendor: "nvidia", Address: "0000:41:00.0", Model: "NVIDIA A40", UUID: uuid})
	for _, dir := range []string{root, gpus, home} {
		testenv.LetIn(t, dir)
	}
	if err := os.Chown(home, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), root+"/usr/bin/execd", "run", "--gpu-root", gpus, "-l", "gpu=1", "-wd", "/", "-N", "first", "-b", "y", "echo $SGE_HGR_gpu $CUDA_VISIBLE_DEVICES")
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + home}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	var said strings.Builder
	cmd.Stderr = &said
	if out, err := cmd.Output(); err != nil || string(out) != "0 "+uuid+"\n" {
		t.Errorf("the first job with a GPU: %v, %q\n%s", err, out, said.String())
	}
}

// tree returns the contents of a directory by path: the mode and a hash of the contents of each
// file, and the target of each link.
func tree(t *testing.T, root string) map[string]string {
	t.Helper()
	list := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		what := info.Mode().String()
		switch {
		case d.Type() == fs.ModeSymlink:
			to, err := os.Readlink(path)
			if err != nil {
				return err
			}
			what += " to " + to
		case d.Type().IsRegular():
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			what += fmt.Sprintf(" %x", sha256.Sum256(b))
		}
		list[strings.TrimPrefix(path, root)] = what
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestInstallRpm installs the other package below a scratch directory, upgrades it and
// removes it; what it installs is what the first one does.
func TestInstallRpm(t *testing.T) {
	deb, rpm := one(t, "execd_*.deb"), one(t, "execd-[0-9]*.rpm")
	testenv.Require(t, testenv.Root)
	root, same := t.TempDir(), t.TempDir()
	// The scripts need a shell below root, and have a test of their own.
	run := func(args ...string) string {
		t.Helper()
		return output(t, "rpm", append([]string{"--root=" + root, "--dbpath=/rpm", "--force-debian", "--nodeps", "--noscripts"}, args...)...)
	}
	verify := func(want string) {
		t.Helper()
		out, _ := exec.Command("rpm", "--root="+root, "--dbpath=/rpm", "-V", "--nodeps", "execd").CombinedOutput() // it fails if anything differs
		if got := strings.Join(strings.Fields(string(out)), " "); got != want {
			t.Errorf("rpm -V says %q, expected %q", got, want)
		}
	}
	run("-i", rpm)
	verify("")
	output(t, "dpkg-deb", "-x", deb, same)
	want, got := tree(t, same), tree(t, root)
	maps.DeleteFunc(want, func(path, _ string) bool {
		return slices.Contains(onlyDeb, path) || strings.HasPrefix(path, "/usr/share/lintian") || strings.HasPrefix(path, "/usr/share/zsh")
	})
	maps.DeleteFunc(got, func(path, _ string) bool {
		return strings.HasPrefix(path, "/rpm") || strings.HasPrefix(path, "/usr/share/licenses") || strings.HasPrefix(path, "/usr/share/zsh")
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the .deb has (-), and the .rpm (+):\n%s", diff)
	}
	if out := output(t, root+"/usr/bin/execd", "version"); !strings.HasPrefix(out, "execd ") {
		t.Errorf("version: %q", out)
	}
	settings := root + "/etc/default/execd"
	if err := os.WriteFile(settings, []byte("EXECD_OPTS=mine and more\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	verify("S.5....T. c /etc/default/execd")
	run("-U", "--replacepkgs", rpm)
	if b, err := os.ReadFile(settings); err != nil || string(b) != "EXECD_OPTS=mine and more\n" {
		t.Errorf("after an upgrade the settings are %q (%v)", b, err)
	}
	running := root + "/var/spool/execd/agent/active_jobs/7.1"
	if err := os.MkdirAll(running, 0o755); err != nil {
		t.Fatal(err)
	}
	run("-e", "execd")
	if _, err := os.Stat(running); err != nil {
		t.Errorf("the removal has removed a job: %v", err)
	}
	for path := range tree(t, root) {
		if strings.Contains(path, "execd") && !strings.HasPrefix(path, "/var/spool/execd") && path != "/etc/default/execd.rpmsave" {
			t.Errorf("%s is left", path)
		}
	}
}

// TestRpmScripts runs the scripts of the .rpm with a systemctl that writes down what it is
// told.
func TestRpmScripts(t *testing.T) {
	rpm := one(t, "execd-[0-9]*.rpm")
	dir := t.TempDir()
	const systemd = "/run/systemd/system"
	if err := os.WriteFile(dir+"/systemctl", []byte("#!/bin/sh\necho \"$*\" >>"+dir+"/said\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	// Without this the script would make the user on this host.
	if err := os.WriteFile(dir+"/systemd-sysusers", []byte("#!/bin/sh\necho \"$*\" >>"+dir+"/users\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		script, count string
		want          string
	}{
		"the first installation":           {"POSTIN", "1", "daemon-reload\n--no-reload preset execd.service execd-standalone.service\n"},
		"the new package of an upgrade":    {"POSTIN", "2", "daemon-reload\n"},
		"the end of the former package":    {"PREUN", "1", ""},
		"the former package of an upgrade": {"POSTUN", "1", "daemon-reload\ntry-restart execd.service execd-standalone.service execd-launcher.service execd-front.service\n"},
		"the removal":                      {"PREUN", "0", "--no-reload disable --now execd.service execd-standalone.service execd-front.service execd-launcher.service\n"},
		"what is left of it":               {"POSTUN", "0", "daemon-reload\n"},
	} {
		text := output(t, "rpm", "-qp", "--qf", "%{"+c.script+"}", rpm)
		if !strings.Contains(text, systemd) {
			t.Fatalf("%s does not ask whether there is systemd: %q", c.script, text)
		}
		for _, there := range []bool{true, false} {
			want, place := c.want, dir
			if !there {
				want, place = "", dir+"/none"
			}
			cmd := exec.Command("/bin/sh", "-c", strings.ReplaceAll(text, systemd, place), "script", c.count)
			cmd.Env = []string{"PATH=" + dir + ":/usr/bin:/bin"}
			if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
				t.Errorf("%s, with systemd %v: %v, %q", what, there, err, out)
			}
			said, err := os.ReadFile(dir + "/said")
			if err != nil && !errors.Is(err, fs.ErrNotExist) || string(said) != want {
				t.Errorf("%s, with systemd %v: systemctl was told %q, expected %q (%v)", what, there, said, want, err)
			}
			users, _ := os.ReadFile(dir + "/users")
			if made := string(users) == "execd.conf\n"; made != (c.script == "POSTIN") {
				t.Errorf("%s, with systemd %v: systemd-sysusers was told %q", what, there, users)
			}
			_, _ = os.Remove(dir+"/said"), os.Remove(dir+"/users")
		}
	}
}

// standaloneUnit returns the unit execd-standalone.service, which make package derives from
// execd.service. TestUnitsPassSystemdAnalyze compares it with the one in the package.
func standaloneUnit() string {
	var lines []string
	for l := range strings.Lines(unit) {
		switch {
		case strings.HasPrefix(l, "Environment=EXECD_COMMAND="):
			continue
		case strings.HasPrefix(l, "Description="):
			l = "Description=execd standalone, a batch system on this host\n"
		case strings.HasPrefix(l, "Documentation="):
			l = "Documentation=man:execd-standalone(8) man:execd-conf(5)\nConflicts=execd.service\n"
		}
		lines = append(lines, strings.Replace(l, " $EXECD_COMMAND ", " standalone ", 1))
	}
	return strings.Join(lines, "")
}

// TestUnitsPassSystemdAnalyze checks the units of the package with systemd.
func TestUnitsPassSystemdAnalyze(t *testing.T) {
	deb := one(t, "execd_*.deb")
	root := t.TempDir()
	output(t, "dpkg-deb", "-x", deb, root)
	text, err := os.ReadFile(root + "/usr/lib/systemd/system/execd.service")
	if err != nil || string(text) != unit {
		t.Fatalf("the unit of the package is another: %v", err)
	}
	for path, starts := range map[string]string{
		"system/execd.service":            "/usr/bin/execd $EXECD_COMMAND $EXECD_OPTS",
		"system/execd-standalone.service": "/usr/bin/execd standalone $EXECD_OPTS",
		"system/execd-front.service":      "/usr/bin/execd $EXECD_COMMAND $EXECD_OPTS --front-user execd --only front",
		"system/execd-launcher.service":   "/usr/bin/execd $EXECD_COMMAND $EXECD_OPTS --front-user execd --only launcher",
		"user/execd.service":              "/usr/bin/execd standalone $EXECD_OPTS",
	} {
		text, err := os.ReadFile(root + "/usr/lib/systemd/" + path)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "\nExecStart="+starts+"\n") {
			t.Errorf("%s does not start %s:\n%s", path, starts, text)
		}
		if path == "system/execd-standalone.service" && string(text) != standaloneUnit() {
			t.Errorf("TestSystemdStartsBatchSystemUnits starts another %s than the package has:\n%s", path, text)
		}
		there := t.TempDir() + "/" + filepath.Base(path)
		if err := os.WriteFile(there, []byte(strings.ReplaceAll(string(text), "=/usr/bin/execd ", "="+root+"/usr/bin/execd ")), 0o644); err != nil {
			t.Fatal(err)
		}
		if out := output(t, "systemd-analyze", "verify", "--man=no", there); strings.TrimSpace(out) != "" {
			t.Errorf("systemd says of %s:\n%s", path, out)
		}
	}
}

// TestFrontUnitIsConfined checks that systemd rates the unit of the front as well confined, and that
// jobs get the same limits from the launcher's unit as from that of a daemon of one process.
func TestFrontUnitIsConfined(t *testing.T) {
	testenv.Require(t, testenv.Packages)
	const most = 2.0
	out := output(t, "systemd-analyze", "security", "--no-pager", "--offline=true", "execd-front.service")
	m := regexp.MustCompile(`Overall exposure level for execd-front\.service: ([0-9.]+)`).FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("systemd-analyze says\n%s", out)
	}
	if level, err := strconv.ParseFloat(m[1], 64); err != nil || level > most {
		t.Errorf("the exposure level is %s, expected at most %.1f:\n%s", m[1], most, out)
	}

	text, err := os.ReadFile("execd-launcher.service")
	if err != nil {
		t.Fatal(err)
	}
	inherited := regexp.MustCompile(`(?m)^(Limit[A-Z]+|TasksMax|UMask|IgnoreSIGPIPE|KillMode|OOM[A-Za-z]+)=.*$`)
	of := func(text string) []string { return slices.Sorted(slices.Values(inherited.FindAllString(text, -1))) }
	if diff := cmp.Diff(of(unit), of(string(text))); diff != "" {
		t.Errorf("execd.service has (-), execd-launcher.service has (+):\n%s", diff)
	}
}

// built makes a copy of what make install needs, with executables that are none: other tests use
// those of this tree.
func built(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	output(t, "cp", "-r", "../Makefile", "../docs", "../packaging", dir)
	if err := os.Mkdir(dir+"/bin", 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"execd", "execd-launcher", "sge_shepherd-go"} {
		if err := os.WriteFile(dir+"/bin/"+name, []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestManFindsPagesOfCommands makes man(1) look for the pages of the commands, in the package and
// in the files that make install installs.
func TestManFindsPagesOfCommands(t *testing.T) {
	testenv.Require(t, testenv.Man)
	unpacked, installed := t.TempDir(), t.TempDir()
	output(t, "dpkg-deb", "-x", one(t, "execd_*.deb"), unpacked)
	output(t, "make", "-C", built(t), "-s", "install", "DESTDIR="+installed)
	for prefix, suffix := range map[string]string{unpacked + "/usr": ".1.gz", installed + "/usr/local": ".1"} {
		if err := os.Chmod(filepath.Dir(prefix), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, name := range append(command.Names(), "qacct") {
			if _, err := os.Stat(prefix + "/lib/execd/share/man/man1/" + name + suffix); err != nil {
				t.Error(err)
			}
		}
		for _, name := range []string{"qsub", "qacct"} {
			for what, search := range map[string]string{"PATH=" + prefix + "/lib/execd/bin:/usr/bin:/bin": name, "MANPATH=" + prefix + "/share/man": "execd-" + name} {
				cmd := exec.Command("man", "-w", search)
				cmd.Env = []string{"PATH=/usr/bin:/bin", what, "LC_ALL=C"}
				out, err := cmd.CombinedOutput()
				if want := prefix + "/share/man/man1/execd-" + name + suffix; err != nil || strings.TrimSpace(string(out)) != want {
					t.Errorf("%s man -w %s: %q (%v), want %s", what, search, out, err, want)
				}
			}
		}
	}
}

// TestUninstall removes all that make install has installed, and nothing else.
func TestUninstall(t *testing.T) {
	root := t.TempDir()
	for _, path := range []string{
		"/usr/local/bin", "/usr/local/share/man/man1", "/usr/local/lib/systemd/user", "/usr/local/share/man/man5", "/usr/local/share/man/man7", "/usr/local/share/man/man8",
		"/usr/local/share/bash-completion/completions", "/usr/local/share/zsh/site-functions", "/usr/local/share/fish/vendor_completions.d",
	} {
		if err := os.MkdirAll(root+path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"/usr/local/bin/qsub", "/usr/local/share/man/man1/qsub.1"} { // of somebody else
		if err := os.WriteFile(root+path, []byte("mine"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	before := tree(t, root)
	dir := built(t)
	output(t, "make", "-C", dir, "-s", "install", "DESTDIR="+root)
	if len(tree(t, root)) < len(before)+len(command.Names()) {
		t.Fatal("nothing was installed")
	}
	output(t, "make", "-C", dir, "-s", "uninstall", "DESTDIR="+root)
	if diff := cmp.Diff(before, tree(t, root)); diff != "" {
		t.Errorf("before (-), and after (+):\n%s", diff)
	}
}

// TestOverrides checks that the package accounts for each of its programs, which are linked
// statically: lintian takes any other one for an error.
func TestOverrides(t *testing.T) {
	contents, err := os.ReadFile("nfpm.yaml")
	if err != nil {
		t.Fatal(err)
	}
	overrides, err := os.ReadFile("lintian-overrides")
	if err != nil {
		t.Fatal(err)
	}
	programs := regexp.MustCompile(`src: bin/(\S+)\n +dst: /(usr/lib/execd/\S+)`).FindAllStringSubmatch(string(contents), -1)
	if len(programs) < 3 {
		t.Fatalf("programs in nfpm.yaml: %q", programs)
	}
	for _, p := range programs {
		if line := "execd: statically-linked-binary [" + p[2] + "]\n"; !strings.Contains(string(overrides), line) {
			t.Errorf("lintian-overrides lacks %s", line)
		}
	}
}

// TestSoakLintian checks the package with Debian's own checker.
func TestSoakLintian(t *testing.T) {
	testenv.Soak(t)
	testenv.Require(t, testenv.Lintian)
	deb := one(t, "execd_*.deb")
	cmd := exec.Command("lintian", "--allow-root", "--fail-on", "error", deb)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestPackageScriptsAreValidShell makes a shell parse the scripts of the packages.
func TestPackageScriptsAreValidShell(t *testing.T) {
	scripts, err := filepath.Glob("scripts/*")
	if err != nil || len(scripts) != 6 {
		t.Fatalf("scripts: %q (%v)", scripts, err)
	}
	for _, s := range scripts {
		cmd := exec.Command("/bin/sh", "-n", s)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", s, err, out)
		}
		f, err := os.Open(s)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		// Jobs are ended by nobody but their supervisors.
		if m := regexp.MustCompile(`\b(pkill|killall|kill|stop .*scope)\b`).Find(text); m != nil {
			t.Errorf("%s: %q", s, m)
		}
		if strings.Contains(s, "deb-") && !strings.HasPrefix(string(text), "#!/bin/sh\n") {
			t.Errorf("%s does not say what runs it", s)
		}
	}
}
