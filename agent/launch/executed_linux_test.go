package launch

import (
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestReapAfterExec checks that a program collects the dead children of the program that has executed it, although it adopts
// no orphans, and leaves its own supervisors to their callers.
func TestReapAfterExec(t *testing.T) {
	if adopts() {
		if os.Getpid() == 1 {
			t.Skip("the first process of a container adopts all orphans")
		}
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }()
	}
	dead := func() int {
		t.Helper()
		p, err := os.StartProcess("/bin/true", []string{"true"}, &os.ProcAttr{})
		if err != nil {
			t.Fatal(err)
		}
		pid := p.Pid
		if err := p.Release(); err != nil {
			t.Fatal(err)
		}
		for {
			if err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != unix.EINTR {
				if err != nil {
					t.Fatal(err)
				}
				return pid
			}
		}
	}
	left, own := dead(), dead()
	children.Store(own, true)
	defer func() {
		children.Delete(own)
		_, _ = unix.Wait4(own, nil, 0, nil)
	}()
	now := time.Now()
	if n := (&Reaper{}).look(now); n != 0 {
		t.Errorf("a program that adopts no orphans collects %d", n)
	}
	r := Reaper{Executed: true}
	if n := r.look(now); n != 0 || !isChild(left) {
		t.Errorf("it collects %d at once: another part of the program may wait for them", n)
	}
	if n := r.look(now.Add(decay)); n < 1 || isChild(left) || !isChild(own) {
		t.Errorf("it collects %d; left: the child of the previous program %v, a supervisor %v", n, isChild(left), isChild(own))
	}
}
