package process

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// The kernel answers some questions about a process only while the process does not execute a program: stat, io, environ,
// smaps_rollup and the links to its files wait for the lock that execve(2) holds. execve closes files under this lock, and
// the owner of a FUSE file system answers the close of a file whenever he likes. So any user can hold up a reader for
// days, and no signal but SIGKILL ends the wait. These questions are therefore asked by another goroutine, for which the
// caller waits for a limited time. The file status does not need the lock.
//
// A reader that is held up keeps a thread until the process goes on. If there are mostHeld, or mostOfUser for processes of
// one user, further questions about them have no answers.

const (
	// patience is how long a caller waits for an answer, which usually takes microseconds. A busy machine needs a part of it.
	patience = 100 * time.Millisecond
	// patienceForMemory is longer, because the kernel walks through all pages of the process.
	patienceForMemory = 2 * time.Second
	mostHeld          = 256
	mostOfUser        = 8
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
	done      int    // an eventfd that can be read when there is the answer

	left, over bool // the caller has left, the answer is there; both under held.mu
}

// fileInTime reads a small file of a process, or nothing if that takes longer than a limit. The result is valid until the
// caller releases the question.
func fileInTime(pid int, name string, limit time.Duration) (*question, []byte) {
	q := ask(pid, name, nil, limit)
	if q == nil {
		return nil, nil
	}
	return q, q.room[:q.n]
}

// InTime calls f in another goroutine, and reports whether f has returned in time. f asks the kernel about a process, which
// may hold it up. If InTime reports false, f was not called, or may still run: the caller must not use what it shares with f.
func InTime(pid int, f func()) bool {
	q := ask(pid, "", f, patience)
	q.release()
	return q != nil
}

// Helped returns the number of bytes that this process has read from files of processes in other threads than those of the callers.
func Helped() Transfer {
	held.mu.Lock()
	defer held.mu.Unlock()
	return held.read
}

// ask returns an answered question, or nil.
func ask(pid int, name string, f func(), limit time.Duration) *question {
	if isHeld(pid) {
		return nil
	}
	held.mu.Lock()
	q := held.idle
	held.idle = nil
	held.mu.Unlock()
	if q == nil {
		fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
		if err != nil {
			return nil // too many open files
		}
		q = &question{done: fd}
	}
	q.pid, q.name, q.call, q.over = pid, name, f, false
	go q.answer()
	if !readable(q.done, limit) {
		q.user = Read(pid).User
	}
	held.mu.Lock()
	defer held.mu.Unlock()
	if !q.over {
		q.left = true
		held.list = append(held.list, q)
		return nil
	}
	var count [8]byte
	read(q.done, count[:])
	return q
}

// readable waits until a descriptor can be read, and reports whether that is so in time.
func readable(fd int, limit time.Duration) bool {
	end := time.Now().Add(limit)
	for {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, int(max(time.Until(end), 0)/time.Millisecond))
		if err != unix.EINTR {
			return n > 0
		}
	}
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
	of := 0
	for _, q := range held.list {
		if q.pid == pid {
			return true
		}
		if q.user == user {
			of++
		}
	}
	return of >= mostOfUser || len(held.list) >= mostHeld
}

func (q *question) answer() {
	var read Transfer
	if q.call != nil {
		q.call()
	} else {
		q.n = len(file(q.pid, q.name, q.room[:]))
		read = Transfer{Bytes: uint64(q.n), Calls: 1}
	}
	held.mu.Lock()
	defer held.mu.Unlock()
	held.read = held.read.Plus(read)
	q.over = true
	if !q.left {
		one := [8]byte{1, 1, 1, 1, 1, 1, 1, 1} // any number, in any byte order
		_, _ = unix.Write(q.done, one[:])
		return
	}
	closeFile(q.done)
	for i, other := range held.list {
		if other == q {
			last := len(held.list) - 1
			held.list[i], held.list[last] = held.list[last], nil
			held.list = held.list[:last]
			break
		}
	}
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
