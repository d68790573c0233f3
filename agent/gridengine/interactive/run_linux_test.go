package interactive

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/agent/gridengine/commlib"
	"github.com/execd-project/execd/agent/gridengine/pinned"
	"github.com/execd-project/execd/internal/testenv"
)

const patience = 3 * time.Minute

// client is the one of a job, which has told it to begin.
type client struct {
	*testing.T
	conn *commlib.Conn
	over chan int // the exit status of the relay
}

// serve runs a command for a client of its own, on a connection that holds nothing which it
// has not taken.
func serve(t *testing.T, o Options, command string) *client {
	t.Helper()
	nc, relay := net.Pipe()
	t.Cleanup(func() { nc.Close() })
	o.Host, o.Shell = "node", "/bin/sh"
	o.Env = append(o.Env, "PATH="+os.Getenv("PATH"), commandVariable+"="+command)
	c := &client{T: t, over: make(chan int, 1)}
	go func() {
		status, err := o.serve(t.Context(), relay, "client")
		if err != nil {
			t.Error(err)
		}
		c.over <- status
	}()
	if err := nc.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	var err error
	if c.conn, err = commlib.Server(nc, commlib.Options{Limits: commlib.Limits{Payload: maxPayload}}, func(*commlib.ConnectRequest) commlib.ConnectResponse {
		return commlib.ConnectResponse{Condition: commlib.Connected}
	}); err != nil {
		t.Fatal(err)
	}
	if k, _ := c.next(); k != register {
		t.Fatalf("the first message is %v", k)
	}
	c.say(settings, "noshell = 0\x00")
	return c
}

func (c *client) say(k kind, data string) {
	c.Helper()
	if _, err := c.conn.Send(0, 0, encode(k, []byte(data))); err != nil {
		c.Fatal(err)
	}
}

func (c *client) next() (kind, string) {
	c.Helper()
	m, err := c.conn.Receive()
	if err != nil {
		c.Fatal(err)
	}
	k, data, err := decode(m.Payload)
	if err != nil {
		c.Fatal(err)
	}
	return k, string(data)
}

// rest takes what comes until the command has ended, with this status, and says goodbye.
func (c *client) rest(status int) string {
	c.Helper()
	var out strings.Builder
	k, data := c.next()
	for ; k == stdout || k == stderr; k, data = c.next() {
		out.WriteString(data)
	}
	if want := fmt.Sprint(status); k != unregister || data != want {
		c.Errorf("the last message is %v %q, want the exit status %s", k, data, want)
	}
	c.say(unregisterResponse, "")
	c.conn.Abort()
	if got := <-c.over; got != status {
		c.Errorf("exit status %d, want %d", got, status)
	}
	return out.String()
}

// deadlines is a connection that records the last deadline for writing.
type deadlines struct {
	net.Conn
	write atomic.Pointer[time.Time]
}

func (d *deadlines) SetWriteDeadline(at time.Time) error {
	d.write.Store(&at)
	return d.Conn.SetWriteDeadline(at)
}

// TestStoppedClient checks that there is no time in which the client has to read: a user may have stopped it.
func TestStoppedClient(t *testing.T) {
	nc, relay := net.Pipe()
	recorded := &deadlines{Conn: relay}
	over := make(chan error, 1)
	go func() {
		_, err := Options{Host: "node", Shell: "/bin/sh"}.serve(t.Context(), recorded, "client")
		over <- err
	}()
	conn, err := commlib.Server(nc, commlib.Options{}, func(*commlib.ConnectRequest) commlib.ConnectResponse {
		return commlib.ConnectResponse{Condition: commlib.Connected}
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Receive(); err != nil {
		t.Fatal(err)
	}
	if at := recorded.write.Load(); at == nil || !at.IsZero() {
		t.Errorf("the client must read until %v, expected no deadline", at)
	}
	conn.Abort()
	if err := <-over; err == nil {
		t.Error("a session without a client ends without an error")
	}
}

// TestEncrypted checks that the relay encrypts the connection with a client that has sent its certificate,
// and that the command does not get the variable.
func TestEncrypted(t *testing.T) {
	own := &pinned.Own{Certificate: filepath.Join(t.TempDir(), "cert"), Key: filepath.Join(t.TempDir(), "key"), Host: "client", Lifetime: time.Hour, Now: time.Now}
	if _, err := own.Renew(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(own.Certificate)
	if err != nil {
		t.Fatal(err)
	}
	word, err := pinned.Word(text)
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", own.Server())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := &client{T: t, over: make(chan int, 1)}
	go func() {
		status, err := Run(Options{Host: "node", Shell: "/bin/sh", Env: []string{
			"PATH=" + os.Getenv("PATH"), portVariable + "=" + l.Addr().String(), commandVariable + "=echo ${" + CertificateVariable + "-none}", CertificateVariable + "=" + word,
		}})
		if err != nil {
			t.Error(err)
		}
		c.over <- status
	}()
	nc, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if c.conn, err = commlib.Server(nc, commlib.Options{}, func(*commlib.ConnectRequest) commlib.ConnectResponse {
		return commlib.ConnectResponse{Condition: commlib.Connected}
	}); err != nil {
		t.Fatal(err)
	}
	if k, _ := c.next(); k != register {
		t.Fatalf("the first message is %v", k)
	}
	c.say(settings, "noshell = 0\x00")
	if out := c.rest(0); out != "none\n" {
		t.Errorf("the command wrote %q", out)
	}
}

// TestSizeAfterSettings checks that a command finds the size of its window from the beginning, also if the client sends the
// size after its settings.
func TestSizeAfterSettings(t *testing.T) {
	c := serve(t, Options{PTY: true, sizePatience: patience}, "stty size")
	<-time.After(200 * time.Millisecond) // so long a command without a size would need
	c.say(windowSize, "WS 33 101 0 0\x00")
	if out := c.rest(0); !strings.HasPrefix(out, "33 101") {
		t.Errorf("the size is %q", out)
	}
	// A client without a window sends none.
	if out := serve(t, Options{PTY: true}, "stty size").rest(0); !strings.HasPrefix(out, "0 0") {
		t.Errorf("the size is %q", out)
	}
}

// TestSlowClient checks that a client gets all output even if it reads nothing for a while after
// the command has ended, for example because the client is stopped or its own output is blocked.
func TestSlowClient(t *testing.T) {
	for name, c := range map[string]struct {
		pty  bool
		size int // what fits in, but neither in one message nor in two
	}{
		"pipes": {false, 60000}, "a terminal": {true, 8000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ended := t.TempDir() + "/ended"
			client := serve(t, Options{PTY: c.pty}, fmt.Sprintf("printf x; sleep 0.3; head -c %d /dev/zero; : >%s; exit 3", c.size-1, ended))
			again := time.NewTicker(time.Millisecond)
			defer again.Stop()
			for end := time.Now().Add(patience); ; <-again.C {
				if _, err := os.Stat(ended); err == nil {
					break
				}
				if time.Now().After(end) {
					t.Fatal("the command does not end")
				}
			}
			<-time.After(2*outputPause + outputPause/2) // so long the client takes nothing
			if got := len(client.rest(3)); got != c.size {
				t.Errorf("%d bytes of output, want %d", got, c.size)
			}
		})
	}
}

// TestProcessesLeftByCommandAreNotAwaited checks that the relay does not wait for processes that
// the command has left behind, nor for their output.
func TestProcessesLeftByCommandAreNotAwaited(t *testing.T) {
	for name, left := range map[string]string{"is silent": "sleep 1000", "writes on and on": "yes"} {
		for how, pty := range map[string]bool{"pipes": false, "a terminal": true} {
			t.Run(name+" to "+how, func(t *testing.T) {
				t.Parallel()
				pid := t.TempDir() + "/pid"
				c := serve(t, Options{PTY: pty}, fmt.Sprintf("trap '' HUP; %s & echo $! >%s; echo out", left, pid))
				if out := c.rest(0); !strings.Contains(out, "out\n") {
					t.Errorf("the output is %.80q", out)
				}
				text, err := os.ReadFile(pid)
				if err != nil {
					t.Fatal(err)
				}
				var p int
				if _, err := fmt.Sscan(string(text), &p); err != nil {
					t.Fatal(err)
				}
				if err := unix.Kill(p, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
					t.Error(err)
				}
			})
		}
	}
}

// TestHangUpAfterTheEnd checks that no signal is sent to a command that was reaped: its process ID
// may belong to another process.
func TestHangUpAfterTheEnd(t *testing.T) {
	command := exec.Command("/bin/sh", "-c", "sleep 1000 & echo $!")
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	var left int // in the group of the command, and has its number
	if _, err := fmt.Fscan(out, &left); err != nil {
		t.Fatal(err)
	}
	pidfd, err := unix.PidfdOpen(left, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pidfd)
	r := &relay{process: command}
	if err := r.wait(); err != nil {
		t.Error(err)
	}
	r.hangUp()
	r.signalGroup(syscall.SIGKILL)
	if testenv.Ended(pidfd, 100*time.Millisecond) {
		t.Error("a process was killed by a number that is not the command's any more")
	}
	if err := unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0); err != nil {
		t.Error(err)
	}
}
