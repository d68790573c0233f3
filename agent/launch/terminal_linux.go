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

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
)

// describeTerminal makes the job of the description an interactive one.
func (o *Order) describeTerminal(d *job.Description) error {
	i := o.Interactive
	if i == nil {
		return nil
	}
	switch {
	case o.Terminal:
		return errors.New("a job in the foreground has the terminal of its caller")
	case !o.Request.Binary && !i.Login:
		return errors.New("an interactive job runs a command (-b y) or a login shell, no script")
	case o.Ckpt != nil:
		return errors.New("-ckpt: an interactive job cannot go on from a checkpoint")
	case strings.ContainsAny(i.Term, "\n\x00"):
		return fmt.Errorf("terminal type %q, expected one line", i.Term)
	}
	d.Terminal = &job.Terminal{Rows: int(i.Rows), Cols: int(i.Cols), Login: i.Login}
	d.StarterMethod = ""
	d.Command.Shell, d.Command.OwnShell = cmp.Or(o.Owner.Shell, "/bin/sh"), false
	d.Command.LoginShell = false
	if i.Login {
		d.Command.File, d.Command.Args, d.Command.Binary, d.Command.NoShell = d.Command.Shell, nil, true, true
	}
	// Those of procedures: the job itself has the terminal.
	for n := range d.Streams {
		d.Streams[n].Path = cmp.Or(d.Streams[n].Path, os.DevNull)
	}
	return nil
}

// ErrNoTerminal is returned while there is no terminal of a job: before it has begun,
// after its end, and for a job that is not interactive.
var ErrNoTerminal = errors.New("the job has no terminal now")

// OpenTerminal returns the master side of the terminal of an interactive job, from its
// supervisor (pty(7)). Reads and writes of it can have deadlines. While the job runs
// there is no end of file; after it, reads fail with EIO once all has been read.
func (j *Job) OpenTerminal(ctx context.Context) (*os.File, error) {
	if j.Description.Terminal == nil {
		return nil, ErrNoTerminal
	}
	// A long path does not fit into an address (unix(7)).
	path := fmt.Sprintf("/proc/self/fd/%d/%s", j.Dir.Fd(), jobdir.FileTerminal)
	c, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED) {
		return nil, ErrNoTerminal
	}
	if err != nil {
		return nil, fmt.Errorf("cannot ask the supervisor for the terminal of job %s: %w", j.Description.ID, err)
	}
	defer c.Close()
	if deadline, ok := ctx.Deadline(); ok {
		_ = c.SetDeadline(deadline)
	}
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	file, err := receiveFile(c.(*net.UnixConn))
	if err != nil {
		return nil, fmt.Errorf("cannot get the terminal of job %s: %w", j.Description.ID, err)
	}
	return file, nil
}

// receiveFile reads a descriptor (unix(7), SCM_RIGHTS).
func receiveFile(c *net.UnixConn) (*os.File, error) {
	var data [1]byte
	rights := make([]byte, unix.CmsgSpace(4))
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
	if err != nil || len(fds) != 1 {
		return nil, errors.Join(err, errors.New("the supervisor has sent no descriptor"))
	}
	// Not blocking, so that the runtime waits for it without a thread.
	if err := unix.SetNonblock(fds[0], true); err != nil {
		unix.Close(fds[0])
		return nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(fds[0]), "terminal"), nil
}

// SetTerminalSize tells a terminal its size; its foreground processes get SIGWINCH
// (ioctl_tty(2), TIOCSWINSZ).
func SetTerminalSize(terminal *os.File, rows, cols uint16) error {
	return control(terminal, func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols})
	})
}

// control calls f with the descriptor, which stays one that does not block.
func control(file *os.File, f func(fd int) error) error {
	c, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var e error
	err = c.Control(func(fd uintptr) { e = f(int(fd)) })
	return errors.Join(err, e)
}
