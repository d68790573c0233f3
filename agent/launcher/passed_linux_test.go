package launcher

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/host/passed"
	"github.com/execd-project/execd/internal/submission/claim"
	"github.com/execd-project/execd/internal/testenv"
)

// TestPassedDescriptors checks that a user who passes descriptors to the launcher cannot prevent other users from confirming
// jobs: the close of such a descriptor may take days.
func TestPassedDescriptors(t *testing.T) {
	_, _, _, socket := newConfiguredWorld(t, map[string]string{"conf/global": ""})
	connect := func() (fd int) {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		if err == nil {
			err = claim.At(socket, func(short string) error { return unix.Connect(fd, &unix.SockaddrUnix{Name: short}) })
		}
		if err != nil {
			t.Error(err)
		}
		return fd
	}
	greeted := func(fd int) error {
		timeout := unix.NsecToTimeval((20 * time.Second).Nanoseconds())
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout); err != nil {
			return err
		}
		n, err := unix.Read(fd, make([]byte, mostMessage))
		if err == nil && n == 0 {
			err = errors.New("the launcher has closed the connection")
		}
		return err
	}
	var list []int
	for range mostClaimsEach {
		fd := connect()
		if err := greeted(fd); err != nil {
			t.Fatal(err)
		}
		list = append(list, fd)
	}
	// The launcher closes further connections, some of them after they have got a descriptor. If the launcher closes it after
	// this process, it is the last.
	const attempts = 8
	sent := make(chan error, attempts)
	for range attempts {
		lingering := testenv.Lingering(t)
		go func() {
			err := error(unix.EPIPE)
			for errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) {
				fd := connect()
				err = unix.Sendmsg(fd, []byte("x"), unix.UnixRights(lingering), nil, unix.MSG_NOSIGNAL)
				unix.Close(fd)
			}
			sent <- err
			if err == nil {
				unix.Close(lingering)
			} else {
				passed.Close([]int{lingering})
			}
		}()
	}
	for range attempts {
		if err := <-sent; err != nil && !errors.Is(err, unix.EPERM) { // since Linux 6.16
			t.Error(err)
		}
	}
	for _, fd := range list {
		unix.Close(fd)
	}
	var err error
	for range 100 { // the launcher may not have seen yet that the others are closed
		fd := connect()
		err = greeted(fd)
		unix.Close(fd)
		if err == nil || errors.Is(err, unix.EAGAIN) {
			break
		}
		<-time.After(10 * time.Millisecond)
	}
	if err != nil {
		t.Errorf("another connection has no answer: %v", err)
	}
}
