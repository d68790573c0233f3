package standalone

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/execd-project/execd/agent/launcher"
	"github.com/execd-project/execd/internal/testenv"
)

// frontUser is the user of fronts, who runs no jobs.
const frontUser = "backup"

// newFront creates a host whose daemon consists of two processes.
func newFront(t testing.TB, slots int) *machine {
	t.Helper()
	testenv.Require(t, testenv.Root)
	m := newMachine(t, slots)
	m.args = []string{"--front-user", frontUser}
	return m
}

// front waits for a front other than those before, and returns its process.
func (m *machine) front(before ...int) (pid int) {
	m.Helper()
	m.until("there is a front", func() bool {
		all, _ := filepath.Glob("/proc/[0-9]*/comm")
		for _, path := range all {
			if name, _ := os.ReadFile(path); strings.TrimSpace(string(name)) != "execd" {
				continue
			}
			dir := filepath.Dir(path)
			args, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
			n := number(m, filepath.Base(dir))
			// The daemon is called execd until it runs the launcher.
			if n != m.daemon.Pid() && strings.Contains(string(args), "--spool\x00"+filepath.Join(m.dir, "spool")+"\x00") && !slices.Contains(before, n) {
				pid = n
			}
		}
		return pid > 0
	})
	return pid
}

// hasJob reports whether a job is in a list of qstat. Times, too, contain numbers.
func hasJob(list result, id string) bool {
	return slices.ContainsFunc(strings.Split(list.stdout, "\n"), func(line string) bool {
		first, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		return first == id
	})
}

// status returns a line of the status of a process.
func status(t testing.TB, pid int, name string) string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if key, value, _ := strings.Cut(line, ":"); key == name {
			return strings.Join(strings.Fields(value), " ")
		}
	}
	return ""
}

// records returns the accounting records of a job.
func (m *machine) records(job string) (list []string) {
	for _, line := range lines(m, filepath.Join(m.place(), "accounting")) {
		if fields := strings.Split(line, ":"); len(fields) > 12 && fields[5] == job {
			list = append(list, line)
		}
	}
	return list
}

// refusedNothing checks that the launcher has refused nothing.
func (m *machine) refusedNothing() {
	m.Helper()
	if list := lines(m, filepath.Join(m.dir, "spool", "launcher-audit")); len(list) > 0 {
		m.Errorf("the launcher has refused:\n%s", strings.Join(list, "\n"))
	}
}

// refusedNothingBut checks that the launcher has refused orders of one kind only.
func (m *machine) refusedNothingBut(order string) {
	m.Helper()
	for _, line := range lines(m, filepath.Join(m.dir, "spool", "launcher-audit")) {
		if !strings.Contains(line, `"`+order+`"`) {
			m.Errorf("the launcher has refused: %s", line)
		}
	}
}

// TestFront checks that a daemon of two processes runs a job from qsub to its record, and its front has no rights.
func TestFront(t *testing.T) {
	m := newFront(t, 1)
	out := m.open("out")
	m.write("job.sh", "#!/bin/sh\nid -un\necho $1 $GREETING\npwd\nexit 3\n")
	m.start()
	u := someUsers(t, 1)[0]
	r := m.as(u, "qsub", "-terse", "-wd", out, "-o", out+"/said", "-j", "y", "-v", "GREETING=hello", "job.sh", "one argument")
	id := strings.TrimSpace(r.stdout)
	if r.status != 0 || id == "" {
		t.Fatalf("qsub: %+v", r)
	}
	m.until("the job is in the accounting", func() bool { return len(m.records(id)) == 1 })
	if fields := strings.Split(m.records(id)[0], ":"); fields[11] != "0" || fields[12] != "3" {
		t.Errorf("failed %s, exit status %s, expected 0 and 3", fields[11], fields[12])
	}
	if said := strings.Join(lines(t, out+"/said"), "|"); said != u.Username+"|one argument hello|"+out {
		t.Errorf("the job has said %q", said)
	}

	front, launcher := m.front(), m.daemon.Pid()
	who, err := user.Lookup(frontUser)
	if err != nil {
		t.Fatal(err)
	}
	same := func(id string) string { return strings.Join([]string{id, id, id, id}, " ") }
	for name, want := range map[string]string{
		"Uid": same(who.Uid), "Gid": same(who.Gid), "Groups": "", "NoNewPrivs": "1", "Seccomp": "2",
		"CapInh": "0000000000000000", "CapPrm": "0000000000000000", "CapEff": "0000000000000000", "CapBnd": "0000000000000000", "CapAmb": "0000000000000000",
	} {
		if got := status(t, front, name); got != want {
			t.Errorf("the front has %s %s, expected %s", name, got, want)
		}
	}
	if got := status(t, launcher, "Uid"); got != same("0") {
		t.Errorf("the launcher has Uid %s", got)
	}
	if r := m.root("../execd", "doctor"); !strings.Contains(r.stdout, fmt.Sprintf("front: process %d runs as %s, without capabilities, cannot gain rights (NoNewPrivs), system calls filtered (seccomp)\n", front, frontUser)) ||
		!strings.Contains(r.stdout, fmt.Sprintf("launcher: process %d runs as root, with capabilities", launcher)) {
		t.Errorf("the doctor says\n%s%s", r.stdout, r.stderr)
	}
	m.refusedNothing()
	m.until("the job's directory is gone", func() bool {
		left, err := os.ReadDir(filepath.Join(m.dir, "spool", "active_jobs"))
		return err == nil && len(left) == 0
	})
}

// TestFrontOrders checks that orders of users about jobs work with two processes, and that an order that is not
// supported is refused with the reason.
func TestFrontOrders(t *testing.T) {
	m := newFront(t, 4)
	out := m.open("out")
	m.write("job.sh", "#!/bin/sh\necho begun > "+out+"/$JOB_ID\nsleep 1000\n")
	m.start()
	u := someUsers(t, 1)[0]
	id := strings.TrimSpace(m.as(u, "qsub", "-terse", "-wd", "/", "-o", "/dev/null", "-j", "y", "job.sh").stdout)
	state := func(want string) func() bool {
		return func() bool {
			fields := strings.Fields(lastLine(m.as(u, "qstat").stdout))
			return len(fields) > 4 && fields[4] == want
		}
	}
	m.until("the job has begun", func() bool { return len(lines(t, out+"/"+id)) == 1 })
	m.as(u, "qmod", "-sj", id)
	m.until("the job is suspended", state("s"))
	m.as(u, "qmod", "-usj", id)
	m.until("the job runs again", state("r"))
	m.as(u, "qdel", id)
	m.until("the job is in the accounting", func() bool { return len(m.records(id)) == 1 })
	if fields := strings.Split(m.records(id)[0], ":"); fields[12] != "137" {
		t.Errorf("exit status %s, expected 137", fields[12])
	}
}

// TestFrontParallel checks that with two processes the commands of a parallel job run on its host, by the command of
// root's configuration.
func TestFrontParallel(t *testing.T) {
	t.Parallel()
	m := newFront(t, 4)
	out := m.open("out")
	m.write("conf/pes/mpi", "pe_name mpi\nslots 99\nallocation_rule $fill_up\ncontrol_slaves TRUE\n")
	m.write("conf/queues/all.q", fmt.Sprintf("qname all.q\nhostlist %s\nslots 4\nshell /bin/sh\nload_thresholds NONE\npe_list mpi\ntmpdir %s\n", hostName, m.open("tmp")))
	m.write("conf/conf/global", groupIDs()+"min_uid 1\nmin_gid 1\nrsh_command /site/rsh -x\n")
	m.write("job.sh", "#!/bin/sh\n. \"$SGE_ROOT/$SGE_CELL/common/settings.sh\"\nread -r host slots queue <\"$PE_HOSTFILE\"\n"+
		"echo \"$host $slots $SGE_RSH_COMMAND\"\nqrsh -inherit -nostdin -V \"$host\" echo task of '$JOB_ID'\nqrsh -inherit -nostdin -V \"$host\" exit 7\necho \"status $?\"\n")
	m.start()
	u := someUsers(t, 1)[0]
	r := m.as(u, "qsub", "-terse", "-sync", "y", "-wd", "/", "-o", out+"/said", "-j", "y", "-pe", "mpi", "3", "job.sh")
	if said := strings.Join(lines(t, out+"/said"), "|"); said != hostName+" 3 /site/rsh -x|task of 1|status 7" {
		t.Errorf("the job has said %q; qsub: %+v", said, r)
	}
	m.refusedNothing()
}

// TestFrontAltered checks that with two processes owners and root change the commands of jobs, that users copy jobs,
// and that the changed commands run.
func TestFrontAltered(t *testing.T) {
	t.Parallel()
	m := newFront(t, 4)
	out := m.open("out")
	m.write("job.sh", "#!/bin/sh\nprintf '%s|' $JOB_NAME $MINE $SGE_TASK_ID \"$(ulimit -f)\"\n#"+strings.Repeat("x", 10_000)+"\n") // stored beside its record
	users := someUsers(t, 2)
	u, other := users[0], users[1]
	m.args = append(m.args, "--manager", other.Username)
	m.start()
	submit := func(args ...string) string {
		t.Helper()
		r := m.as(u, "qsub", append([]string{"-terse", "-wd", "/", "-h", "-o", out + "/wrong", "-j", "y", "-v", "MINE=a"}, args...)...)
		id, _, _ := strings.Cut(strings.TrimSpace(r.stdout), ".")
		if r.status != 0 || id == "" {
			t.Fatalf("qsub: %+v", r)
		}
		return id
	}
	id, array, stays := submit("job.sh"), submit("-t", "2", "job.sh"), submit("-N", "stays", "job.sh")
	for _, c := range []struct {
		who  *user.User
		args []string
	}{
		{u, []string{"-N", "is", "-v", "MINE=b", id, id, array}},
		{u, []string{"-o", out + "/$JOB_NAME", "-l", "h_fsize=1G", "-u", u.Username}},
		{nil, []string{"-l", "h_fsize=2G", "-A", "x", id}},
		{u, []string{"-p", "-5", "-l", "h_fsize=2G,arch=*", id}},
	} {
		var r result
		if c.who == nil {
			r = m.root("qalter", c.args...)
		} else {
			r = m.as(c.who, "qalter", c.args...)
		}
		if r.status != 0 {
			t.Errorf("qalter %q: %+v", c.args, r)
		}
	}
	if r := m.as(other, "qalter", "-N", "x", id); r.status == 0 || !strings.Contains(r.stdout, "only the owner of a job or root") {
		t.Errorf("qalter of a manager: %+v", r)
	}
	if r := m.as(other, "qalter", "-p", "-6", id); r.status != 0 {
		t.Errorf("qalter -p of a manager: %+v", r)
	}
	if r := m.as(u, "qresub", "-h", "u", stays, stays); r.status == 0 || !strings.Contains(r.stdout+r.stderr, "job "+stays+" is named twice") {
		t.Errorf("qresub of a job twice: %+v", r)
	}
	r := m.as(u, "qresub", "-h", "u", array, stays)
	if r.status != 0 {
		t.Errorf("qresub: %+v", r)
	}
	if r := m.as(other, "qresub", id); r.status == 0 || !strings.Contains(r.stdout+r.stderr, "only the owner of a job can copy it") {
		t.Errorf("qresub of a manager: %+v", r)
	}
	for n := range 5 { // one after the other
		m.root("qrls", strconv.Itoa(n+1))
		m.until("the job has left", func() bool { return len(m.records(strconv.Itoa(n+1))) == 1 })
	}
	m.until("all jobs are in the accounting", func() bool { return m.root("qstat", "-u", "*").stdout == "" })
	for name, want := range map[string]string{"is": "is|b|undefined|4194304|is|b|2|2097152|is|b|2|2097152|", "stays": "stays|a|undefined|2097152|stays|a|undefined|2097152|"} {
		if said := strings.Join(lines(t, filepath.Join(out, name)), ""); said != want {
			t.Errorf("%s: the jobs have said %q, expected %q", name, said, want)
		}
	}
	m.refusedNothing()
}

func lastLine(text string) string {
	list := strings.Split(strings.TrimSpace(text), "\n")
	return list[len(list)-1]
}

// TestFrontOrLauncherKilled checks that the job and the remaining process go on if either of the two processes is
// killed while a job runs, and that the job has one record in the end.
func TestFrontOrLauncherKilled(t *testing.T) {
	m := newFront(t, 4)
	out := m.open("out")
	m.write("job.sh", "#!/bin/sh\necho run >> "+out+"/$JOB_ID\nwhile ! test -e "+out+"/go$JOB_ID; do sleep 0.1; done\nexit 4\n")
	m.start()
	u := someUsers(t, 1)[0]
	submit := func() string {
		r := m.as(u, "qsub", "-terse", "-wd", "/", "-o", "/dev/null", "-j", "y", "job.sh")
		if r.status != 0 {
			t.Errorf("qsub: %+v", r)
		}
		return strings.TrimSpace(r.stdout)
	}
	ran := func(id, which string) {
		testenv.WriteFile(t, out+"/go"+id, "")
		m.until("job "+id+" is in the accounting", func() bool { return len(m.records(id)) > 0 && !hasJob(m.as(u, "qstat"), id) })
		list := m.records(id)
		if len(list) != 1 || strings.Split(list[0], ":")[12] != "4" {
			t.Errorf("%s killed: job %s has the records %q", which, id, list)
		}
		if n := len(lines(t, out+"/"+id)); n != 1 {
			t.Errorf("%s killed: job %s ran %d times", which, id, n)
		}
	}
	for _, which := range []string{"front", "launcher", "both"} {
		id := submit()
		if id == "" {
			t.FailNow()
		}
		m.until("the job has begun", func() bool { return len(lines(t, out+"/"+id)) == 1 })
		front := m.front()
		if which != "launcher" {
			if err := syscall.Kill(front, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
		if which == "front" {
			m.front(front)
		} else {
			m.daemon.Kill()
		}
		switch which {
		case "launcher":
			// The front answers, and keeps what it cannot start.
			m.until("the front says that there is no launcher", func() bool {
				r := m.root("../execd", "status", "--socket", m.socket())
				return strings.Contains(r.stdout+r.stderr, "launcher")
			})
			if r := m.root("../execd", "doctor"); !strings.Contains(r.stdout, fmt.Sprintf("front: process %d runs as %s, without capabilities", front, frontUser)) ||
				!strings.Contains(r.stdout, "launcher: is not running; jobs go on") {
				t.Errorf("no launcher: the doctor says\n%s%s", r.stdout, r.stderr)
			}
			if r := m.as(u, "qstat"); !hasJob(r, id) {
				t.Errorf("no launcher: job %s is not here: %+v", id, r)
			}
			waiting := make(chan string, 1)
			go func() { waiting <- submit() }() // waits for the launcher
			m.start()
			if other := <-waiting; other != "" {
				ran(other, which)
			}
			if now := m.front(); now != front {
				t.Errorf("there is another front, %d, expected %d", now, front)
			}
		case "both":
			m.start()
		}
		if r := m.as(u, "qstat"); !hasJob(r, id) {
			t.Errorf("%s killed: job %s is not here: %+v", which, id, r)
		}
		ran(id, which)
	}
	m.refusedNothing()
	// A signal to the launcher ends the front, too, also one that it has not started.
	front := m.front()
	m.daemon.Kill()
	m.start()
	p, gone := m.daemon.Process()
	m.until("the launcher has found the front", func() bool { return strings.Count(m.log(), "the launcher runs again") == 2 })
	_ = p.Signal(syscall.SIGTERM)
	<-gone
	m.until("the front has ended", func() bool { return syscall.Kill(front, 0) != nil })
}

// TestFrontApart checks that a service manager can start the two processes by themselves, in any order, and end and
// start each alone. The front has the rights of its user, and no other process can take its place.
func TestFrontApart(t *testing.T) {
	t.Parallel()
	var front testenv.Daemon
	t.Cleanup(func() { // after that of the machine
		if p, _ := front.Process(); p != nil {
			front.Kill()
		}
	})
	m := newFront(t, 4)
	u := someUsers(t, 1)[0]
	out := m.open("out")
	m.write("job.sh", "#!/bin/sh\necho \"$SGE_ROOT\" >> "+out+"/$JOB_ID\nwhile ! test -e "+out+"/go; do sleep 0.1; done\n")
	who, err := user.Lookup(frontUser)
	if err != nil {
		t.Fatal(err)
	}
	startFront := func(who *user.User) {
		cmd := exec.Command(filepath.Join(m.bin, "execd"), "standalone", "--host", hostName, "--spool", filepath.Join(m.dir, "spool"), //nolint:noctx // it is killed below
			"--socket", m.socket(), "--conf", filepath.Join(m.dir, "conf"), "--front-user", frontUser, "--only", "front")
		cmd.SysProcAttr = credential(t, who)
		front.Start(t, cmd, filepath.Join(m.dir, "log"))
	}
	startFront(u)
	_, gone := front.Process()
	<-gone
	if !strings.Contains(m.log(), "expected that of --front-user") {
		t.Errorf("a front of another user: %s", m.log())
	}

	startFront(who) // waits for the launcher, which makes the spool directory
	m.until("the front waits", func() bool { return strings.Contains(m.log(), "waiting for the launcher") })
	m.args = append(m.args, "--only", "launcher")
	m.start()
	id := ""
	m.until("a job is submitted", func() bool {
		id = strings.TrimSpace(m.as(u, "qsub", "-terse", "-wd", "/", "-o", "/dev/null", "-j", "y", "job.sh").stdout)
		return id != ""
	})
	m.until("the job has begun", func() bool { return len(lines(t, out+"/"+id)) == 1 })
	if said := lines(t, out+"/"+id)[0]; said != filepath.Join(m.dir, "spool", "sge") {
		t.Errorf("the job has SGE_ROOT %q", said)
	}
	for name, want := range map[string]string{"NoNewPrivs": "1", "Seccomp": "2", "CapEff": "0000000000000000"} {
		if got := status(t, front.Pid(), name); got != want {
			t.Errorf("the front has %s %s, expected %s", name, got, want)
		}
	}
	if _, err := net.Dial("unixpacket", filepath.Join(m.dir, "spool", launcher.SocketName)); err != nil {
		t.Errorf("the launcher's socket: %v", err) // root may connect, and is sent away
	}
	m.until("the launcher has sent root away", func() bool { return strings.Contains(m.log(), "a process of user ID 0 has connected") })
	if info, err := os.Stat(filepath.Join(m.dir, "spool", launcher.SocketName)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the launcher's socket is %v (%v)", info.Mode(), err)
	}

	launchers := m.daemon.Pid()
	front.Kill()
	startFront(who)
	m.until("the next front answers", func() bool { return hasJob(m.as(u, "qstat"), id) })
	m.daemon.Kill()
	m.start()
	testenv.WriteFile(t, out+"/go", "")
	m.until("the job is in the accounting", func() bool { return len(m.records(id)) == 1 })
	if n := len(lines(t, out+"/"+id)); n != 1 || m.daemon.Pid() == launchers {
		t.Errorf("job %s ran %d times", id, n)
	}
	m.refusedNothing()
	p, gone := front.Process()
	m.root("qdel", "-u", "*")
	_ = p.Signal(syscall.SIGTERM)
	<-gone
	startFront(who) // for the end of the test
}

// log returns the log of the daemon.
func (m *machine) log() string {
	text, _ := os.ReadFile(filepath.Join(m.dir, "log"))
	return string(text)
}

// TestKilledFront does what TestKilledDaemon does, with a daemon of two processes, of which one or
// the other is killed.
func TestKilledFront(t *testing.T) {
	m := newFront(t, 8)
	killedMachine(t, m, 0, func(random *rand.Rand) {
		if random.IntN(2) == 0 {
			_ = syscall.Kill(m.front(), syscall.SIGKILL) // it is started again
			return
		}
		m.daemon.Kill()
		m.start()
	})
}

// TestFrontKilledAtEachPoint checks that the job runs once, has one record and leaves no files behind, wherever the
// launcher or the front is killed. A front whose launcher is killed goes on with the next one.
func TestFrontKilledAtEachPoint(t *testing.T) {
	t.Parallel()
	killedAt(t, []string{"launch-begun", "launch-forked", "agent-launched", "agent-acknowledged"})
}

// TestSoakFrontKilledAtEachPoint does so with all places that a job passes.
func TestSoakFrontKilledAtEachPoint(t *testing.T) {
	testenv.Soak(t)
	// No signal is sent to this job, and its TMPDIR has no limit.
	others := []string{"agent-signal-noted", "launch-project", "launch-quota", "launch-scratch", "launch-mounted"}
	var points []string
	for _, dir := range []string{"../../agent", "../../agent/launch", "../../jobdir"} {
		files, err := filepath.Glob(dir + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, match := range regexp.MustCompile(`failpoint\.At\("([a-z-]+)"\)`).FindAllStringSubmatch(string(text), -1) {
				if !slices.Contains(others, match[1]) {
					points = append(points, match[1])
				}
			}
		}
	}
	if len(points) < 25 {
		t.Fatalf("there are %q only", points)
	}
	killedAt(t, points)
}

func killedAt(t *testing.T, points []string) {
	t.Helper()
	m := newFront(t, 4)
	mortal := t.TempDir()
	if err := testenv.Build(mortal, "failpoint"); err != nil {
		t.Fatal(err)
	}
	testenv.LetIn(t, mortal)
	out, log, usual := m.open("out"), filepath.Join(m.dir, "log"), m.bin
	m.write("job.sh", "#!/bin/sh\necho run >> "+out+"/$JOB_ID\nexit 4\n")
	u := someUsers(t, 1)[0]
	fronts := func() int {
		text, _ := os.ReadFile(log)
		return strings.Count(string(text), "the front has ended")
	}
	for _, point := range points {
		began, before := time.Now(), fronts()
		m.bin, m.env = mortal, []string{"EXECD_FAILPOINT=" + point}
		m.start()
		m.bin, m.env = usual, nil
		// The daemon may be killed before qsub has its answer. It then asks the next one.
		submitted := make(chan result, 1)
		go func() {
			submitted <- m.as(u, "qsub", "-terse", "-wd", "/", "-o", "/dev/null", "-j", "y", "job.sh")
		}()
		_, gone := m.daemon.Process()
		which := ""
		m.until(point+" is met", func() bool {
			select {
			case <-gone:
				which = "launcher"
			default:
				if fronts() > before {
					which = "front"
				}
			}
			return which != ""
		})
		if which == "launcher" {
			m.bin = mortal // the front goes on, and finds the next launcher of the same program
		} else {
			m.daemon.Kill() // a next front would meet the same place
		}
		m.start()
		m.bin = usual
		r := <-submitted
		id := strings.TrimSpace(r.stdout)
		if r.status != 0 || id == "" {
			t.Fatalf("%s killed at %s: qsub: %+v", which, point, r)
		}
		m.until(point+": the job has left", func() bool {
			left, err := os.ReadDir(filepath.Join(m.dir, "spool", "active_jobs"))
			return err == nil && len(left) == 0 && len(m.records(id)) > 0 && m.as(u, "qstat").stdout == ""
		})
		if list := m.records(id); len(list) != 1 || strings.Split(list[0], ":")[12] != "4" {
			t.Errorf("%s killed at %s: job %s has the records %q", which, point, id, list)
		}
		if n := len(lines(t, out+"/"+id)); n != 1 {
			t.Errorf("%s killed at %s: job %s ran %d times", which, point, id, n)
		}
		t.Logf("%s killed at %s: %s", which, point, time.Since(began))
		m.stop()
	}
	m.start()
	m.refusedNothing()
}

// TestFrontRefused checks that a daemon that cannot be divided into two processes says so.
func TestFrontRefused(t *testing.T) {
	m := newFront(t, 1)
	m.start()
	m.front()
	m.until("the daemon answers", func() bool { return m.root("qstat").status == 0 })
	p, gone := m.daemon.Process()
	_ = p.Signal(syscall.SIGTERM)
	<-gone
	m.args = nil
	m.start() // without --front-user
	_, gone = m.daemon.Process()
	<-gone
	log, err := os.ReadFile(filepath.Join(m.dir, "log"))
	if err != nil || !strings.Contains(string(log), "belongs to a daemon with --front-user") {
		t.Errorf("%s (%v)", log, err)
	}
	m.args = []string{"--front-user", frontUser}
	m.start()
}

// TestFrontSubmissions checks that with two processes the launcher starts only jobs that users have submitted, with
// all files that their commands read.
func TestFrontSubmissions(t *testing.T) {
	m := newFront(t, 4)
	out := m.open("out")
	m.write("job.sh", "#!/bin/sh\n#$ -N said -v OF=script\nprintf '%s|' \"$@\" $OF $MINE $SGE_ROOT ${SGE_TASK_ID}\n")
	m.start()
	root := filepath.Join(m.dir, "spool", "sge")
	requests := filepath.Join(root, "default", "common", "sge_request")
	m.until("there is a directory of the cell", func() bool { _, err := os.Stat(requests); return err == nil })
	testenv.WriteFile(t, requests, "-j y -o "+out+"/$JOB_NAME\n")
	u := someUsers(t, 1)[0]
	submitted := func(args ...string) string {
		t.Helper()
		r := m.as(u, "qsub", append([]string{"-terse", "-wd", "/"}, args...)...)
		id, _, _ := strings.Cut(strings.TrimSpace(r.stdout), ".")
		if r.status != 0 || id == "" {
			t.Fatalf("qsub %q: %+v", args, r)
		}
		return id
	}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"said":   {[]string{"-v", "MINE=\xff", "job.sh", "an argument", "\xfe"}, "an argument|\xfe|script|\xff|" + root + "|undefined|"},
		"array":  {[]string{"-N", "array", "-t", "2", "job.sh"}, "script|" + root + "|2|"},
		"pe":     {[]string{"-N", "pe", "-pe", "smp", "2", "-l", "h_rt=60", "-notify", "-p", "-1", "job.sh"}, "script|" + root + "|undefined|"},
		"binary": {[]string{"-N", "binary", "-b", "y", "-V", "echo", "$HOME"}, u.HomeDir},
	} {
		id := submitted(c.args...)
		m.until("job "+name+" is in the accounting", func() bool { return len(m.records(id)) == 1 })
		if said := strings.Join(lines(t, filepath.Join(out, name)), "\n"); said != c.want {
			t.Errorf("%s: the job has said %q, expected %q", name, said, c.want)
		}
	}

	if r := m.as(u, "qsub", "-o", "x:y:z", "nosuchscript"); r.status == 0 || strings.Contains(r.stderr, "launcher") {
		t.Errorf("qsub of nothing: %+v", r)
	}
	info, err := os.Stat(filepath.Join(root, "default", "common", "settings.sh"))
	if err != nil {
		t.Fatal(err)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || st.Uid != 0 || info.Mode()&0o022 != 0 {
		t.Errorf("what jobs source is %+v, expected a file of root", info)
	}
	m.refusedNothing()
}

// TestFrontConfiguration checks that with two processes root's configuration decides on control groups, the program
// that runs supervisors and the priorities of running jobs.
func TestFrontConfiguration(t *testing.T) {
	t.Parallel()
	m := newFront(t, 4)
	out := m.open("out")
	wrapper := filepath.Join(m.dir, "wrapper")
	m.write("wrapper", "#!/bin/sh\necho started >> "+out+"/wrapper\nexec "+m.bin+"/sge_shepherd-go \"$@\"\n")
	if err := os.Chmod(wrapper, 0o755); err != nil {
		t.Fatal(err)
	}
	global := groupIDs() + "min_uid 1\nmin_gid 1\ncgroups_params cgroup_path=none\nreprioritize 1\nshepherd_cmd " + wrapper + "\n"
	m.write("conf/conf/global", global+"execd_params PTF_MIN_PRIORITY=7,PTF_MAX_PRIORITY=7\n")
	m.write("job.sh", "#!/bin/sh\nuntil test \"$(nice)\" = 7; do sleep 0.05; done\ncat /proc/self/cgroup\n")
	m.start()
	u := someUsers(t, 1)[0]
	if r := m.as(u, "qsub", "-sync", "y", "-wd", "/", "-o", out+"/groups", "-j", "y", "job.sh"); r.status != 0 {
		t.Errorf("qsub: %+v", r)
	}
	if n := len(lines(t, out+"/wrapper")); n != 1 {
		t.Errorf("shepherd_cmd was run %d times", n)
	}
	if text := strings.Join(lines(t, out+"/groups"), "\n"); text == "" || strings.Contains(text, "/execd-") {
		t.Errorf("the job is in the control groups\n%s", text)
	}
	m.refusedNothing()
	m.write("conf/conf/global", global+"execd_params USE_CGROUPS=false\n")
	p, _ := m.daemon.Process()
	_ = p.Signal(syscall.SIGHUP)
	m.until("the daemon refuses other settings than root's when it started", func() bool {
		log, err := os.ReadFile(filepath.Join(m.dir, "log"))
		return err == nil && strings.Contains(string(log), "USE_CGROUPS of execd_params is false, but true in root's configuration")
	})
}

// TestFrontProcedures checks that with two processes the procedures of root's configuration run as their users, with
// the variables of execd and without those of the job. Jobs have the nice value of their queue in root's
// configuration.
func TestFrontProcedures(t *testing.T) {
	t.Parallel()
	m := newFront(t, 4)
	out := m.open("out")
	m.write("procedure", "#!/bin/sh\necho $1 $2 $(id -un) $QUEUE ${MINE-none} $SGE_JOB_ENV_MINE >> "+out+"/log\n")
	if err := os.Chmod(filepath.Join(m.dir, "procedure"), 0o755); err != nil {
		t.Fatal(err)
	}
	testenv.WriteFile(t, out+"/log", "")
	if err := os.Chmod(out+"/log", 0o666); err != nil {
		t.Fatal(err)
	}
	program := m.dir + "/procedure"
	m.write("conf/pes/mpi", "pe_name mpi\nslots 99\nallocation_rule $fill_up\nstart_proc_args root@"+program+" start $pe\nstop_proc_args "+program+" stop $pe\n")
	m.write("conf/queues/all.q", fmt.Sprintf("qname all.q\nhostlist %s\nslots 4\nshell /bin/sh\nload_thresholds NONE\npe_list mpi\npriority -5\ntmpdir %s\nprolog root@%s prolog $queue\nepilog daemon@%[3]s epilog $queue\n", hostName, m.open("tmp"), program))
	m.write("job.sh", "#!/bin/sh\necho job \"$(id -un)\" \"$(nice)\" >> "+out+"/log\n")
	m.start()
	u := someUsers(t, 1)[0]
	r := m.as(u, "qsub", "-sync", "y", "-wd", "/", "-o", "/dev/null", "-j", "y", "-pe", "mpi", "2", "-v", "MINE=x", "job.sh")
	want := "prolog all.q root all.q none x|start mpi root all.q none x|job " + u.Username + " -5|stop mpi " + u.Username + " all.q x|epilog all.q daemon all.q none x"
	if said := strings.Join(lines(t, out+"/log"), "|"); said != want {
		t.Errorf("the procedures have said\n%s, expected\n%s; qsub: %+v", said, want, r)
	}
	m.refusedNothing()
}
