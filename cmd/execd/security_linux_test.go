package main_test

import (
	"bytes"
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
		t.Errorf("%s belongs to user id %d, %s", path, info.Sys().(*syscall.Stat_t).Uid, info.Mode())
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

// What a site's procedure calls is not the user's to choose.
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
			procedure := w.write(t, "procedure", `#!/bin/sh
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

// Whoever knows the number of the next job knows the name of its TMPDIR.
func TestPlantedTmpdir(t *testing.T) {
	for name, plant := range map[string]string{
		"an open directory with programs":      `mkdir 1.1.q; chmod 777 1.1.q; printf '#!/bin/sh\necho BREACH\n' > 1.1.q/ls; chmod 755 1.1.q/ls`,
		"a link to a directory of root":        `ln -s ../victim 1.1.q`,
		"a link to a directory of the user":    `ln -s ../alices 1.1.q`,
		"a link to nothing":                    `ln -s /nowhere/at/all 1.1.q`,
		"a file":                               `echo x > 1.1.q`,
		"a pipe":                               `mkfifo 1.1.q`,
		"a directory that only looks harmless": `mkdir 1.1.q; chmod 700 1.1.q`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := inWorld(t, asRoot)
			w.write(t, "conf/queues/q", plainQueue+"tmpdir "+w.dir+"/tmp\n")
			w.write(t, "alices/file", "alice's\n")
			victim := w.rootFile(t, "victim/file", "precious\n", 0o644)
			if err := os.Chown(w.dir, 0, 0); err != nil { // nor may alice exchange the tmpdir
				t.Fatal(err)
			}
			tmp := w.dir + "/tmp"
			if err := os.Mkdir(tmp, 0); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(tmp, 0o777|fs.ModeSticky); err != nil {
				t.Fatal(err)
			}
			if out, err := asBob(t, "cd "+tmp+" && "+plant); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			before := tree(t, w.dir)
			job := w.rootFile(t, "job", attempts+`
set -- $(ls -nd "$TMPDIR")
[ "$1 $3" = "drwx------ 20001" ] || echo "BREACH: TMPDIR is $1 of $3"
[ -z "$(/bin/ls -A "$TMPDIR")" ] || echo "BREACH: something is in TMPDIR"
case $PATH in $TMPDIR:*) ;; *) echo "BREACH: PATH is $PATH";; esac
[ "$TMPDIR" != `+tmp+`/1.1.q ] || echo "BREACH: the name was taken"
echo mine > "$TMPDIR"/file || exit 1
echo over
`, 0o644)
			before = append(before, tree(t, job)...)
			attacked(t, w.run(t, "--as", "alice", "-wd", "/", "--conf", w.dir+"/conf", job), 0)
			unchanged(t, victim, "precious\n")
			if info, err := os.Lstat(filepath.Dir(victim)); err != nil || info.Sys().(*syscall.Stat_t).Uid != 0 {
				t.Errorf("the directory of the victim: %v, %v", info, err)
			}
			after := tree(t, w.dir)
			if len(after) != len(before) {
				t.Errorf("before:\n%s\nafter:\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
			}
			for _, line := range before[:len(before)-1] {
				if !slices.Contains(after, line) {
					t.Errorf("changed or gone: %s", line)
				}
			}
		})
	}
}

// The owner of a job can put something else in the place of the TMPDIR.
func TestExchangedTmpdir(t *testing.T) {
	t.Parallel()
	w := inWorld(t, asRoot)
	victim := w.rootFile(t, "victim/file", "precious\n", 0o644)
	job := w.write(t, "job", `#!/bin/sh
ln -s `+w.dir+`/victim $TMPDIR/link
mkdir -p $TMPDIR/a/b && ln -s / $TMPDIR/a/b/root && chmod 0 $TMPDIR/a
ln `+w.dir+`/job $TMPDIR/hard
`)
	if r := w.run(t, "--as", "alice", "-cwd", job); r.status != 0 || strings.Contains(r.stderr, "cannot") {
		t.Errorf("exit status %d, %s", r.status, r.stderr)
	}
	unchanged(t, victim, "precious\n")
	if _, err := os.Stat(job); err != nil {
		t.Error(err)
	}
	job = w.write(t, "job", `#!/bin/sh
echo $TMPDIR
mv $TMPDIR $TMPDIR.moved && ln -s `+w.dir+`/victim $TMPDIR
`)
	r := w.run(t, "--as", "alice", "-cwd", job)
	tmpdir := strings.TrimSpace(r.stdout)
	defer os.Remove(tmpdir)
	defer os.RemoveAll(tmpdir + ".moved")
	if r.status != 0 || !strings.Contains(r.stderr, "execd: job 2: cannot remove "+tmpdir+": it is not the directory that was made for the job") {
		t.Errorf("exit status %d, %s", r.status, r.stderr)
	}
	unchanged(t, victim, "precious\n")
	w.gone(t)
}

// A job cannot write its own verdict.
func TestStateFilesAreNotTheUsers(t *testing.T) {
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
		if f, ok := strings.CutPrefix(line, "BREACH: rm -f "); ok && slices.Contains([]string{"usage", "signal", "checkpointed", "noresources", "new"}, strings.TrimSpace(f)) {
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

// Whatever files of process ids a job writes, no signal goes by them.
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

// What a user hands to a job is nobody else's to read.
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
	// Bob looks from outside of the namespace, by the path that it has here.
	out, _ := asBob(t, `cd `+w.spool+` || exit
for f in active_jobs/1.1/* job_scripts/* `+tmpdir+`/* `+tmpdir+` /proc/[0-9]*/environ; do
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

// Links of the user lead no further than the user.
func TestLinksInPaths(t *testing.T) {
	w := inWorld(t, asRoot)
	victim := w.rootFile(t, "victim", "precious\n", 0o644)
	secret := w.rootFile(t, "secret", "root's alone\n", 0o600)
	closed := w.dir + "/closed"
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	links := w.dir + "/links"
	if err := os.Mkdir(links, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"victim": victim, "secret": secret, "closed": closed, "loop": "loop", "passwd": "/etc/passwd"} {
		if err := os.Symlink(to, links+"/"+name); err != nil {
			t.Fatal(err)
		}
	}
	w.own(t, links)
	job := w.rootFile(t, "job", "#!/bin/sh\necho written\necho written >&2\ncat\necho started > "+w.dir+"/home/started\n", 0o644)
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"-o to a file of root":               {[]string{"-cwd", "-o", "links/victim"}, "cannot open standard output .*links/victim: permission denied"},
		"-e to a file of root":               {[]string{"-cwd", "-e", "links/victim"}, "cannot open standard error .*links/victim: permission denied"},
		"-o -j y to /etc/passwd":             {[]string{"-cwd", "-j", "y", "-o", "links/passwd"}, "cannot open standard output"},
		"-o into a closed directory":         {[]string{"-cwd", "-o", "links/closed/new"}, "cannot open standard output .*permission denied"},
		"-o is a closed directory":           {[]string{"-cwd", "-o", "links/closed"}, "cannot open standard output .*permission denied"},
		"-o in a circle":                     {[]string{"-cwd", "-o", "links/loop"}, "too many levels of symbolic links"},
		"-i from a secret":                   {[]string{"-cwd", "-i", "links/secret"}, "cannot open standard input .*links/secret: permission denied"},
		"-wd to a closed directory":          {[]string{"-wd", links + "/closed"}, "cannot change into working directory .*permission denied"},
		"output below a link that is closed": {[]string{"-wd", links + "/closed", "-o", "x"}, "cannot change into working directory .*permission denied"},
	} {
		t.Run(name, func(t *testing.T) {
			r := w.run(t, append(append([]string{"--as", "alice"}, c.args...), job)...)
			if r.status != 125 || !matches(c.want, r.stderr) || r.stdout != "" {
				t.Errorf("exit status %d, output %q, %s", r.status, r.stdout, r.stderr)
			}
			if _, err := os.Stat(w.dir + "/home/started"); err == nil {
				t.Error("the job ran")
			}
			unchanged(t, victim, "precious\n")
			if names, err := os.ReadDir(closed); err != nil || len(names) > 0 {
				t.Errorf("in the closed directory: %v, %v", names, err)
			}
		})
	}

	// A link to what is the user's own is the user's own matter.
	own := w.write(t, "home/own", "")
	if err := os.Symlink(own, links+"/own"); err != nil {
		t.Fatal(err)
	}
	if r := w.run(t, "--as", "alice", "-cwd", "-o", "links/own", job); r.status != 0 {
		t.Errorf("exit status %d, %s", r.status, r.stderr)
	}
	if b, _ := os.ReadFile(own); string(b) != "written\n" {
		t.Errorf("the job has written %q", b)
	}
}

// The script is read by root and given to the user: it must be one that the
// user could read, or one that root has chosen.
func TestScriptThroughALink(t *testing.T) {
	t.Parallel()
	w := inWorld(t, asRoot)
	secret := w.rootFile(t, "private/secret", "#!/bin/sh\necho root has chosen this\n", 0o600)
	home := w.dir + "/home"
	if err := os.Symlink(secret, home+"/job"); err != nil {
		t.Fatal(err)
	}
	w.own(t, home+"/job")
	options := w.write(t, "home/options", "#!/bin/sh\n#$ -@ "+secret+"\n")
	for name, args := range map[string][]string{
		"a script":          {home + "/job"},
		"a file of options": {"-@", home + "/job", "-b", "y", "true"},
		"options in a file": {options},
	} {
		r := w.run(t, append([]string{"--as", "alice", "-cwd"}, args...)...)
		if r.status != 125 || strings.Contains(r.stdout+r.stderr, "chosen") || !strings.Contains(r.stderr, "permission denied for user alice, and it is not read as root: ") {
			t.Errorf("%s: exit status %d, %s%s", name, r.status, r.stdout, r.stderr)
		}
	}
	// base is root's, and in a directory with the sticky bit.
	chosen := base + "/chosen-" + filepath.Base(w.dir)
	if err := os.WriteFile(chosen, []byte("#!/bin/sh\necho root has chosen this\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(chosen)
	if r := w.run(t, "--as", "alice", "-cwd", chosen); r.status != 0 || r.stdout != "root has chosen this\n" {
		t.Errorf("exit status %d, %s%s", r.status, r.stdout, r.stderr)
	}
}

// Options that somebody else has left in the working directory are not taken.
func TestPlantedOptions(t *testing.T) {
	t.Parallel()
	w := inWorld(t, asRoot)
	planted := w.write(t, ".sge_request", "-v PLANTED=yes -N planted\n")
	for uid, want := range map[int]string{bob: "", 0: "yes"} {
		if err := os.Chown(planted, uid, uid); err != nil {
			t.Fatal(err)
		}
		r := w.run(t, "--as", "alice", "-cwd", "-N", "x", "-b", "y", "echo $PLANTED")
		if warned := strings.Contains(r.stderr, "execd: warning: .sge_request is not read: it belongs to user id 20002"); r.stdout != want+"\n" || warned != (uid == bob) {
			t.Errorf("of user id %d: %s%s", uid, r.stdout, r.stderr)
		}
	}
}

// Descriptors of whoever calls execd run do not get into jobs and procedures,
// nor do terminal and files of the caller.
func TestDescriptors(t *testing.T) {
	t.Parallel()
	w := inWorld(t, asRoot)
	secret, err := os.Open(w.rootFile(t, "secret", "root's alone\n", 0o600))
	if err != nil {
		t.Fatal(err)
	}
	defer secret.Close()
	log, err := os.OpenFile(w.rootFile(t, "log", "old\n", 0o600), os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	list := "ls -l /proc/$$/fd\n"
	prolog := w.write(t, "prolog", "#!/bin/sh\n"+list)
	w.write(t, "conf/queues/q", plainQueue+"prolog "+prolog+"\nstarter_method "+w.write(t, "starter", "#!/bin/sh\n"+list+"exec \"$@\"\n")+"\n")
	job := w.write(t, "job", attempts+list+`
tryto 'cat <&1'
tryto 'cat <&2'
tryto 'cat /proc/$SHEPHERD/fd/3'
tryto ': > /proc/$SHEPHERD/fd/1'
[ -p /dev/stdout ] || echo "BREACH: standard output is no pipe"
echo over
`)
	cmd := w.command("run", "--as", "alice", "-cwd", "--conf", "conf", job)
	cmd.ExtraFiles = []*os.File{secret, log, secret}
	cmd.Stdout, cmd.Stderr = log, log
	finish(t, cmd)
	b, err := os.ReadFile(w.dir + "/log")
	if err != nil {
		t.Fatal(err)
	}
	if text := string(b); !strings.HasPrefix(text, "old\n") || strings.Contains(text, "BREACH") || !strings.Contains(text, "over\n") {
		t.Errorf("the log:\n%s", text)
	}
	seen := 0
	for line := range strings.Lines(string(b)) {
		from, to, found := strings.Cut(strings.TrimSpace(line), " -> ")
		if !found {
			continue
		}
		fd := from[strings.LastIndexByte(from, ' ')+1:]
		switch {
		case fd == "0" && to == "/dev/null", (fd == "1" || fd == "2") && strings.HasPrefix(to, "pipe:"):
			seen++
		case fd == "10": // the shell's own, of its script
		default:
			t.Errorf("open in a process of the job: %s", line)
		}
	}
	if seen != 9 {
		t.Errorf("prolog, starter and job have %d streams", seen)
	}

	// Who hands a descriptor on does not keep the caller waiting, nor writing
	// after the end.
	job = w.write(t, "job", "#!/bin/sh\n(setsid sleep 1000 &)\necho over\n")
	if r := w.run(t, "--as", "alice", "-cwd", job); r.status != 0 || r.stdout != "over\n" {
		t.Errorf("exit status %d, %s%s", r.status, r.stdout, r.stderr)
	}
}

// What the job of another user writes arrives whole, however it is taken.
func TestOutputOfAnotherUser(t *testing.T) {
	t.Parallel()
	w := inWorld(t, asRoot)
	const size = 3 << 20
	job := w.write(t, "job", fmt.Sprintf("#!/bin/sh\nhead -c %d /dev/zero\necho end\n", size))
	r := w.run(t, "--as", "alice", "-cwd", job)
	if len(r.stdout) != size+len("end\n") || !strings.HasSuffix(r.stdout, "end\n") {
		t.Errorf("%d bytes of output arrived", len(r.stdout))
	}
	// One stream: the order stays.
	var both bytes.Buffer
	cmd := w.command("run", "--as", "alice", "-cwd", w.write(t, "job", "#!/bin/sh\nfor i in 1 2 3 4 5; do echo out $i; echo err $i >&2; done\n"))
	cmd.Stdout = &both
	cmd.Stderr = cmd.Stdout
	finish(t, cmd)
	want := ""
	for i := range 5 {
		want += fmt.Sprintf("out %d\nerr %[1]d\n", i+1)
	}
	if !strings.HasPrefix(both.String(), want) {
		t.Errorf("the order was\n%s", &both)
	}
	// What a prolog leaves running is not waited for, though it has the pipe.
	prolog := w.write(t, "prolog", "#!/bin/sh\nsetsid sleep 1000 &\necho left $!\n")
	w.write(t, "conf/queues/q", plainQueue+"prolog "+prolog+"\n")
	r = w.run(t, "--as", "alice", "-cwd", "--conf", "conf", w.write(t, "job", "#!/bin/sh\necho over\n"))
	var left int
	if n, _ := fmt.Sscanf(r.stdout, "left %d\nover\n", &left); n != 1 || unix.Kill(left, unix.SIGKILL) != nil {
		t.Errorf("exit status %d, %s%s", r.status, r.stdout, r.stderr)
	}
	// A reader who goes away ends the job by SIGPIPE, as in any pipeline.
	cmd = exec.Command("sh", "-c", `{ "$0" run --as alice -cwd job; echo status $? >&2; } | head -c 1`, w.exe)
	cmd.Dir, cmd.Env = w.dir, w.env
	w.write(t, "job", "#!/bin/sh\nexec yes\n")
	if r := finish(t, cmd); !strings.Contains(r.stderr, "died through signal PIPE") || !strings.Contains(r.stderr, "status 141\n") {
		t.Errorf("%s", r.stderr)
	}
	w.gone(t)
}

// A job has the caller's terminal neither for reading nor for control.
func TestTerminalOfTheCaller(t *testing.T) {
	t.Parallel()
	w := inWorld(t, asRoot)
	w.write(t, "job", attempts+`
try test -t 0
try test -t 1
try test -t 2
tryto ': < /dev/tty'
tryto ": > $1"
tryto ": < $1"
echo over
`)
	y := w.shell(t)
	y.typeText("$EXE run --as alice -cwd job $(tty); echo status $?\n")
	y.expect("^over$")
	y.expect("^status 0$")
	if strings.Contains(y.seen.String(), "BREACH") {
		t.Error(&y.seen)
	}
}

// A job can neither trace nor end its shepherd.
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
	// The same user may kill it. Then the job ends with it, and all is told.
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

// A group id that a process of somebody else has is not given to a job, and
// that process survives the job's end.
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
	if r.status != 125 || !strings.Contains(r.stderr, "execd run: all 3 ids of gid_range are in use by processes of this host") || r.stdout != "" {
		t.Errorf("exit status %d, %s%s", r.status, r.stdout, r.stderr)
	}
	alive()
	w.gone(t)
}

// --json of root does not write through a link that somebody else has planted.
func TestOutcomeThroughALink(t *testing.T) {
	t.Parallel()
	w := inWorld(t, asRoot)
	victim := w.rootFile(t, "victim", "precious\n", 0o644)
	tmp := w.dir + "/tmp"
	if err := os.Mkdir(tmp, 0); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(tmp, 0o777|fs.ModeSticky); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(tmp, 0, 0); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile("/proc/sys/fs/protected_symlinks"); err == nil && strings.TrimSpace(string(b)) == "1" {
		if out, err := asBob(t, "ln -s "+victim+" "+tmp+"/out"); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if r := w.run(t, "--as", "alice", "-cwd", "--json", tmp+"/out", "-b", "y", "true"); r.status != 125 {
			t.Errorf("exit status %d, %s", r.status, r.stderr)
		}
	}
	// A link that comes while the job runs is replaced.
	job := w.write(t, "job", "#!/bin/sh\nln -s "+victim+" "+tmp+"/late\n")
	if r := w.run(t, "--as", "alice", "-cwd", "--json", tmp+"/late", job); r.status != 0 {
		t.Errorf("exit status %d, %s", r.status, r.stderr)
	}
	if info, err := os.Lstat(tmp + "/late"); err != nil || !info.Mode().IsRegular() {
		t.Errorf("%v, %v", info, err)
	}
	unchanged(t, victim, "precious\n")
}
