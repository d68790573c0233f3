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
	"github.com/execd-project/execd/internal/spawn"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/limits"
	"github.com/execd-project/execd/limits/group"
	"github.com/execd-project/execd/limits/inherited"
	"github.com/execd-project/execd/limits/topology"
	"github.com/execd-project/execd/starter/sigwait"
)

// Shepherd supervises one job. It is used by one goroutine.
type Shepherd struct {
	dir *jobdir.Dir
	d   *job.Description
	db  userdb.Database

	privileged bool // may become any user
	secure     bool // started with another effective than real user
	owner      account
	jobEnv     *environment
	trusted    *environment // Grid Engine's variables, of which no user has chosen the value
	common     variables
	rlimits    []limits.Rlimit // of the processes of procedures and methods
	jobRlimits []limits.Rlimit // of those of the job
	tmpdir     *jobdir.Tmpdir  // made by us in place of one that cannot be trusted

	failed job.Failed // the first failure: it is the one that counts

	events *sigwait.Listener
	due    [numDue]time.Time

	awaited        int            // the step that is running
	ended          *ending        // and how it ended
	methods        map[int]string // running method commands, by process
	methodChildren map[int]*spawn.Child
	pending        []request // asked for while there was no job to deliver it to
	killed         bool      // the job is to be ended
	elsewhere      bool      // to be started on another host, before it has begun here
	strays         strays
	outlets        []*outlet      // of the procedure that runs
	scratch        []byte         // what is read of its output
	flushing       bool           // it has ended, and its writers have not
	held           time.Duration  // what is left of script_timeout while it waits for a writer
	active         *running       // the job while it runs
	reaped         syscall.Rusage // of everything that was reaped while the job ran
	lastKill       time.Time

	bound    topology.CPUSet // the processors that we are bound to; empty if we are not
	group    *group.Group    // the job's control group, nil without
	watch    *limits.Watch
	meter    *meter
	account  limits.Account
	io       ioFiles
	terminal *terminal // of the job; nil without
	hostOOM  bool      // the host had no memory left for the job
}

// forwarded are the signals that say something to a shepherd (the original's
// contract with its execd, see request.go), and the death of children.
var forwarded = []syscall.Signal{
	unix.SIGCHLD, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU, unix.SIGCONT, unix.SIGUSR1, unix.SIGUSR2,
	unix.SIGWINCH, unix.SIGTERM, unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGPIPE,
}

// Self is the calling process, ready to be a shepherd.
type Self struct {
	events *sigwait.Listener
	io     ioFiles
}

// Listen makes the calling process ready to be a shepherd: from here on it
// loses no signal, inherits no descriptor but 0 to 2 to its children, is the
// parent of all orphans among its descendants, and cannot be traced by another
// process of its user.
//
// Signals, credentials of files and the death signal of children belong to the
// thread: the calling goroutine keeps its own from here on.
func Listen() (*Self, error) {
	runtime.LockOSThread()
	events, err := sigwait.Listen(forwarded...)
	if err != nil {
		return nil, err
	}
	// Outside of the process group of whoever started us, whose terminal or
	// daemon may signal that. A session leader cannot, and need not.
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
	giveUpProtection() // while the files of /proc are still ours
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return nil, &oslite.CallError{Call: "prctl", Err: err}
	}
	return self, nil
}

// giveUpProtection makes the job as likely as others to be ended when the host has no
// memory left. A daemon is protected from that (OOMScoreAdjust= of systemd.exec(5)), and
// all that it starts inherits it. We do not need it: we are the smallest process there.
func giveUpProtection() {
	const path = "/proc/self/oom_score_adj"
	if b, err := oslite.Read(path); err != nil || len(b) == 0 || b[0] != '-' {
		return
	}
	if fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0); err == nil {
		_, _ = unix.Write(fd, []byte("0")) // everybody may raise his own
		unix.Close(fd)
	}
}

// closeOnExec keeps every descriptor from 3 up from the programs that we start.
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

// Start reads what a job directory says and supervises its job. A description
// that cannot be used is the job's error, not the host's: with a real execd it
// is the job's own arguments that can spoil it.
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

// Supervise runs the job of a job directory from its first step to its last
// and returns the failure code, which is also the exit code of the process:
// the first number in the file exit_status. self is what Listen returned.
func Supervise(dir *jobdir.Dir, d *job.Description, db userdb.Database, self *Self) job.Failed {
	s := &Shepherd{
		dir: dir, d: d, db: db,
		events:         self.events,
		io:             self.io,
		methods:        map[int]string{},
		methodChildren: map[int]*spawn.Child{},
	}
	s.begin()
	if s.failed == 0 {
		s.steps()
	}
	return s.finish()
}

// reserved is the room that is kept on the disk for the verdict, and for the
// usage: what both need at most.
const reserved = 4096

// begin records that the shepherd is there and prepares what all steps share.
func (s *Shepherd) begin() {
	if err := s.takePrivileges(); err != nil {
		s.fail(job.FailedBeforeProlog, "cannot become root again: "+err.Error())
		return
	}
	failpoint.At("shepherd-begin")
	s.must(s.dir.WriteNumber(jobdir.FilePID, unix.Getpid()))
	failpoint.At("shepherd-pid")
	// Both exist, empty, while the job runs: a shepherd that dies now is told
	// from one that never was.
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
	failpoint.At("shepherd-ready")
}

// daemonEnvironment is the environment that we were started with. The Go runtime
// adds GOTRACEBACK=none to that of a program whose real and effective user
// differ, as under a real execd; it is nothing that a job should see.
func (s *Shepherd) daemonEnvironment() []string {
	env := syscall.Environ()
	if !s.secure {
		return env
	}
	return slices.DeleteFunc(env, func(v string) bool { return v == "GOTRACEBACK=none" })
}

// refuseOwner says why a job of this owner is not run at all. Root runs no
// jobs: a batch system would be the way to become root for whoever can write
// into it.
func (s *Shepherd) refuseOwner() string {
	switch {
	case s.owner.UID == 0 && s.privileged:
		return "user " + s.owner.Name + " is root: jobs of root are not run"
	case int64(s.owner.UID) < int64(s.d.MinUID):
		return "user " + s.owner.Name + " has user id " + itoa(int(s.owner.UID)) + ", below min_uid " + itoa(s.d.MinUID)
	case int64(s.owner.GID) < int64(s.d.MinGID):
		return "user " + s.owner.Name + " has group id " + itoa(int(s.owner.GID)) + ", below min_gid " + itoa(s.d.MinGID)
	case !s.privileged && int(s.owner.UID) != unix.Getuid():
		return "job of user " + s.owner.Name + " cannot be run by user id " + itoa(unix.Getuid()) + ": only root may"
	}
	return ""
}

// prepareLimits works out the limits of the procedures and methods, each process of which has
// its own, and those of the processes of the job, which is watched as a whole.
func (s *Shepherd) prepareLimits() {
	s.rlimits = s.attain(limits.Rlimits(s.procedureLimits(), s.d.HostSlots), false)
	s.jobRlimits = s.attain(limits.OfProcess(s.d, processors()), true)
}

// procedureLimits returns the limits of the queue, which are those of its procedures. A real
// execd tells only those that the job has requests in: of these we take what no job can
// request.
func (s *Shepherd) procedureLimits() job.Limits {
	l := job.Unlimited()
	if s.d.ProcedureLimits != nil {
		l = *s.d.ProcedureLimits
	} else {
		for _, r := range []job.Resource{job.Descriptors, job.MemoryLocked, job.Locks} {
			l[r] = s.d.Limits[r]
		}
	}
	// It is of the user, who may have as many processes elsewhere (setrlimit(2)).
	l[job.MaxProc] = job.Unlimited()[job.MaxProc]
	return l
}

// attain fits limits to what we may set.
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
	// What the configuration leaves alone is that of whoever started us, not
	// what the Go runtime has made of it.
	if soft, hard, ok := inherited.OpenFiles(); ok && s.d.Limits[job.Descriptors].Unset {
		fitted = append(fitted, limits.Rlimit{
			Resource: job.Descriptors, Number: unix.RLIMIT_NOFILE, Name: "RLIMIT_NOFILE", Soft: soft, Hard: hard,
		})
	}
	return fitted
}

// attainable returns the largest hard limit up to that of r which may be set. Only
// trying tells: root of a user namespace has CAP_SYS_RESOURCE, and may not raise
// limits.
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

// takePrivileges becomes root for everything but files, if we were started so
// that we can: a real execd starts its shepherd with root as the real and the
// admin user as the effective user. Files of the job directory stay the admin
// user's work, who alone may write there where root is squashed (NFS).
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

// fail records a failure. The first one is what the job is reported with; the
// others are there to be read.
func (s *Shepherd) fail(code job.Failed, text string) {
	s.failBy(unix.Geteuid(), unix.Getpid(), code, text)
}

// failBy is fail for a record of another process, with its effective user id.
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

// must turns an error on the job directory into a failure before the job: a
// job whose end could not be recorded is not started.
func (s *Shepherd) must(err error) {
	if err != nil && s.failed == 0 {
		s.fail(job.FailedBeforeProlog, err.Error())
	}
}

// trace adds a line to the trace file. A full disk does not stop a job for it.
func (s *Shepherd) trace(text string) {
	_ = s.dir.Append(jobdir.FileTrace, jobdir.RecordLine(time.Now(), unix.Geteuid(), unix.Getpid(), text))
}

// finish waits for method commands that still run, and writes the verdict.
func (s *Shepherd) finish() job.Failed {
	s.waitMethods()
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

// protectSubmission closes what came from the submitter to other users where a
// real execd has left it open. Jobs of qrsh read it themselves as the user.
func (s *Shepherd) protectSubmission() {
	if s.d.Interactive != nil {
		return
	}
	if err := s.dir.Protect(); err != nil && !errors.Is(err, fs.ErrPermission) {
		s.trace(err.Error())
	}
}
