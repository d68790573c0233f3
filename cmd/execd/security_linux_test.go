package main_test

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/testenv"
)

// attempts is the head of a job that tries what it must not be able to do. A
// line with BREACH says that it could.
const attempts = `#!/bin/sh
export SHEPHERD=$PPID
try() { if "$@" >/dev/null 2>&1; then echo "BREACH: $*"; fi; }
tryto() { if sh -c "$1" >/dev/null 2>&1; then echo "BREACH: $1"; fi; }
`

// attacked checks the output of a job of attempts.
func attacked(t *testing.T, r result, status int) {
	t.Helper()
	if strings.Contains(r.stdout, "BREACH") || !strings.HasSuffix(r.stdout, "over\n") {
		t.Errorf("the job says:\n%s", r.stdout)
	}
	if r.status != status {
		t.Errorf("exit status %d, expected %d", r.status, status)
	}
	if t.Failed() {
		t.Log(r.stderr)
	}
}

// asBob runs a shell command as another user than alice, outside of any job.
func asBob(t *testing.T, command string) (string, error) {
	t.Helper()
	cmd := exec.Command("sh", "-c", command)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: bob, Gid: bob}}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// siteFile makes a program of the site, in a directory that only root can change.
func siteFile(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	testenv.LetIn(t, dir)
	path := filepath.Join(dir, "procedure")
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// rootFile makes a file that only root may write, or not even others read.
func (w *world) rootFile(t *testing.T, name, text string, perm fs.FileMode) string {
	t.Helper()
	path := filepath.Join(w.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), perm); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, perm); err != nil {
		t.Fatal(err)
	}
	return path
}

// unchanged checks that a file of root's still is what it was.
func unchanged(t *testing.T, path, text string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil || string(b) != text {
		t.Errorf("%s holds %q, %v", path, b, err)
	}
	info, err := os.Lstat(path)
	if err == nil && (info.Sys().(*syscall.Stat_t).Uid != 0 || !info.Mode().IsRegular()) {
		t.Errorf("%s belongs to user ID %d, %s", path, info.Sys().(*syscall.Stat_t).Uid, info.Mode())
	}
}

func TestNewlineInAnArgumentChangesNothing(t *testing.T) {
	t.Parallel()
	w := inWorld(t, asRoot)
	evil := w.write(t, "evil", "#!/bin/sh\nid -u > "+w.dir+"/evil.ran\n")
	job := w.write(t, "job", "#!/bin/sh\nid -un\nfor i do printf '<%s>\\n' \"$i\"; done\nprintf '<%s>\\n' \"$MULTI\"\n")
	arg := "x\njob_owner=bob\nepilog=root@" + evil + "\nprolog=root@" + evil
	r := w.run(t, "--as", "alice", "-cwd", "-v", "MULTI=a\nUSER=bob\nLD_PRELOAD=x", job, arg, "njob_args=0\n\n", "")
	want := "alice\n<" + arg + ">\n<njob_args=0\n\n>\n<>\n<a\nUSER=bob\nLD_PRELOAD=x>\n"
	if r.status != 0 || r.stdout != want {
		t.Errorf("exit status %d, standard output %q, expected %q; %s", r.status, r.stdout, want, r.stderr)
	}
	if _, err := os.Stat(w.dir + "/evil.ran"); err == nil {
		t.Error("the epilog of the argument ran")
	}
	for _, option := range []string{"-o", "-e", "-i"} {
		r := w.run(t, "--as", "alice", "-cwd", option, "out\njob_owner=bob", job)
		if r.status != 125 || !strings.Contains(r.stderr, "contains a newline") || r.stdout != "" {
			t.Errorf("%s: exit status %d, %s", option, r.status, r.stderr)
		}
	}
	w.gone(t)
}

// TestScriptsTakeNothingOfRootsEnvironment checks that options in a user's script cannot read
// variables of root's environment.
func TestScriptsTakeNothingOfRootsEnvironment(t *testing.T) {
	t.Parallel()
	w := inWorld(t, asRoot)
	w.write(t, "options", "-V -v FROM_ROOT\n")
	for name, c := range map[string]struct {
		options []string
		embeds  string
		want    string
	}{
		"-V in the script":       {nil, "-V", "value unset"},
		"-v NAME in the script":  {nil, "-v FROM_ROOT", "value "},
		"-@ in the script":       {nil, "-@ options", "value "},
		"-@ in the command":      {[]string{"-@", "options"}, "", "value "},
		"-V in the command":      {[]string{"-V"}, "-V", "value secret"},
		"-v NAME in the command": {[]string{"-v", "FROM_ROOT"}, "-v FROM_ROOT", "value secret"},
	} {
		t.Run(name, func(t *testing.T) {
			job := w.write(t, "job", "#!/bin/sh\n#$ "+c.embeds+"\necho value ${FROM_ROOT-unset}\n")
			cmd := w.command(append(append([]string{"run", "--as", "alice", "-cwd"}, c.options...), job)...)
			cmd.Env = append(slices.Clip(cmd.Env), "FROM_ROOT=secret")
			r := finish(t, cmd)
			if strings.TrimSpace(r.stdout) != strings.TrimSpace(c.want) || r.status != 0 {
				t.Errorf("exit status %d, standard output %q, expected %q; %s", r.status, r.stdout, c.want, r.stderr)
			}
		})
	}
	w.gone(t)
}

// TestProceduresRunInAnEnvironmentOfTheirOwn checks that the user cannot choose which programs a
// site's procedure calls.
func TestProceduresRunInAnEnvironmentOfTheirOwn(t *testing.T) {
	for name, who := range map[string]string{"root": "root@", "another user": "bob@", "the owner": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := inWorld(t, asRoot)
			report := w.dir + "/report"
			if err := os.Mkdir(report, 0o777); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(report, 0o777); err != nil {
				t.Fatal(err)
			}
			// Both call programs without a path, as procedures do.
			procedure := siteFile(t, `#!/bin/sh
{ id -u; env; } > `+report+`/$1 && exit 0
`)
			w.write(t, "conf/queues/q", plainQueue+"prolog "+who+procedure+" prolog\nepilog "+who+procedure+" epilog\n")
			// Planted where the original looks first.
			planted := w.write(t, "planted/id", "#!/bin/sh\n/usr/bin/id -u > "+report+"/planted\n")
			w.write(t, "startup", "/usr/bin/id -u > "+report+"/startup\n")
			job := w.write(t, "job", `#!/bin/sh
for i in id env sh; do cp `+planted+` $TMPDIR/$i; done
echo "$PATH"
`)
			vars := []string{
				"PATH=" + w.dir + "/planted:/nowhere", "LD_PRELOAD=/nowhere/x.so", "LD_LIBRARY_PATH=/nowhere", "LD_AUDIT=/nowhere/a.so",
				"BASH_ENV=" + w.dir + "/startup", "ENV=" + w.dir + "/startup", "IFS=/", "PYTHONPATH=/nowhere", "PERL5OPT=-Mnowhere",
				"SHELLOPTS=xtrace", "PS4=$(" + planted + ")", "GCONV_PATH=/nowhere", "MINE=value",
			}
			r := w.run(t, "--as", "alice", "-cwd", "--conf", "conf", "-v", strings.Join(vars, ","), job)
			if r.status != 0 || !strings.Contains(r.stdout, w.dir+"/planted:/nowhere") {
				t.Errorf("exit status %d: %s%s", r.status, r.stdout, r.stderr)
			}
			uid := map[string]string{"root@": "0", "bob@": "20002", "": "20001"}[who]
			for _, step := range []string{"prolog", "epilog"} {
				b, err := os.ReadFile(report + "/" + step)
				if err != nil {
					t.Error(err)
					continue
				}
				lines := strings.Split(string(b), "\n")
				if lines[0] != uid {
					t.Errorf("%s ran as %s, expected %s", step, lines[0], uid)
				}
				for _, line := range lines[1:] {
					name, value, _ := strings.Cut(line, "=")
					switch {
					case name == "PATH" && strings.Contains(value, w.dir),
						strings.HasPrefix(name, "LD_"), name == "BASH_ENV", name == "ENV", name == "PYTHONPATH",
						name == "PERL5OPT", name == "PS4", name == "GCONV_PATH", name == "SHELLOPTS":
						t.Errorf("%s has %s", step, line)
					}
				}
				if mine := slices.Contains(lines, "MINE=value"); mine != (who == "") {
					t.Errorf("%s has MINE: %v", step, mine)
				}
			}
			for _, name := range []string{"planted", "startup"} {
				if b, err := os.ReadFile(report + "/" + name); err == nil {
					t.Errorf("%s ran as user id %s", name, b)
				}
			}
		})
	}
}

// TestJobCannotWriteStateFiles checks that a job cannot change its own outcome.
func TestJobCannotWriteStateFiles(t *testing.T) {
	t.Parallel()
	w := inWorld(t, asRoot)
	job := w.write(t, "job", attempts+`
cd "$SGE_JOB_SPOOL_DIR" || exit 1
for f in exit_status error usage trace pid job_pid addgrpid config environment arguments signal tmpdir checkpointed noresources foreground new; do
	tryto "echo 12 > $f"
	tryto "echo 12 >> $f"
	try rm -f $f
	try mv $f other
	try ln -s /etc/passwd $f.link
	try chmod 666 $f
	try chown alice $f
done
try mkdir dir
try chmod 777 .
try mv ../1.1 ../1.2
try rmdir ../1.1
try rm -rf ../1.1
tryto "echo x > ../../jobseqnum"
tryto "echo x > ../../job_scripts/7"
try mv ../../job_scripts ../../mine
echo over
exit 7
`)
	r := w.run(t, "--as", "alice", "-cwd", "--json", "out", job)
	// rm -f of a file that is not there has nothing to do, and succeeds.
	var lines []string
	for line := range strings.Lines(r.stdout) {
		if f, ok := strings.CutPrefix(line, "BREACH: rm -f "); ok && slices.Contains([]string{"arguments", "usage", "signal", "checkpointed", "noresources", "new"}, strings.TrimSpace(f)) {
			continue
		}
		lines = append(lines, line)
	}
	r.stdout = strings.Join(lines, "")
	attacked(t, r, 7)
	var o outcomeJSON
	if w.outcome(t, "out", &o); o.Failed != 0 || o.ExitStatus != 7 || o.Reason != "" {
		t.Errorf("outcome %+v", o)
	}
	w.gone(t)
}

// TestSignalsCannotBeRedirected checks that files of process IDs that a job writes do not redirect
// signals.
func TestSignalsCannotBeRedirected(t *testing.T) {
	t.Parallel()
	w := inWorld(t, asRoot)
	stranger := exec.Command("sleep", "1000")
	stranger.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: &syscall.Credential{Uid: bob, Gid: bob}}
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stranger.Process.Kill(); _ = stranger.Wait() }()
	job := w.write(t, "job", fmt.Sprintf(`#!/bin/sh
trap '' TERM INT HUP USR2
for f in pid pid.1 job_pid qrsh_pid_file osjobid; do
	echo %d > $TMPDIR/$f
	{ echo %[1]d > "$SGE_JOB_SPOOL_DIR/$f"; } 2>/dev/null
done
kill %[1]d 2>/dev/null && echo BREACH
echo started
while :; do sleep 0.01; done
`, stranger.Process.Pid))
	l := w.start(t, "--as", "alice", "-cwd", "-notify", job)
	l.expect("^started$")
	l.signal(unix.SIGINT)
	l.expect("^execd: the job is notified")
	l.signal(unix.SIGINT)
	l.expect("was ended on request, by signal KILL")
	l.end(137)
	if err := stranger.Process.Signal(syscall.Signal(0)); err != nil || state(t, fmt.Sprint(stranger.Process.Pid)) == 'Z' {
		t.Errorf("the process of another user was ended: %v", err)
	}
	if strings.Contains(l.seen.String(), "BREACH") {
		t.Error(&l.seen)
	}
	w.gone(t)
}

// TestOtherUsersReadNothing checks that other users cannot read the data of a job.
func TestOtherUsersReadNothing(t *testing.T) {
	t.Parallel()
	w := inWorld(t, asRoot)
	fifo(t, w, "go")
	script := w.write(t, "home/job", "#!/bin/sh\n# secret-in-the-script\necho $TMPDIR\necho secret > $TMPDIR/file\nls / >/dev/null\necho started\nread x < "+w.dir+"/go\n")
	if err := os.Chmod(script, 0o600); err != nil {
		t.Fatal(err)
	}
	l := w.start(t, "--as", "alice", "-cwd", "-N", "named", "-v", "TOKEN=secret-in-the-environment", script, "secret-in-an-argument")
	tmpdir := l.expect("^/tmp/")
	l.expect("^started$")
	// Bob may not list the directory of the job, but knows which files there are. He looks from
	// outside of the namespace, by the path that it has here.
	entries, err := os.ReadDir(w.spool + "/active_jobs/1.1")
	if err != nil {
		t.Fatal(err)
	}
	var files strings.Builder
	for _, e := range entries {
		files.WriteString("active_jobs/1.1/" + e.Name() + " ")
	}
	out, _ := asBob(t, `cd `+w.spool+` || exit
for f in `+files.String()+`job_scripts/* `+tmpdir+`/* `+tmpdir+` /proc/[0-9]*/environ; do
	[ -d $f ] && ls $f || cat $f
done 2>/dev/null
grep -rl secret . `+tmpdir+` 2>/dev/null
`)
	if strings.Contains(out, "secret") {
		t.Errorf("bob has read:\n%s", out)
	}
	if !strings.Contains(out, "shepherd started") {
		t.Errorf("bob has not even looked: %s", out)
	}
	w.feed(t, "go")
	l.end(0)
	w.gone(t)
}

// TestJobAgainstItsShepherd checks that a job can neither trace nor end its shepherd.
func TestJobAgainstItsShepherd(t *testing.T) {
	text := attempts + `
for a in trace memory descriptor%s; do try ` + "%s" + ` $a $SHEPHERD; done
tryto 'cat /proc/$SHEPHERD/environ'
tryto 'cat /proc/$SHEPHERD/mem'
tryto 'ls /proc/$SHEPHERD/fd'
tryto 'ls -L /proc/$SHEPHERD/cwd'
echo over
`
	t.Run("of root", func(t *testing.T) {
		t.Parallel()
		w := inWorld(t, asRoot)
		job := w.write(t, "job", fmt.Sprintf(text, " signal", base+"/bin/attack"))
		attacked(t, w.run(t, "--as", "alice", "-cwd", job), 0)
	})
	t.Run("of the same user", func(t *testing.T) {
		t.Parallel()
		w := inWorld(t, asUser)
		job := w.write(t, "job", fmt.Sprintf(text, "", base+"/bin/attack"))
		attacked(t, w.run(t, "-cwd", job), 0)
	})
	// The user of the job may kill the supervisor. The job then ends as well, and its end is reported.
	t.Run("a killed shepherd takes the job with it", func(t *testing.T) {
		t.Parallel()
		w := inWorld(t, asUser)
		job := w.write(t, "job", "#!/bin/sh\nsetsid sleep 1000 &\necho $! > child\nsync\nkill -KILL $PPID\nsleep 1000\n")
		r := w.run(t, "-cwd", "--json", "out", job)
		if r.status != 125 || !strings.Contains(r.stderr, "execd: job 1 (job) is lost: its shepherd was ended by signal KILL") {
			t.Errorf("exit status %d, %s", r.status, r.stderr)
		}
		b, err := os.ReadFile(w.dir + "/child")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat("/proc/" + strings.TrimSpace(string(b))); err == nil {
			t.Errorf("process %s of the job is still there", b)
		}
		var o outcomeJSON
		if w.outcome(t, "out", &o); o.Failed != 19 {
			t.Errorf("outcome %+v", o)
		}
		w.gone(t)
	})
}

// TestGroupIDOfAStranger checks that a job does not get a group ID that a process of another user
// has, and that the process survives the end of the job.
func TestGroupIDOfAStranger(t *testing.T) {
	const first = 70001
	w := inWorld(t, asRoot)
	w.write(t, "conf/conf/global", fmt.Sprintf("gid_range %d-%d\n", first, first+2))
	strangers := map[int]*exec.Cmd{}
	hold := func(gid int) {
		cmd := exec.Command("sleep", "1000")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: bob, Gid: bob, Groups: []uint32{uint32(gid)}}}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		strangers[gid] = cmd
	}
	defer func() {
		for _, cmd := range strangers {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}()
	alive := func() {
		t.Helper()
		for gid, cmd := range strangers {
			if state(t, fmt.Sprint(cmd.Process.Pid)) == 'Z' {
				t.Errorf("the process with group id %d was ended", gid)
			}
		}
	}
	args := []string{"--as", "alice", "-cwd", "--conf", "conf", w.write(t, "job", "#!/bin/sh\nid -G\n")}
	for held := range 3 {
		groups := strings.Fields(w.run(t, args...).stdout)
		got := 0
		for _, g := range groups {
			if n := len(g); n == 5 && strings.HasPrefix(g, "7000") {
				_, _ = fmt.Sscan(g, &got)
			}
		}
		if got < first || got > first+2 || strangers[got] != nil {
			t.Fatalf("with %d ids held by others the job has groups %v", held, groups)
		}
		alive()
		hold(got)
	}
	r := w.run(t, append(args, "-")...)
	if r.status != 125 || !strings.Contains(r.stderr, "execd run: all 3 IDs of gid_range are in use by processes of this host") || r.stdout != "" {
		t.Errorf("exit status %d, %s%s", r.status, r.stdout, r.stderr)
	}
	alive()
	w.gone(t)
}
