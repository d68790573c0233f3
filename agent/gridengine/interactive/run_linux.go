package interactive

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/agent/gridengine/commlib"
	"github.com/execd-project/execd/agent/gridengine/pinned"
)

// Options are the settings of a run.
type Options struct {
	Host  string // this host, as qmaster and its clients spell it
	PTY   bool   // the command has a pseudo terminal
	Login bool   // a login shell instead of a command
	Shell string // of the user
	Env   []string
	Dir   string // working directory; empty for the current one

	sizePatience time.Duration // the constant, or another time in tests
}

// The environment variables with the client's address and command.
const (
	portVariable    = "QRSH_PORT"
	commandVariable = "QRSH_COMMAND"
)

// CertificateVariable is the environment variable with the certificate of the client (pinned.Word). It
// exists if the client encrypts the connection.
const CertificateVariable = "QRSH_CERTIFICATE"

// separator is between the arguments of a command in commandVariable.
const separator = "\xff"

// Timeouts.
const (
	connectPatience = 60 * time.Second
	responsePause   = 10 * time.Second
	hangUpPause     = 2 * time.Second
	outputPause     = time.Second
	// The client sends its settings and the size of its window from different threads, in any order. One without a window
	// sends no size.
	sizePatience = 500 * time.Millisecond
)

// mostOutput is more than a finished command can have left in a pipe or a terminal, in bytes: any
// further output comes from other processes.
const mostOutput = 1 << 20

// ExitStatus is the exit status of a job whose command could not be started.
const ExitStatus = 255

// Run connects to the client, runs the command and returns its exit status: 128 and the
// number of a signal that ended it.
func Run(o Options) (int, error) {
	host, port, err := net.SplitHostPort(lookup(o.Env, portVariable))
	if err != nil {
		return ExitStatus, fmt.Errorf("cannot find the client of this job: %s: %w", portVariable, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), connectPatience)
	defer cancel()
	nc, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		return ExitStatus, fmt.Errorf("cannot connect to the client of this job: %w", err)
	}
	if word := lookup(o.Env, CertificateVariable); word != "" {
		settings, err := pinned.ClientOfWord(word)
		if err != nil {
			nc.Close()
			return ExitStatus, fmt.Errorf("cannot use the certificate of the client of this job: %s: %w", CertificateVariable, err)
		}
		nc = tls.Client(nc, settings)
	}
	return o.serve(ctx, nc, host)
}

// serve runs the command for a client on this connection.
func (o Options) serve(ctx context.Context, nc net.Conn, host string) (int, error) {
	conn, _, err := commlib.Client(ctx, nc, &commlib.ConnectRequest{
		Format: commlib.Binary, Type: commlib.ConnectMessages,
		To:   commlib.Endpoint{Host: host, Component: commlib.QrshServer, ID: 1},
		From: commlib.Endpoint{Host: o.Host, Component: commlib.ShepherdIJS},
	}, commlib.Options{
		Limits: commlib.Limits{Payload: maxPayload},
		// The job waits for a client that is stopped, or on a sleeping laptop, as for any terminal.
		WaitForReader: true,
	})
	if err != nil {
		return ExitStatus, fmt.Errorf("cannot connect to the client of this job: %w", err)
	}
	defer conn.Abort()
	r := &relay{Options: o, conn: conn, messages: make(chan received), over: make(chan struct{}), answered: make(chan struct{})}
	defer close(r.over)
	r.catch()
	return r.run()
}

// maxPayload bounds a message of the client, which reads its input in small pieces.
const maxPayload = 1 << 20

// received is a message of the client, or why there are no more.
type received struct {
	kind kind
	data []byte
	err  error
}

// relay is a command and its client.
type relay struct {
	Options
	conn     *commlib.Conn
	process  *exec.Cmd
	input    io.WriteCloser
	terminal *os.File // of a command with a pseudo terminal
	outputs  []*output
	messages chan received // of the client
	over     chan struct{} // closed when no more messages are taken
	answered chan struct{} // closed when the client has disconnected
	signals  chan os.Signal

	mu    sync.Mutex
	ended bool // the command has: its number may be that of a stranger

	// Input before the settings waits for them.
	started bool
	size    size
	waiting [][]byte
	closed  bool
}

func (r *relay) run() (int, error) {
	if err := r.send(register, nil); err != nil {
		return ExitStatus, err
	}
	go r.receive()
	direct, err := r.prepare()
	if err != nil {
		return ExitStatus, fmt.Errorf("the client of this job disconnected before the job started: %w", err)
	}
	if err := r.start(direct); err != nil {
		// The client shows this on standard error.
		_ = r.send(stderr, []byte("execd: "+err.Error()+"\r\n"))
		r.end(ExitStatus)
		return ExitStatus, err
	}
	go r.follow()
	err = r.wait()
	r.finishOutput()
	status := exitStatus(r.process.ProcessState)
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		r.end(ExitStatus)
		return ExitStatus, err
	}
	r.end(status)
	if w, ok := r.process.ProcessState.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		dieOf(w.Signal())
	}
	return status, nil
}

// prepare takes messages until the settings, and for a terminal the size of the window, have arrived. direct is as for
// start.
func (r *relay) prepare() (direct bool, err error) {
	settled := false
	var late <-chan time.Time
	for !settled || late != nil && r.size == (size{}) {
		select {
		case m := <-r.messages:
			switch {
			case m.err != nil:
				return false, m.err
			case m.kind == windowSize:
				r.resize(m.data)
			case m.kind == stdin:
				r.waiting = append(r.waiting, m.data)
			case m.kind == stdinClose:
				r.closed = true
			case m.kind == settings:
				if settled, direct = true, noShell(m.data); r.PTY {
					late = time.After(cmp.Or(r.sizePatience, sizePatience))
				}
			}
		case <-late:
			late = nil
		}
	}
	return direct, nil
}

// wait waits for the end of the command.
func (r *relay) wait() error {
	for errors.Is(unix.Waitid(unix.P_PID, r.process.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
	r.mu.Lock()
	r.ended = true
	r.mu.Unlock()
	return r.process.Wait()
}

// signalGroup sends a signal to the command and its group, while the command runs. Its other
// processes are ended with the job.
func (r *relay) signalGroup(sig syscall.Signal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended {
		_ = syscall.Kill(-r.process.Process.Pid, sig)
	}
}

// dieOf ends this process by the signal that has ended the command, because the supervisor reports
// the end of this process. It writes no core file: the command has written its own.
func dieOf(sig syscall.Signal) {
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
	// Go's own signal handlers concern this program only.
	var byDefault struct{ handler, flags, restorer, mask uintptr }
	_, _, _ = syscall.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&byDefault)), 0, 8, 0, 0)
	if unix.Kill(os.Getpid(), sig) == nil {
		<-time.After(responsePause)
	}
}

// catch catches the signals that Grid Engine sends to all processes of the job, so that they do not
// end the relay. The command keeps its own handlers.
func (r *relay) catch() {
	r.signals = make(chan os.Signal, 16)
	signal.Notify(r.signals, unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGALRM, unix.SIGTERM, unix.SIGXCPU, unix.SIGWINCH)
}

func exitStatus(s *os.ProcessState) int {
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		const signalled = 128
		return signalled + int(w.Signal())
	}
	return s.ExitCode()
}

// finishOutput waits until the client has received the command's output, at most until the
// connection breaks. It does not wait for background processes of the command, which may hold
// its output open and write forever.
func (r *relay) finishOutput() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, o := range r.outputs {
			<-o.done
		}
	}()
	for _, o := range r.outputs {
		o.most.Store(o.sent.Load() + mostOutput)
	}
	again := time.NewTicker(outputPause)
	defer again.Stop()
	for {
		select {
		case <-done:
			return
		case <-r.answered:
			return
		case <-again.C:
			if !slices.ContainsFunc(r.outputs, (*output).pending) {
				return
			}
		}
	}
}

// end tells the client how the command has ended, and waits until it knows.
func (r *relay) end(status int) {
	if !r.started {
		go r.follow()
	}
	if r.send(unregister, []byte(strconv.Itoa(status))) != nil {
		return
	}
	timer := time.NewTimer(responsePause)
	defer timer.Stop()
	select {
	case <-r.answered:
	case <-timer.C:
	}
}

func (r *relay) send(k kind, data []byte) error {
	_, err := r.conn.Send(0, 0, encode(k, data))
	return err
}

// receive passes on the messages of the client, until there are no more.
func (r *relay) receive() {
	for {
		var next received
		m, err := r.conn.Receive()
		if next.err = err; err == nil {
			next.kind, next.data, next.err = decode(m.Payload)
		}
		select {
		case r.messages <- next:
		case <-r.over:
			return
		}
		if next.err != nil {
			return
		}
	}
}

// follow handles the client's messages until it disconnects. If the client disappears without the
// closing message, the command is ended.
func (r *relay) follow() {
	defer close(r.answered)
	known := false // to the client, how the command has ended
	for {
		var m received
		select {
		case m = <-r.messages:
		case <-r.over:
			return
		}
		if m.err != nil {
			if !known {
				r.hangUp()
			}
			return
		}
		switch data := m.data; m.kind {
		case stdin:
			if r.input != nil {
				_, _ = r.input.Write(data)
			}
		case stdinClose:
			r.closeInput()
		case windowSize:
			r.resize(data)
		case suspend, unsuspend:
			// The client is stopped and reads nothing, so the job blocks when it writes.
		case unregisterResponse:
			// The client must close the connection first: if it finds the connection closed, it
			// takes the job for one that never ran.
			known = true
		}
	}
}

// hangUp ends the command as a terminal that hangs up does.
func (r *relay) hangUp() {
	if r.process == nil || r.process.Process == nil {
		return
	}
	r.signalGroup(syscall.SIGHUP)
	r.signalGroup(syscall.SIGCONT)
	time.AfterFunc(hangUpPause, func() { r.signalGroup(syscall.SIGKILL) })
}

// closeInput ends the standard input: of a terminal with the character for that.
func (r *relay) closeInput() {
	switch {
	case r.terminal != nil:
		const endOfTransmission = 4
		_, _ = r.terminal.Write([]byte{endOfTransmission})
	case r.input != nil:
		_ = r.input.Close()
		r.input = nil
	}
}

func (r *relay) resize(data []byte) {
	s, ok := parseSize(data)
	if !ok {
		return
	}
	r.size = s
	if r.terminal != nil {
		_ = unix.IoctlSetWinsize(int(r.terminal.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: s.rows, Col: s.columns, Xpixel: s.x, Ypixel: s.y})
	}
}

// command returns the program to run, with its arguments and its environment.
func (r *relay) command(direct bool) (*exec.Cmd, error) {
	shell := cmp.Or(r.Shell, "/bin/sh")
	words := strings.Split(lookup(r.Env, commandVariable), separator)
	var cmd *exec.Cmd
	switch {
	case r.Login || words[0] == "":
		cmd = exec.Command(shell)
		cmd.Args[0] = "-" + filepath.Base(shell)
	case direct:
		cmd = exec.Command(words[0], words[1:]...)
	default:
		cmd = exec.Command(shell, "-c", strings.Join(words, " "))
	}
	for _, v := range r.Env {
		if name, _, _ := strings.Cut(v, "="); name != portVariable && name != commandVariable && name != CertificateVariable {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Dir = r.Dir
	return cmd, cmd.Err
}

// start starts the command.
func (r *relay) start(direct bool) error {
	var err error
	if r.process, err = r.command(direct); err != nil {
		return err
	}
	if r.PTY {
		err = r.startTerminal()
	} else {
		err = r.startPipes()
	}
	if err != nil {
		return err
	}
	r.started = true
	for _, data := range r.waiting {
		_, _ = r.input.Write(data)
	}
	if r.waiting = nil; r.closed {
		r.closeInput()
	}
	return nil
}

func (r *relay) startPipes() error {
	r.process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := r.process.StdinPipe()
	if err != nil {
		return err
	}
	var ends []*os.File // the command's ends of its output
	for _, s := range []struct {
		to   *io.Writer
		kind kind
	}{{&r.process.Stdout, stdout}, {&r.process.Stderr, stderr}} {
		read, write, err := os.Pipe()
		if err != nil {
			return err
		}
		*s.to, ends = write, append(ends, write)
		r.copy(read, s.kind)
	}
	err = r.process.Start()
	for _, f := range ends {
		f.Close()
	}
	r.input = in
	return err
}

// output is one output stream of a command.
type output struct {
	fd   int
	sent atomic.Int64  // bytes, to the client
	most atomic.Int64  // the maximum number of bytes that the finished command can have written
	done chan struct{} // closed at the end of the output
	mu   sync.Mutex    // held while data is in transit between the two ends
	over bool          // the descriptor is closed
}

// copy starts a goroutine that sends the command's output and ends with it.
func (r *relay) copy(from *os.File, k kind) {
	o := &output{fd: int(from.Fd()), done: make(chan struct{})}
	r.outputs = append(r.outputs, o)
	const piece = 32 << 10
	b := make([]byte, piece)
	next := func() bool {
		const forever = -1
		o.readable(forever)
		o.mu.Lock()
		defer o.mu.Unlock()
		n, err := from.Read(b)
		if n > 0 && r.send(k, b[:n]) != nil {
			return false
		}
		o.sent.Add(int64(n))
		return err == nil
	}
	go func() {
		defer close(o.done)
		for next() {
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		o.over = true
		from.Close()
	}()
}

// readable waits, at most wait milliseconds, for output or for its end.
func (o *output) readable(wait int) bool {
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(o.fd), Events: unix.POLLIN}}, wait)
		if !errors.Is(err, unix.EINTR) {
			return n > 0
		}
	}
}

// pending reports whether the command may have written output that the client has not received.
func (o *output) pending() bool {
	if o.sent.Load() >= o.most.Load() {
		return false
	}
	if !o.mu.TryLock() {
		return true // it is on its way
	}
	defer o.mu.Unlock()
	return !o.over && o.readable(0)
}

func (r *relay) startTerminal() error {
	master, slave, err := openTerminal()
	if err != nil {
		return err
	}
	defer slave.Close()
	// The client's terminal adds the carriage returns before line feeds.
	if m, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS); err == nil {
		m.Oflag &^= unix.ONLCR
		_ = unix.IoctlSetTermios(int(slave.Fd()), unix.TCSETS, m)
	}
	r.terminal, r.input = master, master
	s := r.size
	_ = unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: s.rows, Col: s.columns, Xpixel: s.x, Ypixel: s.y})
	r.process.Stdin, r.process.Stdout, r.process.Stderr = slave, slave, slave
	r.process.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := r.process.Start(); err != nil {
		return err
	}
	r.copy(master, stdout)
	return nil
}

// openTerminal opens a pseudo terminal.
func openTerminal() (master, slave *os.File, err error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot open a pseudo terminal: %w", err)
	}
	master = os.NewFile(uintptr(fd), "/dev/ptmx")
	if err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err == nil {
		var n int
		if n, err = unix.IoctlGetInt(fd, unix.TIOCGPTN); err == nil {
			slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
		}
	}
	if err != nil {
		master.Close()
		return nil, nil, fmt.Errorf("cannot open a pseudo terminal: %w", err)
	}
	return master, slave, nil
}

// lookup returns the value of a variable, or "".
func lookup(env []string, name string) string {
	for _, v := range slices.Backward(env) {
		if n, value, _ := strings.Cut(v, "="); n == name {
			return value
		}
	}
	return ""
}
