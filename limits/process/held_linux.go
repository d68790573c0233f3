package process

import (
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// The kernel answers some questions about a process only while the process does not execute a program: stat, io, environ,
// smaps_rollup and the links to its files wait for the lock that execve(2) holds. execve closes files under this lock, and
// the owner of a FUSE file system answers the close of a file whenever he likes. So any user can hold up a reader for
// days, and no signal but SIGKILL ends the wait. These questions are therefore asked by another thread. If the kernel keeps
// that thread waiting (proc(5), state D), the caller does without the answer. On a busy machine a thread that does not get a
// processor is given more time. The file status does not need the lock.
//
// A reader that is held up keeps a thread until the process goes on. If there are mostHeld, or mostOfUser for processes of
// one user, further questions about them have no answers. A reader counts for some time after it has got its answer:
// otherwise processes that hold up each reader for a moment only would take more time of the callers.

const (
	// An answer usually takes microseconds, that about the memory of a large process seconds. The caller looks at the thread
	// once per lookPause, and leaves it if it waits at mostLooks looks in a row.
	lookPause = 50 * time.Millisecond
	mostLooks = 2
	patience  = 20 * time.Second

	remembered = 10 * time.Second // how long a reader counts after its answer

	mostHeld   = 256
	mostOfUser = 8
)

// held are the questions that no caller waits for any more.
var held struct {
	mu   sync.Mutex
	list []*question
	idle *question // used again, so that questions make no garbage
	read Transfer  // by other goroutines
}

// question is a file that another goroutine reads.
type question struct {
	pid, user int
	name      string
	room      [4096]byte
	n         int
	call      func() // in place of reading a file
	thread    int    // of the other goroutine; 0 before it has begun; under held.mu
	done      int    // an eventfd that can be read when there is the answer

	// Under held.mu: the caller has left, and the answer is there, since when.
	left, over bool
	since      time.Time
}

// ErrHeldUp means that a process holds up the answer to a question about it, or that too many processes of its user do so.
var ErrHeldUp = errors.New("the process holds up the kernel")

// fileInTime reads a small file of a process, or nothing if the process holds that up. The result is valid until the
// caller releases the question.
func fileInTime(pid int, name string) (*question, []byte) {
	q, err := ask(pid, name, nil)
	if err != nil {
		return nil, nil
	}
	return q, q.room[:q.n]
}

// InTime calls f in another goroutine, and waits until it has returned. f asks the kernel about a process, which may hold
// it up. After an error f was not called, or may still run: the caller must not use what it shares with f. The error is
// ErrHeldUp, or says that this process has too many open files.
func InTime(pid int, f func()) error {
	q, err := ask(pid, "", f)
	q.release()
	return err
}

// Helped returns the number of bytes that this process has read from files of processes in other threads than those of the callers.
func Helped() Transfer {
	held.mu.Lock()
	defer held.mu.Unlock()
	return held.read
}

// ask returns an answered question.
func ask(pid int, name string, f func()) (*question, error) {
	if isHeld(pid) {
		return nil, ErrHeldUp
	}
	held.mu.Lock()
	q := held.idle
	held.idle = nil
	held.mu.Unlock()
	if q == nil {
		fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
		if err != nil {
			return nil, err
		}
		q = &question{done: fd}
	}
	q.pid, q.name, q.call, q.thread, q.over = pid, name, f, 0, false
	go q.answer()
	if !q.isAnswered() {
		q.user = Read(pid).User
	}
	held.mu.Lock()
	defer held.mu.Unlock()
	if !q.over {
		q.left = true
		held.list = append(held.list, q)
		return nil, ErrHeldUp
	}
	var count [8]byte
	read(q.done, count[:])
	return q, nil
}

// isAnswered waits for the answer. It reports false if the other thread waits in the kernel.
func (q *question) isAnswered() bool {
	end := time.Now().Add(patience)
	for looks := 0; looks < mostLooks && time.Now().Before(end); {
		// Signals, of which a job can cause many, interrupt poll(2).
		for next := time.Now().Add(lookPause); ; {
			fds := []unix.PollFd{{Fd: int32(q.done), Events: unix.POLLIN}}
			n, err := unix.Poll(fds, int(max(time.Until(next), 0)/time.Millisecond)+1)
			if n > 0 {
				return true
			}
			if err != unix.EINTR || time.Now().After(next) {
				break
			}
		}
		held.mu.Lock()
		thread := q.thread
		held.mu.Unlock()
		if looks++; thread == 0 || Read(thread).State != 'D' {
			looks = 0
		}
	}
	return false
}

// isHeld reports whether a question about a process would have no answer.
func isHeld(pid int) bool {
	held.mu.Lock()
	none := len(held.list) == 0
	held.mu.Unlock()
	if none {
		return false
	}
	user := Read(pid).User
	held.mu.Lock()
	defer held.mu.Unlock()
	held.list = slices.DeleteFunc(held.list, func(q *question) bool { return q.over && time.Since(q.since) > remembered })
	of := 0
	for _, q := range held.list {
		if q.pid == pid && !q.over {
			return true
		}
		if q.user == user {
			of++
		}
	}
	return of >= mostOfUser || len(held.list) >= mostHeld
}

func (q *question) answer() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	held.mu.Lock()
	q.thread = unix.Gettid()
	held.mu.Unlock()
	var read Transfer
	if q.call != nil {
		q.call()
	} else {
		q.n = len(file(q.pid, q.name, q.room[:]))
		read = Transfer{Bytes: uint64(q.n), Calls: 1}
	}
	held.mu.Lock()
	defer held.mu.Unlock()
	q.over = true
	if q.left {
		closeFile(q.done)
		q.since = time.Now()
	} else {
		one := [8]byte{1, 1, 1, 1, 1, 1, 1, 1} // any number, in any byte order
		n, _ := unix.Write(q.done, one[:])
		read = read.Plus(Transfer{Bytes: uint64(max(n, 0)), Calls: 1})
	}
	held.read = held.read.Plus(read)
}

// release ends the use of the answer.
func (q *question) release() {
	if q == nil {
		return
	}
	q.call = nil
	held.mu.Lock()
	defer held.mu.Unlock()
	if held.idle != nil {
		closeFile(q.done)
		return
	}
	held.idle = q
}
