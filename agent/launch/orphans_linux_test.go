package launch

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/internal/testenv/heldup"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/limits/process"
	"github.com/execd-project/execd/qconf"
)

// spread returns a job of several processes: its first one, one in another session, one
// below that without an environment. Each writes its number.
func spread(dir string) string {
	// The names of the files tell them apart: under one's own name when complete.
	tell := func(name string) string {
		return "echo $$ > " + dir + "/" + name + ".new; mv " + dir + "/" + name + ".new " + dir + "/" + name
	}
	inner := "sh -c '" + tell("inner") + "; exec sleep 1000'"
	return tell("first") + "; setsid sh -c \"" + strings.ReplaceAll(tell("session")+"; env -i PATH=$PATH "+inner, "$$", `\$\$`) + "; :\" & wait"
}

func pidIn(t *testing.T, path string) int {
	t.Helper()
	var pid int
	until(t, path, func() bool {
		b, err := os.ReadFile(path)
		if err == nil {
			pid, err = strconv.Atoi(strings.TrimSpace(string(b)))
		}
		return err == nil
	})
	return pid
}

func alive(pid int) bool {
	st := process.Read(pid)
	return st.State != 0 && st.State != 'Z'
}

// TestOrphans checks that the remaining processes of a job whose supervisor was killed are ended, and
// that processes of other jobs, and those that a prolog of a finished job left, are not.
func TestOrphans(t *testing.T) {
	for _, how := range []string{"group", "id", "environment"} {
		for _, who := range []string{"who launched it", "another agent"} {
			t.Run("by "+how+", in "+who, func(t *testing.T) { testOrphans(t, how, who == "another agent") })
		}
	}
}

func testOrphans(t *testing.T, how string, another bool) {
	p := newPlace(t)
	o := must(p.order(spread(p.dir + "/out")))
	switch how {
	case "group":
		testenv.Require(t, testenv.Cgroup)
		o.Groups = p.groups(t, o)
	case "id":
		testenv.Require(t, testenv.Root)
		o.Privileged = true
		o.Config.GIDRange = []qconf.Range{{First: 54400, Last: 54409}}
	}
	j, err := Prepare(p.spool, o, seven)
	if err != nil {
		t.Fatal(err)
	}
	launched(t, j)
	other := p.prepare(t, job.ID{Job: 8}, "echo $$ > "+p.dir+"/out/other; exec sleep 1000")
	launched(t, other)
	var pids []int
	for _, name := range []string{"first", "session", "inner"} {
		pids = append(pids, pidIn(t, p.dir+"/out/"+name))
	}
	bystander := pidIn(t, p.dir+"/out/other")
	j.Destroy()
	status := waited(t, j)
	if !status.Signaled() {
		t.Errorf("the supervisor ended with %#x", status)
	}
	if !alive(pids[1]) || !alive(pids[2]) {
		t.Error("nothing is left to be ended")
	}
	if another {
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		var stage Stage
		if j, stage, err = Open(p.spool, o.Groups, nil, seven); err != nil || stage != Over {
			t.Fatal(stage, err)
		}
		status = waited(t, j)
	}
	if out := j.Collect(status); out.Failed != job.FailedNoExitStatus {
		t.Errorf("outcome %+v", out)
	}
	for _, pid := range pids {
		if alive(pid) {
			t.Errorf("process %d lives", pid)
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
	if !alive(bystander) {
		t.Error("the process of another job was ended")
	}
	if how == "id" {
		// The id is another job's by now, while somebody goes on with what is left of this one.
		next := exec.Command("sleep", "1000")
		next.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534, Groups: []uint32{uint32(j.Description.AddGroupID)}}}
		if err := next.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = next.Process.Kill(); _ = next.Wait() }()
		j.Collect(status)
		if process.Read(next.Process.Pid).State == 'Z' {
			t.Error("who has got the group id of the job was ended")
		}
	}
	if err := j.Remove(false); err != nil {
		t.Error(err)
	}
	if !other.Kill() {
		t.Error("the other job is gone")
	}
	if out := other.Collect(waited(t, other)); out.Signal != int(unix.SIGKILL) {
		t.Errorf("outcome of the other job: %+v", out)
	}
	if err := other.Remove(false); err != nil {
		t.Error(err)
	}
	p.nothingLeft(t)
}

// spread starts the job of several processes, and returns it with its innermost process.
func (p *place) spread(t *testing.T) (j *Job, inner int) {
	t.Helper()
	j, err := Prepare(p.spool, must(p.order(spread(p.dir+"/out"))), seven)
	if err != nil {
		t.Fatal(err)
	}
	launched(t, j)
	return j, pidIn(t, p.dir+"/out/inner")
}

// TestHeldUpProcessDelaysNoCollection checks that the end of a job whose supervisor was killed does not wait for a process of
// another user that holds up the kernel (see package heldup).
func TestHeldUpProcessDelaysNoCollection(t *testing.T) {
	pid, _ := heldup.Start(t, 0)
	p := newPlace(t)
	j, inner := p.spread(t)
	j.Destroy()
	status := waited(t, j)
	outcome := make(chan *job.Outcome, 1)
	go func() { outcome <- j.Collect(status) }()
	select {
	case out := <-outcome:
		if out.Failed != job.FailedNoExitStatus || alive(inner) {
			t.Errorf("outcome %+v; the job's process lives: %t", out, alive(inner))
		}
	case <-time.After(patience):
		t.Fatalf("the collection waits for process %d", pid)
	}
	if err := j.Remove(false); err != nil {
		t.Error(err)
	}
	if !alive(pid) {
		t.Error("the process of another user was ended")
	}
	p.nothingLeft(t)
}

// TestHeldUpProcessOfTheOwner checks that a process of the owner of a job that holds up the kernel, and does not belong to the
// job, does not keep the directory of the job.
func TestHeldUpProcessOfTheOwner(t *testing.T) {
	const nobody = 65534
	pid, _ := heldup.Start(t, nobody)
	p := newPlace(t)
	j, inner := p.spread(t)
	j.Destroy()
	j.Collect(waited(t, j))
	if err := j.Remove(false); err != nil || alive(inner) {
		t.Errorf("%v; the job's process lives: %t", err, alive(inner))
	}
	if !alive(pid) {
		t.Error("the other process of the owner was ended")
	}
	p.nothingLeft(t)
}

// TestUnreadableProcesses checks that an agent that has too many open files to read /proc does not
// take the remaining processes of a job for ended. It keeps the job until it has ended them.
func TestUnreadableProcesses(t *testing.T) {
	p := newPlace(t)
	j, inner := p.spread(t)
	survivor := seen{pid: inner, start: process.Start(inner)}
	j.Destroy()
	waited(t, j)

	var limit unix.Rlimit
	if err := errors.Join(unix.Getrlimit(unix.RLIMIT_NOFILE, &limit), unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Max: limit.Max})); err != nil {
		t.Fatal(err)
	}
	gone := survivor.gone()
	j.endMarkedOnce(0)
	_, one := j.hasMark(inner, nil)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if gone || one == nil || !alive(inner) {
		t.Errorf("the unreadable process %d is gone: %t, the error is %v", inner, gone, one)
	}
	if done, err := j.Dir.Exists(fileSwept); done || err != nil || j.unswept == nil {
		t.Errorf("the processes count as ended: %t, %v; the error is %v", done, err, j.unswept)
	}
	if err := j.Remove(false); err != nil {
		t.Error(err)
	}
	if !survivor.gone() {
		t.Error("the job was removed while a process was alive")
	}
	p.nothingLeft(t)
}

// TestSurvivorsKeepTheJob checks that the directory of a job is not removed before its processes have
// ended.
func TestSurvivorsKeepTheJob(t *testing.T) {
	p := newPlace(t)
	j, inner := p.spread(t)
	j.Destroy()
	waited(t, j)
	survivor := seen{pid: inner, start: process.Start(inner)}
	if err := j.Dir.WriteFile(fileSwept, formatSurvivors([]seen{survivor})); err != nil {
		t.Fatal(err)
	}
	if err := j.Remove(false); err == nil || !strings.Contains(err.Error(), "cannot end process "+strconv.Itoa(inner)+" (") {
		t.Errorf("the error is %v", err)
	}
	if _, err := j.endMarked(time.Minute); err != nil {
		t.Error(err)
	}
	if err := j.Remove(false); err != nil {
		t.Error(err)
	}
	p.nothingLeft(t)
}

// groups are those of a place.
func (p *place) groups(t testing.TB, o *Assignment) *Groups {
	t.Helper()
	g, err := OpenGroupsFor(p.spool, o.Config, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if names, err := g.manager.Names(); err != nil || len(names) > 0 {
			t.Errorf("groups are left over: %q, %v", names, err)
			_, _ = g.manager.Sweep(time.Minute, func(string) bool { return true })
		}
		g.Close()
	})
	return g
}

// TestDaemonOfPrologIsNotEnded checks that a daemon that a prolog of another user than the owner has started outlives the
// job.
func TestDaemonOfPrologIsNotEnded(t *testing.T) {
	testenv.Require(t, testenv.Root) // a prolog of another user
	p := newPlace(t)
	o := must(p.order("exit 3"))
	prolog := p.script(t, "setsid sh -c 'echo $$ > "+p.dir+"/out/daemon; exec sleep 1000' >/dev/null 2>&1 &\nuntil test -s "+p.dir+"/out/daemon; do sleep 0.01; done")
	o.Queue.Prolog = "root@" + prolog
	j, err := Prepare(p.spool, o, seven)
	if err != nil {
		t.Fatal(err)
	}
	launched(t, j)
	out := j.Collect(waited(t, j))
	if out.ExitStatus != 3 || out.Failed != 0 {
		t.Errorf("outcome %+v", out)
	}
	pid := pidIn(t, p.dir+"/out/daemon")
	if !alive(pid) {
		t.Error("the daemon was ended")
	}
	// After a restart it is left alone, too.
	again := p.reopen(t, seven, Over)
	again.Collect(waited(t, again))
	if !alive(pid) {
		t.Error("the daemon was ended by another agent")
	}
	_ = unix.Kill(pid, unix.SIGKILL)
	if err := again.Remove(false); err != nil {
		t.Error(err)
	}
}

// TestReaper checks that the reaper collects dead orphans, but no child that a caller waits for.
func TestReaper(t *testing.T) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) }()
	p := newPlace(t)
	if err := unix.Mkfifo(p.dir+"/go", 0o600); err != nil {
		t.Fatal(err)
	}
	if err := exec.Command("/bin/sh", "-c", "read x < "+p.dir+"/go & echo $! > "+p.dir+"/orphan").Run(); err != nil {
		t.Fatal(err)
	}
	orphan := pidIn(t, p.dir+"/orphan")
	if err := os.WriteFile(p.dir+"/go", []byte("\n"), 0); err != nil {
		t.Fatal(err)
	}
	until(t, "the end of the orphan", func() bool { return process.Read(orphan).State == 'Z' })
	now := time.Now()
	// Another process had its number.
	r := Reaper{dead: map[int]corpse{orphan: {process.Start(orphan) - 1, now.Add(-2 * decay)}}}
	r.look(now)
	if process.Read(orphan).State != 'Z' {
		t.Error("it was collected at first sight")
	}
	mine := exec.Command("/bin/sh", "-c", "exit 6")
	if err := mine.Start(); err != nil {
		t.Fatal(err)
	}
	until(t, "the end of the child", func() bool { return process.Read(mine.Process.Pid).State == 'Z' })
	r.look(now.Add(decay - time.Second))
	r.look(now.Add(decay))
	if process.Read(orphan).State != 0 {
		t.Error("the orphan was not collected")
	}
	if err := mine.Wait(); mine.ProcessState.ExitCode() != 6 {
		t.Errorf("somebody has taken the child: %v", err)
	}
	// The supervisor of a job is never taken.
	j := p.prepare(t, seven, "true")
	if err := j.Launch(p.script(t, "exit 5")); err != nil {
		t.Fatal(err)
	}
	until(t, "the end of the supervisor", func() bool { return process.Read(j.PID()).State == 'Z' })
	for range 3 {
		now = now.Add(decay)
		r.look(now)
	}
	if status := waited(t, j); status != syscall.WaitStatus(5<<8) {
		t.Errorf("the supervisor ended with %#x", status)
	}
}

// TestGroupIDsAreUnique checks that an additional group ID is given to one job at a time, and to
// none while a process has it.
func TestGroupIDsAreUnique(t *testing.T) {
	testenv.Require(t, testenv.Root)
	p := newPlace(t)
	ranges := []qconf.Range{{First: 54410, Last: 54414}}
	cmd := exec.Command("sleep", "1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534, Groups: []uint32{54411}}}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	given := map[int]bool{}
	var jobs []*Job
	order := func() *Assignment {
		o := must(p.order("true"))
		o.Privileged, o.Config.GIDRange = true, ranges
		return o
	}
	for n := range 4 {
		j, err := Prepare(p.spool, order(), job.ID{Job: n + 1})
		if err != nil {
			t.Fatal(err)
		}
		given[j.Description.AddGroupID] = true
		jobs = append(jobs, j)
	}
	if len(given) != 4 || given[54411] || given[0] {
		t.Errorf("given: %v", given)
	}
	_, err := Prepare(p.spool, order(), job.ID{Job: 9})
	if err == nil || !strings.Contains(err.Error(), "all 5 IDs") {
		t.Errorf("a fifth job: %v", err)
	}
	if exists(p.spool.JobPath(job.ID{Job: 9})) {
		t.Error("the directory of the fifth job is left")
	}
	want := jobs[2].Description.AddGroupID
	if err := jobs[2].Remove(false); err != nil {
		t.Fatal(err)
	}
	j, err := Prepare(p.spool, order(), job.ID{Job: 9})
	if err != nil {
		t.Fatal(err)
	}
	if j.Description.AddGroupID != want {
		t.Errorf("given is %d, free is %d", j.Description.AddGroupID, want)
	}
	for _, j := range append(jobs, j) {
		if err := j.Remove(false); err != nil {
			t.Error(err)
		}
	}
	p.nothingLeft(t)
}

// TestGroupIDsInUse checks that the IDs in use are read from /proc again after some time, because
// other processes start jobs, too.
func TestGroupIDsInUse(t *testing.T) {
	testenv.Require(t, testenv.Root)
	p := newPlace(t)
	ranges := []qconf.Range{{First: 54430, Last: 54432}}
	var g groupIDs
	take := func(n int) int {
		t.Helper()
		id := job.ID{Job: n}
		dir, err := p.spool.Begin(id, jobdir.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = dir.Close() })
		gid, err := g.take(ranges, &Job{Dir: dir, Description: &job.Description{ID: id}})
		if err != nil {
			t.Fatal(err)
		}
		return gid
	}
	take(1)
	next := g.free[0]
	cmd := exec.Command("sleep", "1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534, Groups: []uint32{uint32(next)}}}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	g.looked = g.looked.Add(-groupIDsAge)
	if got := take(2); got == next {
		t.Errorf("%d is given, which a process has", got)
	}
}
