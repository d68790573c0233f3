package shepherd

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/limits/group"
)

// deadline is the timeout for all events in these tests. It is only reached if a test fails.
const deadline = 2 * time.Minute

var lastJob atomic.Int64

// testJob is one job with everything around it:
//
//	top/          root's
//	  active/     the job directory
//	  script ...  what root has written for it
//	  fifo ...    meeting points of test and job
//	  log         a line for each step that ran; anybody may write
//	  work/       the owner's: working directory, output files
//	  tmp/        the owner's: TMPDIR
type testJob struct {
	t    *testing.T
	mode mode
	d    *job.Description
	top  string

	active, work, log string
	noArguments       bool     // without the file of our own: as a real execd leaves it
	environ           []string // of the shepherd
	execdEnviron      []string // in that, what a real execd has for itself
	fifos             map[string]*fifo
	extraFiles        []*os.File
	group             *group.Paths // nil without
	threads           uint64       // limit of the group; 0 for none
	stdin, stdout     *os.File     // /dev/null unless set

	change func(cmd *exec.Cmd) // how the shepherd is started
	cmd    *exec.Cmd
	ended  chan struct{}
	code   int
}

// newJob creates a job that runs a shell script in unix_behavior.
func newJob(t *testing.T, m mode, script string) *testJob {
	t.Helper()
	m.need(t)
	number := int(1000 + lastJob.Add(1))
	name, uid, gid := owner()
	j := &testJob{t: t, mode: m, top: base + "/run/" + strconv.Itoa(number), ended: make(chan struct{}), fifos: map[string]*fifo{}}
	j.active, j.work, j.log = j.top+"/active", j.top+"/work", j.top+"/log"
	tmp := j.top + "/tmp"
	for _, dir := range []string{j.top, j.active, j.work, tmp} {
		j.check(os.Mkdir(dir, 0o755))
	}
	j.check(os.WriteFile(j.log, nil, 0o666))
	j.check(os.Chmod(j.log, 0o666))
	if private {
		j.check(errors.Join(os.Chown(j.work, uid, gid), os.Chown(tmp, uid, gid)))
	}
	switch {
	case m == asAdmin:
		j.check(os.Chown(j.active, admin, admin))
	case m == asUser && private:
		j.check(os.Chown(j.active, uid, gid))
	}
	j.d = &job.Description{
		ID: job.ID{Job: number}, Name: "name", Owner: name, Account: "sge", Project: "",
		SubmissionTime: time.Now().Truncate(time.Second),
		Queue:          "all.q", Host: "node1", QueueTmpdir: j.top, Tmpdir: tmp,
		Cwd: j.work,
		Command: job.Command{
			File: j.script("script", script), Shell: "/bin/sh", StartMode: job.UnixBehavior,
		},
		Streams:       [3]job.Stream{{}, {Path: j.work + "/out"}, {Path: j.work + "/err"}},
		ScriptTimeout: 2 * time.Minute,
		HostSlots:     1,
		Limits:        job.Unlimited(),
		LimitGrace:    time.Minute,
		NotifyKill:    job.Notification{Kind: job.NotifyDefault},
		NotifySusp:    job.Notification{Kind: job.NotifyDefault},
		AddGroupID:    50000 + number,
		AddGroupKill:  true,
		Environment: []string{
			"PATH=" + tmp + ":/usr/local/bin:/bin:/usr/bin", "HOME=" + j.work, "SHELL=/bin/sh",
			"USER=" + name, "LOGNAME=" + name, "TMPDIR=" + tmp, "TMP=" + tmp,
			"JOB_ID=" + strconv.Itoa(number), "JOB_NAME=name", "QUEUE=all.q", "HOSTNAME=node1",
			"SGE_ROOT=/sge", "SGE_CELL=default", "SGE_TASK_ID=undefined", "NSLOTS=1", "LOG=" + j.log,
		},
		PTY: job.No,
	}
	if m == asAdmin {
		j.execdEnviron = []string{"SGE_ROOT=/sge", "SGE_CELL=default"} // no daemon of the original is without
	} else {
		j.d.Trusted = []string{"JOB_ID", "JOB_NAME", "QUEUE", "HOSTNAME", "SGE_ROOT", "SGE_CELL", "SGE_TASK_ID", "NSLOTS"}
	}
	if m != asUser {
		j.d.MinUID, j.d.MinGID = minUID, minUID
	}
	return j
}

func (j *testJob) check(err error) {
	j.t.Helper()
	if err != nil {
		j.t.Fatal(err)
	}
}

// script writes an executable file and returns its path.
func (j *testJob) script(name, text string) string {
	if !strings.HasPrefix(text, "#!") {
		text = "#!/bin/sh\n" + text + "\n"
	}
	return j.executable(name, text)
}

// executable writes a file that can be executed at once: no child that is forked meanwhile holds it
// open for writing (ETXTBSY).
func (j *testJob) executable(name, text string) string {
	j.t.Helper()
	path := j.top + "/" + name
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	j.check(os.WriteFile(path, []byte(text), 0o755))
	return path
}

// setenv adds to the environment of the job.
func (j *testJob) setenv(vars ...string) { j.d.Environment = append(j.d.Environment, vars...) }

// write writes the job directory.
func (j *testJob) write() {
	j.t.Helper()
	dir, err := jobdir.OpenDir(j.active, admin, alice)
	j.check(err)
	defer dir.Close()
	config, err := jobdir.FormatConfig(j.d)
	j.check(err)
	environment, err := jobdir.FormatEnvironment(j.d.Environment)
	j.check(err)
	arguments, err := jobdir.FormatArguments(j.d.Command.Args)
	j.check(err)
	files := map[string][]byte{jobdir.FileEnvironment: environment, jobdir.FileConfig: config}
	if !j.noArguments {
		files[jobdir.FileArguments] = arguments
	}
	for name, content := range files {
		j.check(dir.WriteFile(name, content))
		if !private {
			continue
		}
		switch j.mode {
		case asAdmin:
			// With the owner and mode that sge_execd uses.
			j.check(errors.Join(os.Chown(j.active+"/"+name, admin, admin), os.Chmod(j.active+"/"+name, 0o644)))
		case asUser:
			j.check(os.Chown(j.active+"/"+name, alice, alice))
		}
	}
}

// start starts the shepherd on the directory as it is.
func (j *testJob) start() {
	j.t.Helper()
	shepherd, argv0 := base+"/bin/sge_shepherd-go", "sge_shepherd-"+strconv.Itoa(j.d.ID.Job)
	j.cmd = &exec.Cmd{Path: shepherd, Args: []string{argv0}, SysProcAttr: &syscall.SysProcAttr{}}
	if j.mode == asAdmin {
		id := strconv.Itoa(admin)
		j.cmd.Path = base + "/bin/launch"
		j.cmd.Args = []string{"launch", id, id, shepherd, argv0}
	}
	if j.mode == asUser && private {
		j.cmd.SysProcAttr.Credential = &syscall.Credential{Uid: alice, Gid: alice, Groups: []uint32{staff}}
	}
	j.cmd.Dir = j.active
	j.cmd.Env = append([]string{"GOMAXPROCS=1", "PATH=/usr/bin:/bin"}, append(j.execdEnviron, j.environ...)...)
	j.cmd.ExtraFiles = j.extraFiles
	if j.change != nil {
		j.change(j.cmd)
	}
	// Not a buffer: Wait would not return while a job holds the stream open.
	stderr, err := os.Create(j.top + "/stderr")
	j.check(err)
	defer stderr.Close()
	j.cmd.Stderr = stderr
	if j.stdin != nil {
		j.cmd.Stdin = j.stdin
	}
	if j.stdout != nil {
		j.cmd.Stdout = j.stdout
	}
	j.check(j.cmd.Start())
	go func() {
		_ = j.cmd.Wait()
		j.code = j.cmd.ProcessState.ExitCode()
		close(j.ended)
	}()
	j.t.Cleanup(func() {
		select {
		case <-j.ended:
		default:
			_ = j.cmd.Process.Kill()
			<-j.ended
		}
		for _, pid := range j.processes() {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		if j.t.Failed() {
			trace := j.file("trace")
			j.t.Logf("trace:\n%s", trace[max(0, len(trace)-4000):])
			for _, name := range []string{"error", "exit_status", "usage"} {
				if s := j.file(name); s != "" {
					j.t.Logf("%s:\n%s", name, s)
				}
			}
			b, _ := os.ReadFile(j.top + "/stderr")
			j.t.Logf("standard error of the shepherd, with exit code %d:\n%s", j.code, b)
		}
	})
}

// wait waits for the end of the shepherd.
func (j *testJob) wait() {
	j.t.Helper()
	select {
	case <-j.ended:
	case <-time.After(deadline):
		j.t.Fatal("the shepherd does not end")
	}
}

// run writes the job directory, runs the shepherd and waits for its end.
func (j *testJob) run() *testJob {
	j.t.Helper()
	j.write()
	j.start()
	j.wait()
	return j
}

// file returns a file of the job directory; empty if there is none.
func (j *testJob) file(name string) string {
	b, _ := os.ReadFile(j.active + "/" + name)
	return string(b)
}

// output returns a file of the working directory; empty if there is none.
func (j *testJob) output(name string) string {
	b, _ := os.ReadFile(j.work + "/" + name)
	return string(b)
}

// logged returns the lines of the log.
func (j *testJob) logged() []string {
	b, err := os.ReadFile(j.log)
	j.check(err)
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
}

// failed returns the result: the first number in exit_status, which must equal the shepherd's exit
// code.
func (j *testJob) failed() job.Failed {
	j.t.Helper()
	n, ok := jobdir.FirstNumber([]byte(j.file("exit_status")))
	if !ok {
		j.t.Errorf("exit_status is %q", j.file("exit_status"))
		return -1
	}
	if n != j.code {
		j.t.Errorf("exit_status begins with %d, but the shepherd ended with %d", n, j.code)
	}
	return job.Failed(n)
}

// expect compares the result.
func (j *testJob) expect(failed job.Failed) {
	j.t.Helper()
	if got := j.failed(); got != failed {
		j.t.Errorf("failed %d (%s), want %d", got, jobdir.FirstRecord([]byte(j.file("error"))), failed)
	}
	if text := j.file("error"); (failed != 0) != (text != "") {
		j.t.Errorf("failed %d with the error file %q", failed, text)
	}
}

// expectError searches for text in the first line of the error file.
func (j *testJob) expectError(text string) {
	j.t.Helper()
	if got := jobdir.FirstRecord([]byte(j.file("error"))); !strings.Contains(got, text) {
		j.t.Errorf("error %q does not say %q", got, text)
	}
}

// usage returns the usage file; nil if there is none.
func (j *testJob) usage() *jobdir.Usage {
	j.t.Helper()
	b, err := os.ReadFile(j.active + "/usage")
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	j.check(err)
	u, err := jobdir.ParseUsage("usage", b)
	j.check(err)
	return u
}

// expectUsage compares the exit status and signal of the job itself.
func (j *testJob) expectUsage(exitStatus, signal int) {
	j.t.Helper()
	u := j.usage()
	if u == nil {
		j.t.Errorf("no usage, want exit status %d and signal %d", exitStatus, signal)
		return
	}
	if u.ExitStatus != exitStatus || u.Signal != signal {
		j.t.Errorf("usage has exit status %d and signal %d, want %d and %d", u.ExitStatus, u.Signal, exitStatus, signal)
	}
}

// report is the output of the probe.
type report struct {
	Exe           string
	Args, Env     [][]byte
	Stdin         []byte
	StdinPath     string
	Fds           []string
	Cwd           string
	Umask         int
	Uids, Gids    [3]int
	Groups        []int
	PID, PPID     int
	Pgid, Session int
	Nice          int
	Blocked       string
	Ignored       string
}

// reports returns the reports in a file of the working directory.
func (j *testJob) reports(name string) []report {
	j.t.Helper()
	var list []report
	dec := json.NewDecoder(strings.NewReader(j.output(name)))
	for {
		var r report
		err := dec.Decode(&r)
		if errors.Is(err, io.EOF) {
			return list
		}
		j.check(err)
		list = append(list, r)
	}
}

// report returns the only report in a file of the working directory.
func (j *testJob) report(name string) report {
	j.t.Helper()
	list := j.reports(name)
	if len(list) != 1 {
		j.t.Fatalf("%d reports in %s, want one", len(list), name)
	}
	return list[0]
}

func (r report) args() []string {
	var list []string
	for _, a := range r.Args {
		list = append(list, string(a))
	}
	return list
}

// env returns the value of a variable; ok reports whether it exists. It fails the test if the
// variable is repeated.
func (r report) env(t *testing.T, name string) (value string, ok bool) {
	t.Helper()
	for _, v := range r.Env {
		n, val, _ := strings.Cut(string(v), "=")
		if n != name {
			continue
		}
		if ok {
			t.Errorf("variable %s is there twice", name)
		}
		value, ok = val, true
	}
	return value, ok
}

func (r report) names() []string {
	var list []string
	for _, v := range r.Env {
		n, _, _ := strings.Cut(string(v), "=")
		list = append(list, n)
	}
	return list
}
