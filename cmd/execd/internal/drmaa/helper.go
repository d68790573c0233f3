package drmaa

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Word is the name of the command of execd.
const Word = "drmaa-helper"

// control is the descriptor of the socket over which the library sends a socket for each call.
const control = 3

// ErrUsage is the error of a helper that was not started by the library.
var ErrUsage = errors.New("the DRMAA library starts this command: see docs/drmaa.md")

// Usage is the help text.
const Usage = `Usage: execd drmaa-helper PID

The DRMAA library starts this command for the program PID (docs/drmaa.md). Do not run it by
hand.
`

// Run serves the library until the library closes the socket or the program with the process ID in args
// exits.
func Run(args []string) error {
	if len(args) != 1 {
		return ErrUsage
	}
	pid, err := strconv.Atoi(args[0])
	if err != nil || pid <= 0 {
		return ErrUsage
	}
	socket, err := connection(control)
	if err != nil {
		return ErrUsage
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	// In addition to the socket it watches the program: a child of the program may have inherited
	// the other end.
	if fd, err := unix.PidfdOpen(pid, 0); err == nil {
		go func() {
			defer unix.Close(fd)
			exited(fd)
			cancel()
			socket.Close()
		}()
	} else if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return serve(ctx, socket)
}

// exited waits until a process has exited.
func exited(fd int) {
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
		if n > 0 || err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// connection returns the Unix socket with a descriptor.
func connection(fd int) (*net.UnixConn, error) {
	unix.CloseOnExec(fd)
	f := os.NewFile(uintptr(fd), "socket")
	if f == nil {
		return nil, fmt.Errorf("cannot use the descriptor %d", fd)
	}
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		c.Close()
		return nil, errors.New("it is no Unix socket")
	}
	return u, nil
}

// serve accepts calls until the library closes the socket.
func serve(ctx context.Context, socket *net.UnixConn) error {
	ctx, cancel := context.WithCancel(ctx)
	s := newSession(ctx)
	defer s.close()
	var calls sync.WaitGroup
	defer calls.Wait()
	defer cancel()
	for {
		fd, err := receive(socket)
		if errors.Is(err, errNoDescriptor) {
			continue // this process has too many open files: the call fails, and the session continues
		}
		if err != nil {
			return nil // the library has closed the socket, or the program has exited
		}
		c, err := connection(fd)
		if err != nil {
			continue // not a socket, and therefore not from the library
		}
		calls.Go(func() { s.answer(ctx, c) })
	}
}

// errNoDescriptor is the error for a message without its descriptor. The kernel drops the
// descriptor if a process has too many open files.
var errNoDescriptor = errors.New("a message without a descriptor")

// receive receives a descriptor.
func receive(socket *net.UnixConn) (int, error) {
	var data [1]byte
	rights := make([]byte, unix.CmsgSpace(4))
	n, size, _, _, err := socket.ReadMsgUnix(data[:], rights)
	if err == nil && n == 0 {
		err = net.ErrClosed
	}
	if err != nil {
		return 0, err
	}
	list, err := unix.ParseSocketControlMessage(rights[:size])
	if err != nil || len(list) != 1 {
		return 0, errors.Join(errNoDescriptor, err)
	}
	fds, err := unix.ParseUnixRights(&list[0])
	if err != nil || len(fds) != 1 {
		return 0, errors.Join(errNoDescriptor, err)
	}
	return fds[0], nil
}

// answer reads a call, executes it and sends the answer.
func (s *session) answer(ctx context.Context, c *net.UnixConn) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	defer c.Close()
	words, err := readMessage(c)
	if err != nil {
		return
	}
	go func() { // returns when the caller has closed the socket
		_, _ = c.Read(make([]byte, 1))
		cancel()
	}()
	values, e := s.do(ctx, words)
	number, text := success, ""
	if e != nil {
		number, text = e.code, e.text
	}
	out := append([]string{strconv.Itoa(int(number)), text}, values...)
	for i := range out {
		out[i] = clean(out[i])
	}
	_, _ = c.Write(appendMessage(nil, out))
}

// do executes a call.
func (s *session) do(ctx context.Context, words []string) ([]string, *callError) {
	name, args := words[0], words[1:]
	bad := failure(internalError, "the library and its helper do not match: call %q with %d arguments", name, len(args))
	least := map[string]int{"open": 1, "check": 1, "run": 5, "control": 2, "ps": 1, "wait": 2, "synchronize": 2}
	if n, ok := least[name]; !ok || len(args) < n {
		return nil, bad
	}
	switch name {
	case "open":
		return s.open(ctx, args[0])
	case "check":
		return nil, check(args[0], args[1:])
	case "run":
		return s.run(ctx, args)
	case "control":
		action, err := strconv.Atoi(args[1])
		if err != nil {
			return nil, bad
		}
		return nil, s.control(ctx, args[0], action)
	case "ps":
		state, e := s.ps(ctx, args[0])
		return []string{strconv.Itoa(state)}, e
	case "wait":
		timeout, err := strconv.ParseInt(args[1], 10, 64)
		if err != nil {
			return nil, bad
		}
		return s.wait(ctx, args[0], timeout)
	default: // synchronize
		timeout, err := strconv.ParseInt(args[0], 10, 64)
		if err != nil {
			return nil, bad
		}
		return nil, s.synchronize(ctx, args[2:], timeout, args[1] == "1")
	}
}

// sentence converts the output of a command on standard error to one line.
func sentence(text string) string {
	var parts []string
	for line := range strings.Lines(text) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "Unable to run job: ")
		if line != "" && line != "Exiting." {
			parts = append(parts, strings.TrimSuffix(line, "."))
		}
	}
	return strings.Join(parts, "; ")
}
