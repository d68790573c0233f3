package sigwait

import (
	"errors"
	"os"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var listener *Listener

func TestMain(m *testing.M) {
	var err error
	if listener, err = Listen(unix.SIGUSR1, unix.SIGUSR2, unix.SIGCHLD, unix.SIGTSTP, unix.SIGSYS); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// deadline is the timeout for events that must occur.
const deadline = 3 * time.Minute

// drain discards the signals that have arrived.
func drain() {
	for {
		if _, ok := listener.Take(); !ok {
			return
		}
	}
}

// collectUntil waits until all wanted signals have arrived.
func collectUntil(t *testing.T, want ...syscall.Signal) {
	t.Helper()
	got := map[syscall.Signal]bool{}
	for end := time.Now().Add(deadline); ; {
		for {
			sig, ok := listener.Take()
			if !ok {
				break
			}
			got[sig] = true
		}
		if !slices.ContainsFunc(want, func(sig syscall.Signal) bool { return !got[sig] }) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("got %v, want %v", got, want)
		}
		listener.Wait(end)
	}
}

func kill(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(os.Getpid(), sig); err != nil {
		t.Fatal(err)
	}
}

func TestSignalsAreTakenOnce(t *testing.T) {
	drain()
	kill(t, unix.SIGUSR2)
	kill(t, unix.SIGTSTP)
	kill(t, unix.SIGSYS)
	collectUntil(t, unix.SIGUSR2, unix.SIGTSTP, unix.SIGSYS)
	if sig, ok := listener.Take(); ok {
		t.Errorf("signal %v again", sig)
	}
}

func TestSignalThatCameBeforeIsNotWaitedFor(t *testing.T) {
	drain()
	kill(t, unix.SIGUSR1)
	collectUntil(t, unix.SIGUSR1) // another thread may handle it
	kill(t, unix.SIGUSR1)
	start := time.Now()
	listener.Wait(start.Add(deadline))
	if time.Since(start) >= deadline {
		t.Error("the signal was slept through")
	}
	collectUntil(t, unix.SIGUSR1)
}

func TestWaitEndsAtTheDeadline(t *testing.T) {
	drain()
	const wait = 30 * time.Millisecond
	start := time.Now()
	for time.Since(start) < wait {
		listener.Wait(start.Add(wait))
	}
	if late := time.Since(start) - wait; late > deadline {
		t.Errorf("%v too late", late)
	}
	listener.Wait(start) // has passed: returns
}

func TestChildWakesAWaitWithoutDeadline(t *testing.T) {
	drain()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for range 50 {
		p, err := os.StartProcess("/bin/true", []string{"true"}, &os.ProcAttr{})
		if err != nil {
			t.Fatal(err)
		}
		for {
			var status syscall.WaitStatus
			pid, err := syscall.Wait4(p.Pid, &status, syscall.WNOHANG, nil)
			if err != nil && !errors.Is(err, syscall.EINTR) {
				t.Fatal(err)
			}
			if pid == p.Pid {
				break
			}
			listener.Wait(time.Time{})
			drain()
		}
		_ = p.Release()
	}
}

func TestDescriptorWakesAWait(t *testing.T) {
	drain()
	var ends [2]int
	if err := unix.Pipe(ends[:]); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(ends[0])
	defer unix.Close(ends[1])
	fd := unix.PollFd{Fd: int32(ends[0]), Events: unix.POLLIN}
	for range 50 {
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = unix.Write(ends[1], []byte("x"))
		}()
		ready := false
		for end := time.Now().Add(deadline); !ready && time.Now().Before(end); {
			got := listener.Wait(end, fd)
			ready = len(got) == 1 && got[0].Revents&unix.POLLIN != 0
			drain()
		}
		<-done
		if !ready {
			t.Fatal("what can be read was slept through")
		}
		var b [1]byte
		if _, err := unix.Read(ends[0], b[:]); err != nil {
			t.Fatal(err)
		}
	}
}

// TestStorm checks that no signal is lost if signals are sent to all threads at once, and that Go's
// own signals still work.
func TestStorm(t *testing.T) {
	drain()
	const rounds = 300
	var busy sync.WaitGroup
	stop := make(chan struct{})
	for range 3 {
		busy.Go(func() { // their stacks grow and move meanwhile
			for {
				select {
				case <-stop:
					return
				default:
					deep(100)
				}
			}
		})
	}
	for range rounds {
		kill(t, unix.SIGUSR1)
		kill(t, unix.SIGUSR2)
		collectUntil(t, unix.SIGUSR1, unix.SIGUSR2)
	}
	close(stop)
	busy.Wait()
}

func deep(n int) int {
	var room [128]byte
	if n == 0 {
		return int(room[0])
	}
	return deep(n-1) + int(room[n%128])
}

func BenchmarkSignal(b *testing.B) {
	drain()
	for b.Loop() {
		_ = syscall.Kill(os.Getpid(), unix.SIGUSR1)
		listener.Wait(time.Time{})
		drain()
	}
}
