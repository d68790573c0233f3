package starter

import (
	"errors"
	"maps"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/failpoint"
	"github.com/execd-project/execd/internal/spawn"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/limits"
	"github.com/execd-project/execd/limits/group"
)

// umask applies to every step, whatever the submitter's umask was.
const umask = 0o022

// prepare returns a program with the settings that all children share.
func (s *Shepherd) prepare(rlimits []limits.Rlimit) *spawn.Program {
	p := &spawn.Program{}
	s.becomeRoot(p)
	p.Setsid()
	p.Umask(umask)
	p.Nice(s.d.Nice) // also 0: the daemon may run under another value
	for _, r := range rlimits {
		p.Rlimit(r.Number, r.Soft, r.Hard, r.Name)
	}
	return p
}

// bindToUs makes the kernel kill the child if the supervisor exits first. A change of identity
// resets that. It precedes the opening of files, because the child may block there.
func (s *Shepherd) bindToUs(p *spawn.Program) { p.ParentDeathSignal(unix.SIGKILL) }

// procedureProgram returns the program that runs one of the site's procedures. The child opens its
// files as the owner of the job, who chose their names, even if the procedure runs as another user.
func (s *Shepherd) procedureProgram(f files, proc procedure, a attempt, as account) *spawn.Program {
	env := procedureEnvironment(s.jobEnv, s.trusted, as.User, s.d)
	p := s.prepare(s.rlimits)
	s.borrow(p, s.owner, 0)
	s.bindToUs(p)
	f.open(p, env, s.d.Cwd)
	s.giveBack(p)
	inside := as.UID == s.owner.UID && s.enter(p)
	if as.UID == s.owner.UID {
		s.confine(p)
	}
	s.become(p, as, 0)
	s.bindToUs(p)
	if inside {
		p.Chdir(s.d.Cwd)
	}
	a.look(p)
	p.Exec(candidates(proc.argv[0], procedurePath), proc.argv)
	return p
}

// jobInvocation returns the command that is executed for the job.
func (s *Shepherd) jobInvocation() invocation {
	if s.restartsFromCheckpoint() {
		return s.shellCommand(s.d.Ckpt.RestartCommand, s.d.Ckpt.PID)
	}
	return jobInvocation(s.d)
}

// startJob starts the job itself. It records the additional group ID first, because sge_execd takes
// this file as the sign that the job exists.
func (s *Shepherd) startJob(inv invocation, a attempt) (*spawn.Child, time.Time, error) {
	env := newEnvironment(s.jobEnv.list, inv.env)
	f := jobFiles(s.d)
	p := s.prepare(s.jobRlimits)
	if s.terminal != nil {
		if !s.d.Terminal.Pipes {
			p.ControllingTerminal(s.terminal.job[0])
		}
		for fd, of := range s.terminal.job {
			p.Dup(spawn.StageStdin+spawn.Stage(fd), of, fd)
			f.inherit[fd] = true
		}
		f.merge = false
	}
	entries, err := s.joinGroup(p)
	if err != nil {
		return nil, time.Time{}, err
	}
	defer group.CloseEntries(entries)
	if inv.scriptFromStdin {
		fd, err := openScript(s.d.Command.File)
		if err != nil {
			return nil, time.Time{}, &jobdir.Error{Op: "open script", Path: s.d.Command.File, Err: err}
		}
		defer unix.Close(fd)
		p.Dup(spawn.StageStdin, fd, 0)
		f.inherit[0], f.script = true, true
	}
	s.openInside(p, f, env)
	path := searchPath(env)
	if inv.program == s.d.Command.Shell {
		path += ":" + s.d.Cwd // only here the original searches for a shell of -S without a slash
	}
	a.look(p)
	p.Exec(candidates(inv.program, path), inv.argv)

	if err = s.dir.Reserve(jobdir.FileUsage, reserved); err != nil {
		return nil, time.Time{}, err
	}
	failpoint.At("shepherd-before-addgrpid")
	if s.d.AddGroupID != 0 {
		if err := s.dir.WriteNumber(jobdir.FileAddGroupID, s.d.AddGroupID); err != nil {
			return nil, time.Time{}, err
		}
	}
	failpoint.At("shepherd-addgrpid")
	s.beginStep(!s.d.AddGroupKill)
	s.reaped = syscall.Rusage{}
	start := time.Now()
	child, err := p.Start()
	if err != nil {
		return nil, start, err
	}
	failpoint.At("shepherd-job-started")
	s.trace("job starts: " + inv.program + ", process " + itoa(child.PID))
	if err := s.dir.WriteNumber(jobdir.FileJobPID, child.PID); err != nil {
		s.trace(err.Error())
	}
	failpoint.At("shepherd-job_pid")
	return child, start, nil
}

// joinGroup makes the child enter the control group of the job, if there is one. The caller closes the
// entries after it has started the child.
func (s *Shepherd) joinGroup(p *spawn.Program) ([]group.Entry, error) {
	if s.group == nil {
		return nil, nil
	}
	entries, err := s.group.Entries()
	if err != nil {
		return nil, err
	}
	for _, d := range entries {
		if d.Dir >= 0 {
			p.Cgroup(d.Dir, d.FD, d.Path)
		} else {
			p.Write(d.FD, "0", d.Path)
		}
	}
	// Before Linux 6.2, a process that enters a cpuset may use all processors of it.
	p.Affinity(s.bound.Words())
	return entries, nil
}

// openInside makes the child the owner of the job, with the job's files and working directory. The
// names of the files are those of the host, even if the job has its own /tmp: the child opens them
// before it enters the job's namespace, which takes root's rights.
func (s *Shepherd) openInside(p *spawn.Program, f files, env *environment) {
	if s.namespace == 0 {
		s.confine(p)
		s.become(p, s.owner, s.additionalGroup())
		s.bindToUs(p)
		f.open(p, env, s.d.Cwd)
		return
	}
	s.borrow(p, s.owner, s.additionalGroup())
	s.bindToUs(p)
	f.open(p, env, s.d.Cwd)
	s.giveBack(p)
	s.enter(p)
	s.confine(p)
	s.become(p, s.owner, s.additionalGroup())
	s.bindToUs(p)
	p.Chdir(s.d.Cwd)
}

// openScript opens the script of script_from_stdin as the supervisor's user: the owner of the job
// need not have access to its directory. It does not block if the path is not a regular file.
func openScript(path string) (int, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		return -1, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = errors.New("it is not a regular file")
	}
	if err == nil {
		err = unix.SetNonblock(fd, false) // the job inherits the open file
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// shellCommand returns the invocation of a configured command line through sh(1) (sge_ckpt(1),
// queue_conf(5) suspend_method), with its pseudo variables expanded.
func (s *Shepherd) shellCommand(command string, jobPID int) invocation {
	v := variables{"job_pid": itoa(jobPID)}
	maps.Copy(v, s.common)
	if c := s.d.Ckpt; c != nil {
		v["ckpt_dir"], v["ckpt_signal"] = c.Dir, c.Signal
	}
	return invocation{program: "/bin/sh", argv: []string{"sh", "-c", v.expand(command, shellQuote)}}
}

// startMethod starts a command that acts on the running job. It runs as the owner of the job and
// counts as one of the job's processes. It is in the job's control group: its environment is that of the
// job, so the owner can run any code in it, which must not escape the limits and devices of the job.
func (s *Shepherd) startMethod(name, command string) (*spawn.Child, error) {
	inv := s.shellCommand(command, s.commandPID())
	env := methodEnvironment(s.jobEnv, s.trusted)
	null := output{path: nullDevice}
	f := files{stdin: nullDevice, out: [2]output{null, null}}
	p := s.prepare(s.rlimits)
	s.thaw() // in a frozen group it would not run
	entries, err := s.joinGroup(p)
	if err != nil {
		return nil, err
	}
	if s.group != nil {
		if err := s.group.AllowForks(); err != nil { // a clean_command runs after the kill of the job
			s.trace(err.Error())
		}
	}
	defer group.CloseEntries(entries)
	s.openInside(p, f, env)
	p.Exec([]string{inv.program}, inv.argv)
	child, err := p.Start()
	if err == nil {
		s.trace(name + " starts: " + inv.argv[2] + ", process " + itoa(child.PID))
	}
	return child, err
}
