package starter

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/spawn"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/limits"
)

// outlet carries what a procedure prints to the file that the job's user chose for it.
//
// With that file as its standard output the procedure would end when the user wants it to:
// a FIFO whose reader goes away kills it, one that nobody reads stops it, a full quota fails
// it, and its end would be held against the queue. So it writes to a pipe, which we always
// read. A writer, a child of ours with the user's identity and limits, opens the file and
// copies to it what we hand on by a second pipe. Whatever becomes of the writer, the
// procedure does not notice.
type outlet struct {
	file output // where the output goes; its path is the right one when the writer has begun
	end  int    // of the procedure's pipe, for the procedure; -1 when it has it
	from int    // where we read that pipe; -1 when it has ended
	to   int    // where we write the writer's pipe; -1 when the writer is to have no more

	writer  *spawn.Child
	begun   bool // the writer has opened the file, or could not
	ended   bool // the writer has ended, with status
	status  syscall.WaitStatus
	pending []byte // read, and not yet taken by the writer
	taken   int    // bytes that the writer took, in all
	lost    int    // bytes that it did not take

	since    time.Time // when we began to wait for the writer; zero if we do not
	expected int       // what taken is to be at writerPatience after since
	killed   bool
}

const (
	// mostPending is what is kept of the output for a writer that is slow.
	mostPending = 1 << 20
	// writerPatience is how long a writer has for that much when somebody waits for it, and
	// how long for the end of what it was given.
	writerPatience = 5 * time.Second
	// pipeSize is what one read from a pipe brings at most.
	pipeSize = 64 << 10
)

// openOutlets opens the output files of a procedure, as the owner of the job, and has f lead
// to the pipes before them. closeOutlets undoes it, also after a failure.
// as is the user as whom the procedure is to run.
func (s *Shepherd) openOutlets(f *files, name string, as account) (*spawn.StartError, error) {
	if s.d.ScriptTimeout > 0 {
		s.set(dueTimeout, time.Now().Add(s.d.ScriptTimeout))
	}
	defer s.clear(dueTimeout)
	for i := range f.out {
		fd := i + 1
		switch {
		case f.inherit[fd], f.out[i].path == nullDevice, i == 1 && f.merge:
			continue
		case i == 1 && f.pipe[1] != 0 && f.out[1].path == f.out[0].path:
			// One file: what is printed to it stays in its order.
			f.pipe[2], f.out[1] = f.pipe[1], f.out[0]
			continue
		}
		o, err := s.openOutlet(f.out[i], spawn.StageStdout+spawn.Stage(i), as)
		if err != nil {
			return nil, err
		}
		if !s.awaitWriter(o) {
			s.trace(name + " waits for its output: " + o.file.path + " (script_timeout)")
			_ = unix.Kill(o.writer.PID, unix.SIGKILL) // we have not collected it
			return &spawn.StartError{Stage: spawn.StageStdout + spawn.Stage(i), What: o.file.path, Errno: syscall.ETIMEDOUT}, nil
		}
		if failure := o.writer.Failed(); failure != nil {
			return failure, nil
		}
		f.pipe[fd], f.out[i] = o.end, o.file
	}
	return nil, nil
}

// openOutlet makes the pipes of an outlet, and starts its writer.
func (s *Shepherd) openOutlet(file output, stage spawn.Stage, as account) (*outlet, error) {
	var procedures, writers [2]int
	if err := s.pipeOf(as, &procedures); err != nil {
		return nil, call("pipe2", err)
	}
	if err := unix.Pipe2(writers[:], unix.O_CLOEXEC); err != nil {
		closeAll(procedures[:])
		return nil, call("pipe2", err)
	}
	o := &outlet{file: file, end: procedures[1], from: procedures[0], to: writers[1]}
	_ = unix.SetNonblock(o.from, true)
	_ = unix.SetNonblock(o.to, true)
	p := s.prepare(s.limitOfFiles())
	s.become(p, s.owner, 0)
	s.bindToUs(p)
	p.Dup(spawn.StageSetup, writers[0], 0)
	p.Chdir(s.d.Cwd)
	p.OpenAppend(stage, 1, file.path, file.fallback, nil, nil)
	p.Copy()
	var err error
	o.writer, err = p.Start()
	_ = unix.Close(writers[0])
	if err != nil {
		closeAll([]int{o.end, o.from, o.to})
		return nil, err
	}
	s.strays.add(o.writer.PID) // signals to the step are not for it
	s.outlets = append(s.outlets, o)
	return o, nil
}

// pipeOf makes a pipe that belongs to a user, who may then open it by a name such as
// /dev/stderr.
func (s *Shepherd) pipeOf(as account, p *[2]int) error {
	if s.privileged {
		if ours, err := unix.SetfsuidRetUid(int(as.UID)); err == nil {
			defer func() { _ = unix.Setfsuid(ours) }()
		}
	}
	return unix.Pipe2(p[:], unix.O_CLOEXEC)
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}

// limitOfFiles returns the job's limit for the size of files alone, which the writer has.
func (s *Shepherd) limitOfFiles() []limits.Rlimit {
	for _, r := range s.jobRlimits {
		if r.Resource == job.Fsize {
			return []limits.Rlimit{r}
		}
	}
	return nil
}

// awaitWriter waits until the writer has opened its file, or could not. It reports false if
// that has taken longer than script_timeout.
func (s *Shepherd) awaitWriter(o *outlet) bool {
	for {
		if o.begun = o.writer.Began(); o.begun {
			break
		}
		s.pause()
		if s.take(dueTimeout, time.Now()) {
			return false
		}
	}
	if o.writer.UsesFallback() {
		o.file = output{path: o.file.fallback}
	}
	return true
}

// outletFDs is how many descriptors of an outlet are polled.
const outletFDs = 3

// pollOutlets appends the descriptors of the outlets that outletNews is to be told of.
func (s *Shepherd) pollOutlets(fds []unix.PollFd) []unix.PollFd {
	for _, o := range s.outlets {
		report, from, to := -1, o.from, unix.PollFd{Fd: int32(o.to)}
		if !o.begun {
			report = o.writer.ReportFD()
		}
		if o.isFull() {
			from = -1
		}
		if len(o.pending) > 0 {
			to.Events = unix.POLLOUT
		}
		fds = append(fds, unix.PollFd{Fd: int32(report), Events: unix.POLLIN}, unix.PollFd{Fd: int32(from), Events: unix.POLLIN}, to)
	}
	return fds
}

// outletNews hands on what has arrived. fds are those of pollOutlets.
func (s *Shepherd) outletNews(fds []unix.PollFd) {
	for i, o := range s.outlets {
		if len(fds) < (i+1)*outletFDs {
			return
		}
		if fds[i*outletFDs+1].Revents != 0 {
			s.takeOutput(o)
		}
		if fds[i*outletFDs+2].Revents != 0 {
			o.push()
		}
	}
}

// takeOutput reads once from the procedure's pipe. It returns how many bytes there were, and
// closes the pipe at its end.
func (s *Shepherd) takeOutput(o *outlet) int {
	if o.from < 0 {
		return 0
	}
	if s.scratch == nil {
		s.scratch = make([]byte, pipeSize)
	}
	n, err := unix.Read(o.from, s.scratch)
	switch {
	case n > 0 && o.to < 0:
		o.lost += n
	case n > 0:
		o.pending = append(o.pending, s.scratch[:n]...)
		o.push()
	case n == 0 || err != unix.EAGAIN && err != unix.EINTR:
		_ = unix.Close(o.from)
		o.from = -1
	}
	return max(n, 0)
}

// push hands to the writer what it takes.
func (o *outlet) push() {
	for o.to >= 0 {
		n, err := unix.Write(o.to, o.pending)
		if n > 0 {
			o.pending = o.pending[n:]
			o.taken += n
		}
		switch {
		case err == unix.EINTR:
			continue
		case err != nil && err != unix.EAGAIN:
			o.stop()
		}
		return
	}
}

// stop gives the writer no more than what it has, which may still be in its pipe.
func (o *outlet) stop() {
	if o.to >= 0 {
		_ = unix.Close(o.to)
	}
	o.to = -1
	o.lost += len(o.pending)
	o.pending = nil
}

// isFull reports whether the procedure has to wait before it can print more.
func (o *outlet) isFull() bool { return o.to >= 0 && len(o.pending) >= mostPending }

// watchWriters sees to it that nobody waits for ever for a writer: the procedure, when much of
// its output is pending, and we, when the procedure has ended. The time in which the procedure
// waits is none of script_timeout: that a file is slow is the user's doing.
func (s *Shepherd) watchWriters(now time.Time) {
	if len(s.outlets) == 0 {
		return
	}
	var due time.Time
	full := false
	for _, o := range s.outlets {
		if !o.isFull() && (!s.flushing || o.ended) {
			o.since = time.Time{}
			continue
		}
		if o.since.IsZero() || o.to >= 0 && o.taken >= o.expected {
			o.since, o.expected = now, o.taken+mostPending
		}
		if now.Sub(o.since) >= writerPatience {
			if o.since = now; o.to < 0 && !o.killed {
				o.killed = true
				_ = unix.Kill(o.writer.PID, unix.SIGKILL) // we have not collected it
			}
			o.stop()
		}
		full = full || o.isFull()
		if at := o.since.Add(writerPatience); due.IsZero() || at.Before(due) {
			due = at
		}
	}
	s.set(dueOutput, due)
	switch timeout := s.due[dueTimeout]; {
	case full && !timeout.IsZero():
		s.held = max(timeout.Sub(now), 1)
		s.clear(dueTimeout)
	case !full && s.held != 0:
		s.set(dueTimeout, now.Add(s.held))
		s.held = 0
	}
}

// started lets go of the procedure's ends of the pipes, which it has by now, so that their
// end is seen.
func (s *Shepherd) started() {
	for _, o := range s.outlets {
		if o.end >= 0 {
			_ = unix.Close(o.end)
		}
		o.end = -1
	}
}

// writerEnded takes note of the end of a process that may have been a writer.
func (s *Shepherd) writerEnded(pid int, status syscall.WaitStatus) {
	for _, o := range s.outlets {
		if o.writer.PID == pid && !o.ended {
			o.ended, o.status = true, status
			o.stop()
		}
	}
}

// closeOutlets brings what a procedure has printed to its files, and lets go of the outlets.
// as is the user as whom the procedure ran. A writer that does nothing any more, as one whose
// FIFO nobody reads, is not waited for.
func (s *Shepherd) closeOutlets(name string, as account) {
	s.started()
	for _, o := range s.outlets {
		s.drain(o, as)
	}
	s.flush()
	for _, o := range s.outlets {
		if !o.begun {
			_ = o.writer.Failed() // for its descriptor
		}
		switch {
		case !o.ended:
			s.trace("output of " + name + " to " + o.file.path + ": cannot end the process that writes it" + lostText(o.lost))
		case o.status.Signaled():
			s.trace("output of " + name + " to " + o.file.path + ": ended by signal " + job.SignalName(o.status.Signal()) + lostText(o.lost))
		case o.begun && o.status != 0:
			s.trace("output of " + name + " to " + o.file.path + ": " + syscall.Errno(o.status.ExitStatus()).Error() + lostText(o.lost))
		case o.lost > 0:
			s.trace("output of " + name + " to " + o.file.path + lostText(o.lost))
		}
	}
	s.outlets = nil
}

func lostText(n int) string {
	if n == 0 {
		return ""
	}
	return "; at least " + itoa(n) + " bytes are lost"
}

// drain reads what is in the pipe of a procedure that has ended. What it has left running may
// go on printing, and is not to end by that: then somebody goes on reading.
func (s *Shepherd) drain(o *outlet, as account) {
	left, err := unix.IoctlGetInt(o.from, unix.TIOCINQ) // FIONREAD
	for err == nil && o.from >= 0 && left > 0 {
		n := s.takeOutput(o)
		if n == 0 {
			break
		}
		left -= n
	}
	if s.takeOutput(o); o.from < 0 {
		return
	}
	_ = unix.SetNonblock(o.from, false)
	p := &spawn.Program{}
	s.becomeRoot(p)
	p.Setsid()
	s.become(p, as, 0)
	p.Chdir("/")
	p.Dup(spawn.StageSetup, o.from, 0)
	p.Discard()
	if child, err := p.Start(); err == nil {
		s.strays.add(child.PID)
		_ = child.Failed() // for its descriptor; it has nothing to say
	}
	_ = unix.Close(o.from)
	o.from = -1
}

// flush waits until the writers have written all that they were given, or are given up.
func (s *Shepherd) flush() {
	s.flushing = true
	defer func() {
		s.flushing, s.held = false, 0
		s.clear(dueOutput)
	}()
	for {
		busy := false
		for _, o := range s.outlets {
			if len(o.pending) == 0 && o.to >= 0 {
				o.stop() // so that the writer sees the end
				o.since = time.Time{}
			}
			// One that was killed and does not end is stuck in the kernel.
			busy = busy || !o.ended && (!o.killed || time.Since(o.since) < writerPatience)
		}
		if !busy {
			return
		}
		s.pause()
	}
}
