package launch

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/qconf"
)

// private returns an assignment of a job with its own /tmp. Its output goes to the file out of the
// host's /tmp, which is not in the job's.
func (p *place) private(t testing.TB, command string, options ...string) *Assignment {
	t.Helper()
	testenv.Require(t, testenv.Root)
	o, err := p.order(command, append([]string{"-o", p.dir + "/out/o"}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	o.Privileged = true
	o.Config.ExecdParams.PrivateTmp.Default = true
	o.Config.MinUID, o.Config.MinGID = 1, 1
	o.Config.GIDRange = []qconf.Range{{First: 52100, Last: 52199}}
	return o
}

// ran runs a job to its end, and returns what it has written.
func (p *place) ran(t *testing.T, o *Assignment) (*Job, *job.Outcome, string) {
	t.Helper()
	j, err := Prepare(p.spool, o, seven)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Remove(false) })
	launched(t, j)
	out := j.Collect(waited(t, j))
	b, _ := os.ReadFile(p.dir + "/out/o")
	return j, out, string(b)
}

// TestPrivateTmp checks that a job with PRIVATE_TMP has its own /tmp, /var/tmp and /dev/shm, sees its
// TMPDIR and what the administrator shares, and leaves no files on the host.
func TestPrivateTmp(t *testing.T) {
	p := newPlace(t)
	shared := t.TempDir()
	testenv.LetIn(t, shared)
	host := filepath.Base(p.dir) + ".host"
	for _, dir := range []string{"/tmp/", "/var/tmp/", "/dev/shm/"} {
		testenv.WriteFile(t, dir+host, "")
		t.Cleanup(func() { _ = os.Remove(dir + host) })
	}
	o := p.private(t, `
ls -d /tmp/`+host+` /var/tmp/`+host+` /dev/shm/`+host+` 2>/dev/null
for d in /tmp /var/tmp /dev/shm; do
	stat -L -c '%n %a %u' $d
	printf '#!/bin/sh\necho wrote %s\n' $d >$d/ours && chmod +x $d/ours && $d/ours
done
: >$TMPDIR/mine && pwd && ls `+shared+`
echo end
umount /tmp 2>/dev/null && echo unmounted
mkdir `+p.dir+`/out/no 2>/dev/null && echo reached
exit 3`)
	testenv.WriteFile(t, shared+"/s", "")
	o.Config.ExecdParams.PrivateTmpShare = []string{shared, "/tmp/not-there"}
	j, outcome, said := p.ran(t, o)
	if outcome.Failed != 0 || outcome.ExitStatus != 3 {
		_, text, _ := j.Dir.FirstError()
		t.Fatalf("outcome %+v, %s", outcome, text)
	}
	want := "/tmp 1777 0\nwrote /tmp\n/var/tmp 1777 0\nwrote /var/tmp\n/dev/shm 1777 0\nwrote /dev/shm\n/\ns\n"
	if want += "end\n"; said != want {
		t.Errorf("the job says:\n%s, expected:\n%s", said, want)
	}
	for _, dir := range []string{"/tmp/ours", "/var/tmp/ours", "/dev/shm/ours"} {
		if exists(dir) {
			t.Error("a file of the job is on the host: " + dir)
		}
	}
	if !exists(j.tmpdir.Path+"/mine") || !exists(j.private.Path+"/tmp/ours") || !exists(j.private.Path+varTmp()+"/ours") {
		t.Error("the files of the job are not on its scratch")
	}
	var st unix.Stat_t
	if err := unix.Lstat(j.private.Path, &st); err != nil || st.Uid != 0 || st.Mode&0o777 != 0o700 {
		t.Errorf("the directory behind /tmp: %+v, %v", st, err)
	}
	if b, _ := os.ReadFile("/proc/self/mountinfo"); strings.Contains(string(b), ".private") {
		t.Error("the mounts of the job are on the host")
	}
	if err := j.Remove(false); err != nil {
		t.Error(err)
	}
	p.nothingLeft(t)
}

// varTmp returns the name of the directory behind /var/tmp, which may be a link to /tmp.
func varTmp() string {
	if path, err := filepath.EvalSymlinks("/var/tmp"); err == nil && path == "/tmp" {
		return "/tmp"
	}
	return "/var_tmp"
}

// TestPrivateTmpOfProcedures checks that procedures of the owner share the files of the job, and that
// procedures of root see those of the host.
func TestPrivateTmpOfProcedures(t *testing.T) {
	p := newPlace(t)
	o := p.private(t, "cat /tmp/of-prolog; echo job >/tmp/of-job; echo shm >/dev/shm/x")
	testenv.WriteFile(t, p.dir+"/prolog", "#!/bin/sh\necho prolog >/tmp/of-prolog\n")
	testenv.WriteFile(t, p.dir+"/epilog", "#!/bin/sh\ncat $SGE_PRIVATE_TMP/tmp/of-job; ls /dev/shm/x 2>/dev/null\ntest -d "+p.dir+"/out && echo host\n")
	for _, name := range []string{"/prolog", "/epilog"} {
		if err := os.Chmod(p.dir+name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// The program of the owner's prolog is in the host's /tmp, and is shared.
	o.Config.ExecdParams.PrivateTmpShare = []string{p.dir + "/prolog"}
	o.Queue.Prolog, o.Queue.Epilog = p.dir+"/prolog", "root@"+p.dir+"/epilog"
	j, outcome, said := p.ran(t, o)
	if said != "prolog\njob\nhost\n" {
		_, text, _ := j.Dir.FirstError()
		t.Errorf("outcome %+v, %s; said:\n%s", outcome, text, said)
	}
}

// TestPrivateTmpOfASession checks that a command of qrsh, whose streams are those of its client, has
// its own /tmp.
func TestPrivateTmpOfASession(t *testing.T) {
	for _, pipes := range []bool{true, false} {
		p := newPlace(t)
		o := p.private(t, "stat -c '%u %a' /tmp; test -e "+p.dir+"/out || echo own")
		o.Interactive = &Interactive{Pipes: pipes}
		j, err := Prepare(p.spool, o, seven)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = j.Remove(false) })
		launched(t, j)
		var terminal *Terminal
		until(t, "the session", func() bool {
			terminal, err = j.OpenTerminal(t.Context())
			return !errors.Is(err, ErrNoTerminal)
		})
		if err != nil {
			t.Fatal(err)
		}
		said, _ := io.ReadAll(terminal.Out) // a pseudo terminal ends with EIO
		outcome := j.Collect(waited(t, j))
		terminal.Close() // the supervisor would wait for another client
		if text := strings.ReplaceAll(string(said), "\r", ""); text != "0 1777\nown\n" || outcome.ExitStatus != 0 {
			t.Errorf("outcome %+v; the session says %q", outcome, text)
		}
		if err := j.Remove(false); err != nil {
			t.Error(err)
		}
		p.nothingLeft(t)
	}
}

// TestPrivateTmpOfTasks checks that the tasks of a parallel job share its files, also those in
// /dev/shm as long as any of them runs.
func TestPrivateTmpOfTasks(t *testing.T) {
	p := newPlace(t)
	o := p.parallel(t, "true")
	with := p.private(t, "true")
	o.Privileged, o.Config = true, with.Config
	late := p.dir + ".late" // is shared, and does not exist at first
	o.Config.ExecdParams.PrivateTmpShare = []string{late}
	slave, err := PrepareSlave(p.spool, o, seven)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = slave.Remove(false) })
	begin := func(name, command string) *Job {
		id := seven
		id.PETask = name
		task, err := PrepareTask(slave, id, []string{"/bin/sh", "-c", command}, "/", nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		launched(t, task)
		return task
	}
	first := begin("1.host", ": >"+late+"; mkfifo /tmp/go; echo shm >/dev/shm/x; echo tmp >/tmp/x; mv /tmp/x /tmp/y; read x </tmp/go")
	until(t, "the first task has written", func() bool { return exists(slave.private.Path + "/tmp/y") })
	finish := func(task *Job) {
		t.Helper()
		if outcome := task.Collect(waited(t, task)); outcome.ExitStatus != 0 || outcome.Failed != 0 {
			_, text, _ := task.Dir.FirstError()
			t.Errorf("outcome of %s: %+v, %s", task.Description.ID.PETask, outcome, text)
		}
	}
	finish(begin("2.host", "cat /dev/shm/x /tmp/y >/var/tmp/seen"))
	if b, err := os.ReadFile(slave.private.Path + varTmp() + "/seen"); string(b) != "shm\ntmp\n" {
		t.Errorf("the second task sees %q, %v", b, err)
	}
	finish(begin("3.host", "cat /dev/shm/x; seen=$?; echo >/tmp/go; exit $seen"))
	finish(first)
	if err := os.Mkdir(late, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(late) })
	finish(begin("4.host", "cat /tmp/y; ls /dev/shm/x && exit 1; exit 0"))
	if err := slave.Remove(false); err != nil {
		t.Error(err)
	}
	p.nothingLeft(t)
}

// TestPrivateTmpIsHostile checks that a user gains nothing by preparing files in the host's /tmp.
func TestPrivateTmpIsHostile(t *testing.T) {
	p := newPlace(t)
	secret := p.dir + "/secret"
	testenv.Open(t, secret+"/open")
	if err := os.Chmod(secret, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		cwd    string
		before func()
		failed job.Failed
		text   string
	}{
		"a working directory of the host":           {cwd: p.dir + "/out"},
		"a working directory with empty components": {cwd: p.dir + "//./out"},
		"a working directory that only root can reach": {
			cwd: secret + "/open", failed: job.FailedCwd, text: "permission denied",
		},
		"a working directory behind a link": {
			cwd: p.dir + "/out/link", failed: job.FailedCwd, text: "the job has its own /tmp (private_tmp)",
			before: func() { _ = os.Symlink(p.dir+"/out", p.dir+"/out/link") },
		},
		"someone else has the name of the directory": {
			cwd: "/", before: func() {
				_ = os.Symlink("/etc", p.dir+"/tmp/"+jobdir.TmpdirName(seven, "all.q")+".private")
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if c.before != nil {
				c.before()
			}
			o := p.private(t, "pwd -P", "-wd", c.cwd)
			j, outcome, said := p.ran(t, o)
			_, text, _ := j.Dir.FirstError()
			if outcome.Failed != c.failed || !strings.Contains(text, c.text) {
				t.Errorf("outcome %+v, %s", outcome, text)
			}
			if c.failed == 0 && !strings.HasSuffix(said, filepath.Clean(c.cwd)+"\n") {
				t.Errorf("the job is in %s", said)
			}
			if err := j.Remove(false); err != nil {
				t.Error(err)
			}
		})
	}
	o := p.private(t, "true")
	o.Request.Command, o.Request.Args, o.Request.NoShell = p.dir+"/prog", nil, true
	testenv.WriteFile(t, p.dir+"/prog", "#!/bin/sh\n")
	if err := os.Chmod(p.dir+"/prog", 0o755); err != nil {
		t.Fatal(err)
	}
	j, outcome, _ := p.ran(t, o)
	if _, text, _ := j.Dir.FirstError(); !strings.Contains(text, "the job has its own /tmp (private_tmp)") {
		t.Errorf("a program of the host's /tmp: outcome %+v, %s", outcome, text)
	}
}

// TestPrivateTmpAttacks checks that a job that mounts, makes namespaces of its own and plants links in its /tmp does not see
// the files of the host, and leaves no mounts and no files, and that nothing is removed behind a link.
func TestPrivateTmpAttacks(t *testing.T) {
	p := newPlace(t)
	victim := p.dir + "/victim"
	testenv.Open(t, victim)
	testenv.WriteFile(t, victim+"/file", "")
	host := "/tmp/" + filepath.Base(p.dir) + ".host"
	testenv.WriteFile(t, host, "")
	t.Cleanup(func() { _ = os.Remove(host) })
	o := p.private(t, `
for d in /tmp /var/tmp /dev/shm $TMPDIR; do
	n=$(echo $d | tr / _) # /var/tmp may be /tmp
	ln -s `+victim+` $d/link$n && ln -s / $d/root$n && mkdir $d/deep$n && ln -s `+victim+` $d/deep$n/link || echo "no links in $d"
done
mount -t tmpfs none /tmp 2>/dev/null && echo mounted
umount -l /tmp 2>/dev/null && echo unmounted
for how in "umount /tmp" "umount -l /tmp" "mount --move /tmp /mnt" "mount --make-rprivate / && umount -l /tmp"; do
	unshare -Urm sh -c "$how; ls `+host+`" 2>/dev/null && echo "$how shows the files of the host"
done
unshare -Urm sh -c 'mount -t tmpfs none /dev/shm; : >/dev/shm/mine; exec sleep 1000' >/dev/null 2>&1 &
echo end
exit 3`)
	j, outcome, said := p.ran(t, o)
	if outcome.Failed != 0 || outcome.ExitStatus != 3 || said != "end\n" {
		_, text, _ := j.Dir.FirstError()
		t.Errorf("outcome %+v, %s; the job says:\n%s", outcome, text, said)
	}
	if err := j.Remove(false); err != nil {
		t.Error(err)
	}
	p.nothingLeft(t)
	p.noMounts(t)
	if !exists(victim + "/file") {
		t.Error("the removal has followed a link")
	}
}

// TestPrivateTmpNeedsRoot checks that a daemon of an ordinary user refuses a job with PRIVATE_TMP.
func TestPrivateTmpNeedsRoot(t *testing.T) {
	p := newPlace(t)
	o, err := p.order("true")
	if err != nil {
		t.Fatal(err)
	}
	o.Config.ExecdParams.PrivateTmp.Default = true
	if _, err := Prepare(p.spool, o, seven); err == nil || !strings.Contains(err.Error(), "private_tmp: only a daemon that runs as root") {
		t.Errorf("the error is %v", err)
	}
}

// TestPrivateTmpOfAKilledSupervisor checks that no private files remain of a job whose supervisor was
// killed, or whose preparation was interrupted.
func TestPrivateTmpOfAKilledSupervisor(t *testing.T) {
	p := newPlace(t)
	o := p.private(t, "echo $$ >/tmp/pid; mkdir -p /tmp/d/e; chmod 0 /tmp/d; sleep 1000")
	j, err := Prepare(p.spool, o, seven)
	if err != nil {
		t.Fatal(err)
	}
	launched(t, j)
	until(t, "the job runs", func() bool { return exists(j.private.Path + "/tmp/d") })
	if err := unix.Kill(j.PID(), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	status := waited(t, j)
	// As a container program leaves them, with user IDs of its user (subuid(5)).
	subuid := j.private.Path + "/tmp/container/layer"
	if err := errors.Join(os.MkdirAll(subuid, 0o755), os.Lchown(subuid, 165536, 165536), os.Lchown(filepath.Dir(subuid), 165536, 165536)); err != nil {
		t.Fatal(err)
	}
	again := p.reopen(t, seven, Over)
	again.Collect(status)
	if err := again.Remove(false); err != nil {
		t.Error(err)
	}
	p.nothingLeft(t)

	j, err = Prepare(p.spool, o, seven)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{jobdir.FileConfig, jobdir.FilePrivateTmp} {
		if err := j.Dir.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	// The same job on another host, if hosts share the scratch space.
	other := j.private.Path + ".aaaaaaaaaa"
	testenv.WriteFile(t, other+"/tmp/file", "")
	if err := Discard(p.spool, nil, seven); err != nil {
		t.Error(err)
	}
	if !exists(other + "/tmp/file") {
		t.Error("the files of another job were removed")
	}
	if err := os.RemoveAll(other); err != nil {
		t.Fatal(err)
	}
	p.nothingLeft(t)
}
