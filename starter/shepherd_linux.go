package starter

import (
	"errors"
	"io/fs"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/failpoint"
	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/internal/oslite"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/limits"
	"github.com/execd-project/execd/limits/group"
	"github.com/execd-project/execd/limits/inherited"
	"github.com/execd-project/execd/limits/topology"
	"github.com/execd-project/execd/starter/sigwait"
)

// Shepherd supervises one job. It must be used by one goroutine only.
type Shepherd struct {
	dir *jobdir.Dir
	d   *job.Description
	db  userdb.Database

	privileged bool // can become any user
	secure     bool // started with an effective user that is not the real user
	owner      account
	jobEnv     *environment
	trusted    *environment // Grid Engine's variables, with values that no user can choose
	common     variables
	rlimits    []limits.Rlimit // for processes of procedures and methods
	jobRlimits []limits.Rlimit // for processes of the job
	tmpdir     *jobdir.Tmpdir  // made by the supervisor in place of one that cannot be trusted

	failed job.Failed // the first failure, which is the one that counts

	events *sigwait.Listener
	due    [numDue]time.Time

	awaited        int            // the running step
	ended          *ending        // the end of that step
	methods        map[int]string // running method commands, by process
	methodChildren map[int]method
	pending        []request // requests that arrived before the job could get them
	killed         bool      // the job is to be ended
	elsewhere      bool      // to be started on another host, before it has begun on this one
	strays         strays
	leftStay       bool           // what the step leaves running may continue after the job
	mixed          bool           // when the step began, there were strays that have to end with the job
	outlets        []*outlet      // of the running procedure
	scratch        []byte         // buffer for its output
	flushing       bool           // it has finished, and its writers have not
	held           time.Duration  // what is left of script_timeout while it waits for a writer
	active         *running       // the job while it runs
	reaped         syscall.Rusage // usage of all processes that were reaped while the job ran
	lastKill       time.Time

	bound     topology.CPUSet // the processors that this process is bound to; empty for no binding
	group     *group.Group    // the job's control group; nil without one
	watch     *limits.Watch
	meter     *meter
	account   limits.Account
	io        ioFiles
	terminal  *terminal // of the job; nil without one
	hostKills uint64    // processes of the job that the kernel killed because the host had no memory left

	space     space
	namespace int // descriptor of the mount namespace with the job's own /tmp; 0 without
}

// forwarded are the signals by which a daemon gives orders to a supervisor (the original's contract
// with its execd, see request.go), and SIGCHLD.
var forwarded = []syscall.Signal{
	unix.SIGCHLD, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU, unix.SIGCONT, unix.SIGUSR1, unix.SIGUSR2,
	unix.SIGWINCH, unix.SIGTERM, unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGPIPE,
}

// Self is the calling process, prepared to be a supervisor by Listen.
type Self struct {
	events *sigwait.Listener
	io     ioFiles
}

// Listen prepares the calling process to be a supervisor. From then on it loses no signal, passes
// only descriptors 0 to 2 to its children, becomes the parent of all orphans among its descendants,
// and cannot be traced by other processes of its user.
//
// Signal masks, file credentials and the death signal of children belong to the thread: the calling
// goroutine stays on its thread.
func Listen() (*Self, error) {
	runtime.LockOSThread()
	events, err := sigwait.Listen(forwarded...)
	if err != nil {
		return nil, err
	}
	// Leave the process group of the caller, which may get signals from a terminal or daemon. A
	// session leader cannot do this and does not need it.
	if err := unix.Setpgid(0, 0); err != nil && !errors.Is(err, unix.EPERM) {
		return nil, &oslite.CallError{Call: "setpgid", Err: err}
	}
	if err := closeOnExec(); err != nil {
		return nil, err
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, &oslite.CallError{Call: "prctl", Err: err}
	}
	self := &Self{events, openIO()}
	giveUpProtection() // while this process may still write to its files in /proc
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return nil, &oslite.CallError{Call: "prctl", Err: err}
	}
	return self, nil
}

// giveUpProtection sets the default probability of being killed when the host is out of memory. A
// daemon may be protected (OOMScoreAdjust= of systemd.exec(5)), and its children inherit this. The
// supervisor does not need it: it is the smallest process there.
func giveUpProtection() {
	const path = "/proc/self/oom_score_adj"
	if b, err := oslite.Read(path); err != nil || len(b) == 0 || b[0] != '-' {
		return
	}
	if fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0); err == nil {
		_, _ = unix.Write(fd, []byte("0")) // any process may raise its own
		unix.Close(fd)
	}
}

// closeOnExec sets close-on-exec on every descriptor from 3 up.
func closeOnExec() error {
	err := unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC)
	if err == nil {
		return nil
	}
	// Before Linux 5.11.
	fds, err := oslite.Numbers("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, fd := range fds {
		if fd >= 3 {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}

// Start reads a job directory and supervises its job. A description that cannot be used is the
// job's failure, not the host's: under a real execd, arguments of the job itself can make it
// unreadable.
func Start(dir *jobdir.Dir, db userdb.Database, self *Self) job.Failed {
	d, err := dir.Description()
	if err == nil && d.Interactive != nil {
		err = handOver(d)
	}
	if err == nil {
		return Supervise(dir, d, db, self)
	}
	code := job.FailedReadConfig
	if d != nil {
		code = job.FailedAppError
	}
	if _, ok := errors.AsType[*jobdir.SyntaxError](err); ok {
		code = job.FailedAppError
	}
	_ = dir.WriteNumber(jobdir.FilePID, unix.Getpid())
	_ = dir.AddError(time.Now(), unix.Geteuid(), unix.Getpid(), err.Error())
	_ = dir.AddExitStatus(int(code))
	return code
}

// Supervise runs the job of a job directory from its first step to its last. It returns the failure
// code, which is also the exit code of the process and the first number in the file exit_status.
// self is the value that Listen returned.
func Supervise(dir *jobdir.Dir, d *job.Description, db userdb.Database, self *Self) job.Failed {
	s := &Shepherd{
		dir: dir, d: d, db: db,
		events:         self.events,
		io:             self.io,
		methods:        map[int]string{},
		methodChildren: map[int]method{},
	}
	s.begin()
	if s.failed == 0 {
		s.steps()
	}
	return s.finish()
}

// reserved is the disk space, in bytes, that is reserved for the files exit_status and usage.
const reserved = 4096

// begin records that the supervisor has started, and prepares what all steps share.
func (s *Shepherd) begin() {
	if err := s.takePrivileges(); err != nil {
		s.fail(job.FailedBeforeProlog, "cannot become root again: "+err.Error())
		return
	}
	failpoint.At("shepherd-begin")
	s.must(s.dir.WriteNumber(jobdir.FilePID, unix.Getpid()))
	failpoint.At("shepherd-pid")
	// Both files exist, empty, while the job runs. They distinguish a supervisor that was killed
	// from one that never ran.
	s.must(s.dir.Append(jobdir.FileError, ""))
	s.must(s.dir.ReserveAppend(jobdir.FileExitStatus, reserved))
	failpoint.At("shepherd-files")
	if s.failed != 0 {
		return
	}
	s.trace("shepherd started for job " + s.d.ID.String() + " of " + s.d.Owner)
	owner, err := s.lookupOwner()
	if err != nil {
		s.fail(job.FailedInJobChild, err.Error())
		return
	}
	s.owner = owner
	if reason := s.refuseOwner(); reason != "" {
		s.fail(job.FailedInJobChild, reason)
		return
	}
	var inheritedEnv []string
	if s.d.InheritEnv {
		inheritedEnv = s.daemonEnvironment()
	}
	s.jobEnv = newEnvironment(inheritedEnv, s.d.Environment)
	s.jobEnv.unset(exitStatusVariable)
	s.trusted = s.trustedEnvironment()
	s.common = commonVariables(s.d, s.trusted.get("SGE_ROOT"), s.trusted.get("SGE_CELL"))
	s.bind()
	s.openGroup()
	s.prepareLimits()
	s.protectSubmission()
	s.checkTmpdir()
	s.openNamespace()
	s.openScratch()
	failpoint.At("shepherd-ready")
}

// daemonEnvironment returns the environment that this process was started with. The Go runtime adds
// GOTRACEBACK=none for a program whose real and effective user differ, as under a real execd; jobs
// should not see that.
func (s *Shepherd) daemonEnvironment() []string {
	env := syscall.Environ()
	if !s.secure {
		return env
	}
	return slices.DeleteFunc(env, func(v string) bool { return v == "GOTRACEBACK=none" })
}

// refuseOwner returns the reason why jobs of this owner never run, or an empty string. Root runs no
// jobs: otherwise anyone who could write into the batch system would become root.
func (s *Shepherd) refuseOwner() string {
	switch {
	case s.owner.UID == 0 && s.privileged:
		return "user " + s.owner.Name + " is root: root cannot own a job"
	case int64(s.owner.UID) < int64(s.d.MinUID):
		return "user " + s.owner.Name + " has user ID " + itoa(int(s.owner.UID)) + ", below min_uid " + itoa(s.d.MinUID)
	case int64(s.owner.GID) < int64(s.d.MinGID):
		return "user " + s.owner.Name + " has group ID " + itoa(int(s.owner.GID)) + ", below min_gid " + itoa(s.d.MinGID)
	case !s.privileged && int(s.owner.UID) != unix.Getuid():
		return "job of user " + s.owner.Name + " cannot be run by user ID " + itoa(unix.Getuid()) + ": only root may"
	}
	return ""
}

// prepareLimits computes two sets of rlimits: for each process of procedures and methods, and for
// the processes of the job, which is also watched as a whole.
func (s *Shepherd) prepareLimits() {
	s.rlimits = s.attain(limits.Rlimits(s.procedureLimits(), s.d.HostSlots), false)
	s.jobRlimits = s.attain(limits.OfProcess(s.d, processors()), true)
}

// procedureLimits returns the limits of the queue, which apply to its procedures. A real execd
// passes only the job's limits, which include its requests: of these, only the limits that no job
// can request are used.
func (s *Shepherd) procedureLimits() job.Limits {
	l := job.Unlimited()
	if s.d.ProcedureLimits != nil {
		l = *s.d.ProcedureLimits
	} else {
		for _, r := range []job.Resource{job.Descriptors, job.MemoryLocked, job.Locks} {
			l[r] = s.d.Limits[r]
		}
	}
	// RLIMIT_NPROC counts all processes of the user on the host (setrlimit(2)).
	l[job.MaxProc] = job.Unlimited()[job.MaxProc]
	return l
}

// attain reduces limits to values that this process is allowed to set.
func (s *Shepherd) attain(list []limits.Rlimit, warn bool) []limits.Rlimit {
	fitted := make([]limits.Rlimit, 0, len(list)+1)
	for _, r := range list {
		var current unix.Rlimit
		if err := unix.Getrlimit(r.Number, &current); err != nil {
			s.trace("cannot read " + r.Name + ": " + err.Error())
			continue
		}
		fit, warning := r.Attain(current, attainable(r, current))
		if warning != "" && warn {
			s.trace("warning: " + warning)
		}
		fitted = append(fitted, fit)
	}
	// If the configuration does not set the limit, it is the one that this process was started
	// with, not the one that the Go runtime has made of it.
	if soft, hard, ok := inherited.OpenFiles(); ok && s.d.Limits[job.Descriptors].Unset {
		fitted = append(fitted, limits.Rlimit{
			Resource: job.Descriptors, Number: unix.RLIMIT_NOFILE, Name: "RLIMIT_NOFILE", Soft: soft, Hard: hard,
		})
	}
	return fitted
}

// attainable returns the largest hard limit, up to that of r, that may be set. It has to try: root
// in a user namespace has CAP_SYS_RESOURCE, and may not raise limits.
func attainable(r limits.Rlimit, current unix.Rlimit) uint64 {
	try := []uint64{r.Hard}
	if r.Number == unix.RLIMIT_NOFILE {
		b, _ := oslite.Read("/proc/sys/fs/nr_open")
		n, _ := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
		try = append(try, min(n, r.Hard))
	}
	for _, most := range try {
		if most <= current.Max {
			break
		}
		if unix.Prlimit(0, r.Number, &unix.Rlimit{Cur: current.Cur, Max: most}, nil) == nil {
			_ = unix.Prlimit(0, r.Number, &current, nil)
			return most
		}
	}
	return min(r.Hard, current.Max)
}

// takePrivileges becomes root, except for access to files, if this process was started in a way
// that allows it: a real execd starts its shepherd with root as the real and the admin user as the
// effective user. The admin user still accesses the files of the job directory, because only that
// user may write there if the file server maps root to nobody (NFS root_squash).
func (s *Shepherd) takePrivileges() error {
	ruid, euid, suid := unix.Getresuid()
	if ruid != 0 && euid != 0 && suid != 0 {
		return nil
	}
	s.privileged = true
	if euid == 0 && ruid == 0 && suid == 0 {
		return nil
	}
	s.secure = true
	admin, adminGroup := euid, unix.Getegid()
	if err := syscall.Setresuid(0, 0, 0); err != nil {
		return err
	}
	if admin != 0 {
		if err := unix.Setfsgid(adminGroup); err != nil {
			return err
		}
		return unix.Setfsuid(admin)
	}
	return nil
}

// fail records a failure. The job is reported with the first one; the others are for readers of the
// trace.
func (s *Shepherd) fail(code job.Failed, text string) {
	s.failBy(unix.Geteuid(), unix.Getpid(), code, text)
}

// failBy does what fail does, for a record of another process with its effective user ID.
func (s *Shepherd) failBy(euid, pid int, code job.Failed, text string) {
	s.trace("failed " + itoa(int(code)) + ": " + text)
	if s.failed == 0 {
		s.failed = code
	}
	if err := s.dir.AddError(time.Now(), euid, pid, text); err != nil {
		s.trace(err.Error())
	}
	failpoint.At("shepherd-error")
	if err := s.dir.AddExitStatus(int(code)); err != nil {
		s.trace(err.Error())
	}
}

// must records an error on the job directory as a failure before the job: a job whose end could not
// be recorded is not started.
func (s *Shepherd) must(err error) {
	if err != nil && s.failed == 0 {
		s.fail(job.FailedBeforeProlog, err.Error())
	}
}

// trace adds a line to the trace file. It ignores errors: a full disk does not stop a job here.
func (s *Shepherd) trace(text string) {
	_ = s.dir.Append(jobdir.FileTrace, jobdir.RecordLine(time.Now(), unix.Geteuid(), unix.Getpid(), text))
}

// finish ends the processes that must not continue after the job, and writes exit_status.
func (s *Shepherd) finish() job.Failed {
	s.endStrays()
	s.removeTmpdir()
	failpoint.At("shepherd-before-exit_status")
	if s.failed == 0 {
		s.awaitSpool()
		if err := s.dir.AddExitStatus(0); err != nil {
			s.trace(err.Error())
			return job.FailedNoExitStatus
		}
	}
	failpoint.At("shepherd-exit_status")
	s.trace("shepherd ends with " + itoa(int(s.failed)))
	return s.failed
}

// protectSubmission removes other users' access to files with data of the submitter that a real
// execd has left readable. Jobs of qrsh read them as the user.
func (s *Shepherd) protectSubmission() {
	if s.d.Interactive != nil {
		return
	}
	if err := s.dir.Protect(); err != nil && !errors.Is(err, fs.ErrPermission) {
		s.trace(err.Error())
	}
}
