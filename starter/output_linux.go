package starter

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/spawn"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/limits"
)

// outlet copies the output of a procedure to the file that the user of the job has chosen for it.
//
// If that file were the procedure's standard output, the user could end the procedure: a FIFO kills
// it when its reader closes, an unread FIFO blocks it, a full quota makes it fail, and its failure
// would count against the queue. So the procedure writes to a pipe, which the supervisor always
// reads. A child process with the user's identity and limits, the writer, opens the file and copies
// to it what the supervisor passes through a second pipe. The procedure does not notice what
// happens to the writer.
type outlet struct {
	file output // where the output goes; the path is resolved once the writer has begun
	end  int    // the procedure's end of its pipe; -1 once the procedure has it
	from int    // the reading end of that pipe; -1 after the end of file
	to   int    // the writing end of the writer's pipe; -1 when nothing more is to be passed

	writer  *spawn.Child
	begun   bool // the writer has opened the file, or has failed to
	ended   bool // the writer has exited, with status
	status  syscall.WaitStatus
	pending []byte // read, and not yet passed to the writer
	taken   int    // total bytes passed to the writer
	lost    int    // bytes that the writer did not take

	since    time.Time // when waiting for the writer began; zero if it has not
	expected int       // the least value of taken at writerPatience after since
	killed   bool
}

const (
	// mostPending is the largest amount of output that is buffered for a slow writer.
	mostPending = 1 << 20
	// writerPatience is the time in which a writer has to take mostPending bytes if the procedure
	// or the supervisor waits for it, and the time to finish after the last byte.
	writerPatience = 5 * time.Second
	// pipeSize is the largest amount of data that one read returns.
	pipeSize = 64 << 10
)

// openOutlets starts the writers that open the output files of a procedure as the owner of the job,
// and makes f use the pipes. Call closeOutlets afterwards, also after a failure. as is the user
// that runs the procedure.
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
			// Both streams go to one file: one pipe preserves their order.
			f.pipe[2], f.out[1] = f.pipe[1], f.out[0]
			continue
		}
		o, err := s.openOutlet(f.out[i], spawn.StageStdout+spawn.Stage(i), as)
		if err != nil {
			return nil, err
		}
		if !s.awaitWriter(o) {
			s.trace(name + " waits for its output: " + o.file.path + " (script_timeout)")
			_ = unix.Kill(o.writer.PID, unix.SIGKILL) // the ID is still ours: the writer has not been reaped
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
	s.strays.add(o.writer.PID, true) // signals to the step do not go to it, and it ends with the supervisor
	s.outlets = append(s.outlets, o)
	return o, nil
}

// pipeOf makes a pipe that belongs to a user, who can then open it through names such as
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

// limitOfFiles returns only the job's limit for file sizes, which applies to the writer.
func (s *Shepherd) limitOfFiles() []limits.Rlimit {
	for _, r := range s.jobRlimits {
		if r.Resource == job.Fsize {
			return []limits.Rlimit{r}
		}
	}
	return nil
}

// awaitWriter waits until the writer has opened its file or has failed to. It returns false if that
// takes longer than script_timeout.
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

// outletFDs is the number of descriptors that are polled per outlet.
const outletFDs = 3

// pollOutlets appends the descriptors that outletNews needs the state of.
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

// outletNews copies output that has arrived. fds are those of pollOutlets.
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

// takeOutput reads once from the procedure's pipe. It returns the number of bytes, and closes the
// pipe at its end.
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

// push writes as much pending output to the writer's pipe as fits.
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

// stop closes the writer's pipe. The writer still gets what is in it.
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

// watchWriters ends waiting for writers that make no progress: if the procedure is blocked because
// much of its output is pending, or if the supervisor waits after the procedure has finished. While
// the procedure is blocked, script_timeout does not run: the user chose the slow file.
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
				_ = unix.Kill(o.writer.PID, unix.SIGKILL) // the ID is still ours: the writer has not been reaped
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

// started closes the supervisor's copies of the procedure's pipe ends, so that it sees the end of
// file.
func (s *Shepherd) started() {
	for _, o := range s.outlets {
		if o.end >= 0 {
			_ = unix.Close(o.end)
		}
		o.end = -1
	}
}

// writerEnded records the exit of a process if it is a writer.
func (s *Shepherd) writerEnded(pid int, status syscall.WaitStatus) {
	for _, o := range s.outlets {
		if o.writer.PID == pid && !o.ended {
			o.ended, o.status = true, status
			o.stop()
		}
	}
}

// closeOutlets flushes what a procedure has printed to its files, and closes the outlets. as is the
// user that ran the procedure. It does not wait for a writer that makes no progress, such as one
// whose FIFO has no reader.
func (s *Shepherd) closeOutlets(name string, as account) {
	s.started()
	for _, o := range s.outlets {
		s.drain(o, as)
	}
	s.flush()
	for _, o := range s.outlets {
		if !o.begun {
			_ = o.writer.Failed() // closes its descriptor
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

// drain reads what is in the pipe of a procedure that has finished. Background processes of the
// procedure may continue to print, and must not be killed by a closed pipe: for them a child
// continues to read.
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
		s.strays.add(child.PID, s.leftStay)
		_ = child.Failed() // closes its descriptor; there is nothing to report
	}
	_ = unix.Close(o.from)
	o.from = -1
}

// flush waits until the writers have written everything, or until they are given up.
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
				o.stop() // so that the writer sees the end of file
				o.since = time.Time{}
			}
			// A writer that was killed and does not exit is stuck in the kernel.
			busy = busy || !o.ended && (!o.killed || time.Since(o.since) < writerPatience)
		}
		if !busy {
			return
		}
		s.pause()
	}
}
