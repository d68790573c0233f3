package passed

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/testenv"
)

// returns fails the test if a function does not return.
func returns(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatalf("%s waits for a descriptor that the other side has passed", what)
	}
}

// TestHangUp checks that a process can close a socket although descriptors are in it whose close would wait.
func TestHangUp(t *testing.T) {
	for name, kind := range map[string]int{"messages": unix.SOCK_SEQPACKET, "a stream": unix.SOCK_STREAM} {
		t.Run(name, func(t *testing.T) {
			p, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(p[1])
			fd := testenv.Lingering(t)
			for _, rights := range [][]byte{nil, unix.UnixRights(fd)} {
				data := []byte("x")
				if rights == nil && kind == unix.SOCK_SEQPACKET {
					data = nil // like the end of the connection
				}
				if _, err := unix.SendmsgN(p[1], data, rights, nil, 0); err != nil {
					t.Fatal(err)
				}
			}
			unix.Close(fd) // not the last
			returns(t, "the close", func() {
				HangUp(p[0])
				unix.Close(p[0])
			})
			if _, err := unix.SendmsgN(p[1], []byte("x"), nil, nil, unix.MSG_NOSIGNAL); !errors.Is(err, unix.EPIPE) {
				t.Errorf("the other side can still send: %v", err)
			}
		})
	}
}

// TestConn checks that a reader of a connection does not wait for descriptors, and sees data and the end.
func TestConn(t *testing.T) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	other, err := net.DialUnix("unix", nil, l.Addr().(*net.UnixAddr))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	u, err := l.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	c := NewConn(u)
	for _, text := range []string{"one", "two"} {
		fd := testenv.Lingering(t)
		if _, _, err := other.WriteMsgUnix([]byte(text), unix.UnixRights(fd), nil); err != nil {
			t.Fatal(err)
		}
		unix.Close(fd) // not the last
	}
	returns(t, "a read", func() {
		b := make([]byte, 10)
		if n, err := c.Read(b); string(b[:n]) != "one" || err != nil {
			t.Errorf("the first read returns %q, %v", b[:n], err)
		}
	})
	returns(t, "the close", func() { c.Close() })
	if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("a read after the close returns %d, %v", n, err)
	}

	if other, err = net.DialUnix("unix", nil, l.Addr().(*net.UnixAddr)); err != nil {
		t.Fatal(err)
	}
	if u, err = l.AcceptUnix(); err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	other.Close()
	if n, err := NewConn(u).Read(make([]byte, 1)); n != 0 || err != io.EOF { //nolint:errorlint // readers expect io.EOF itself
		t.Errorf("the end is %d, %v", n, err)
	}
}

// TestRefuse checks that a listener refuses descriptors, if the kernel can.
func TestRefuse(t *testing.T) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	raw, err := l.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var is int
	if err := raw.Control(func(fd uintptr) {
		Refuse(int(fd))
		is, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, soPassRights)
	}); err != nil {
		t.Fatal(err)
	}
	if errors.Is(err, unix.ENOPROTOOPT) {
		t.Skip("the kernel has no SO_PASSRIGHTS, which Linux 6.16 added")
	}
	other, dialed := net.DialUnix("unix", nil, l.Addr().(*net.UnixAddr))
	if dialed != nil {
		t.Fatal(dialed)
	}
	defer other.Close()
	if _, _, sent := other.WriteMsgUnix([]byte("x"), unix.UnixRights(int(os.Stdin.Fd())), nil); !errors.Is(sent, unix.EPERM) || is != 0 || err != nil {
		t.Errorf("the kernel sends a descriptor: %v; the option is %d, %v", sent, is, err)
	}
}
