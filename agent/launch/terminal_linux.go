package launch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
)

// describeTerminal makes the job of the description an interactive one.
func (o *Assignment) describeTerminal(d *job.Description) error {
	i := o.Interactive
	if i == nil {
		return nil
	}
	switch {
	case o.Terminal:
		return errors.New("a job in the foreground has the terminal of its caller")
	case !o.Request.Binary && !i.Login:
		return errors.New("an interactive job runs a command (-b y) or a login shell, not a script")
	case o.Ckpt != nil:
		return errors.New("-ckpt: an interactive job cannot continue from a checkpoint")
	case strings.ContainsAny(i.Term, "\n\x00"):
		return fmt.Errorf("terminal type %q, expected one line", i.Term)
	}
	d.Terminal = &job.Terminal{Rows: int(i.Rows), Cols: int(i.Cols), Pipes: i.Pipes, Login: i.Login}
	d.StarterMethod = ""
	d.Command.Shell, d.Command.OwnShell = cmp.Or(o.Owner.Shell, "/bin/sh"), false
	d.Command.LoginShell = false
	if i.Login {
		d.Command.File, d.Command.Args, d.Command.Binary, d.Command.NoShell = d.Command.Shell, nil, true, true
	}
	// The limits of procedures: the job itself has the terminal.
	for n := range d.Streams {
		d.Streams[n].Path = cmp.Or(d.Streams[n].Path, os.DevNull)
	}
	return nil
}

// ErrNoTerminal is returned while there is no terminal of a job: before it has begun,
// after its end, and for a job that is not interactive.
var ErrNoTerminal = errors.New("the job has no terminal at this time")

// Terminal is the agent's side of the standard streams of an interactive job: the master side of
// its pseudo terminal (pty(7)), or the ends of its pipes (pipe(7)). The files support deadlines. A
// pseudo terminal has no end of file while the job runs; after the job's end, reads fail with EIO
// once all output has been read.
type Terminal struct {
	Out *os.File // to read the job's output
	Err *os.File // to read standard error from a pipe; nil for a pseudo terminal
	In  *os.File // to write the job's input; nil if the input has ended

	supervisor net.Conn // to tell the supervisor that the input has ended
}

// EndInput ends the input of a job with pipes. With a pseudo terminal the client sends Ctrl-D
// instead.
func (t *Terminal) EndInput() error {
	if t.Err == nil || t.In == nil {
		return nil
	}
	if err := t.In.Close(); errors.Is(err, os.ErrClosed) {
		return nil
	}
	// The supervisor has another descriptor of the pipe.
	if _, err := t.supervisor.Write([]byte{0}); err != nil {
		return fmt.Errorf("cannot report the end of standard input to the supervisor: %w", err)
	}
	return nil
}

// SetDeadline sets the deadline of all files of the terminal.
func (t *Terminal) SetDeadline(at time.Time) {
	for _, f := range t.files() {
		_ = f.SetDeadline(at)
	}
}

// Close closes the files.
func (t *Terminal) Close() {
	for _, f := range t.files() {
		_ = f.Close()
	}
	_ = t.supervisor.Close()
}

func (t *Terminal) files() []*os.File {
	files := []*os.File{t.Out}
	if t.Err != nil {
		files = append(files, t.Err)
	}
	if t.In != nil && t.In != t.Out {
		files = append(files, t.In)
	}
	return files
}

// OpenTerminal gets the terminal of an interactive job from its supervisor.
func (j *Job) OpenTerminal(ctx context.Context) (*Terminal, error) {
	if j.Description.Terminal == nil {
		return nil, ErrNoTerminal
	}
	var fd int
	var err error
	if j.remote != nil {
		fd, err = j.remote.Terminal(ctx, j.Description.ID)
	} else {
		fd, err = j.ConnectTerminal()
	}
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), jobdir.FileTerminal)
	c, err := net.FileConn(file)
	_ = file.Close()
	if err != nil {
		return nil, fmt.Errorf("cannot ask the supervisor for the terminal of job %s: %w", j.Description.ID, err)
	}
	if deadline, ok := ctx.Deadline(); ok {
		_ = c.SetDeadline(deadline)
	}
	stop := context.AfterFunc(ctx, func() { c.Close() })
	t, err := receiveTerminal(c.(*net.UnixConn), j.Description.Terminal.Pipes)
	if !stop() && err == nil {
		t.Close()
		err = ctx.Err()
	}
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("cannot get the terminal of job %s: %w", j.Description.ID, err)
	}
	_ = c.SetDeadline(time.Time{})
	return t, nil
}

// ConnectTerminal connects with the supervisor of an interactive job, which answers with the terminal. The
// descriptor is the caller's; reading from it does not block. It returns ErrNoTerminal while there is no terminal.
func (j *Job) ConnectTerminal() (fd int, err error) {
	if j.Description.Terminal == nil {
		return -1, ErrNoTerminal
	}
	if fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err == nil {
		err = j.Dir.Use(func(dir int) error { // a long path does not fit into an address (unix(7))
			return unix.Connect(fd, &unix.SockaddrUnix{Name: fmt.Sprintf("/proc/self/fd/%d/%s", dir, jobdir.FileTerminal)})
		})
		if err != nil {
			_ = unix.Close(fd)
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED):
		return -1, ErrNoTerminal
	case err != nil:
		return -1, fmt.Errorf("cannot ask the supervisor for the terminal of job %s: %w", j.Description.ID, err)
	}
	return fd, nil
}

// receiveTerminal reads descriptors (unix(7), SCM_RIGHTS).
func receiveTerminal(c *net.UnixConn, pipes bool) (*Terminal, error) {
	const most = 3
	var data [1]byte
	rights := make([]byte, unix.CmsgSpace(4*most))
	_, n, _, _, err := c.ReadMsgUnix(data[:], rights)
	if err != nil {
		return nil, err
	}
	messages, err := unix.ParseSocketControlMessage(rights[:n])
	if err != nil {
		return nil, os.NewSyscallError("recvmsg", err)
	}
	if len(messages) != 1 {
		return nil, errors.New("the supervisor refuses")
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || (len(fds) == 1) == pipes || len(fds) == 0 {
		for _, fd := range fds {
			unix.Close(fd)
		}
		return nil, errors.Join(err, fmt.Errorf("the supervisor has sent %d descriptors", len(fds)))
	}
	files := make([]*os.File, most)
	for i, fd := range fds {
		// They do not block, so that the runtime waits for them without a thread.
		files[i] = os.NewFile(uintptr(fd), "terminal")
	}
	t := &Terminal{Out: files[0], Err: files[1], In: files[2], supervisor: c}
	if !pipes {
		t.In = t.Out
	}
	return t, nil
}

// SetTerminalSize tells a terminal its size; its foreground processes get SIGWINCH
// (ioctl_tty(2), TIOCSWINSZ).
func SetTerminalSize(terminal *os.File, rows, cols uint16) error {
	return control(terminal, func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols})
	})
}

// control calls f with the descriptor, which stays non-blocking.
func control(file *os.File, f func(fd int) error) error {
	c, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var e error
	err = c.Control(func(fd uintptr) { e = f(int(fd)) })
	return errors.Join(err, e)
}
