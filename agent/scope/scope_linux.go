package scope

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Name is the scope of root's jobs.
const Name = "execd-jobs.scope"

// supervisors is the group of the supervisors in the scope, next to the groups of jobs, because a
// group that contains groups cannot contain processes.
const supervisors = "supervisors"

// patience is the time limit for an answer of systemd. systemd is slow while the host boots; jobs
// then start somewhat later, but still in the scope.
const patience = 30 * time.Second

// Scope is the scope of root's jobs. It exists at least until Close.
type Scope struct {
	// Group is its control group, as a path from the top of the hierarchy: below it
	// groups may be made.
	Group string

	dir    *os.File // of the group of the supervisors
	holder *holder
}

// Open makes the scope of root's jobs, or opens the existing one. Without systemd the error wraps
// ErrNoManager.
func Open() (*Scope, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := connect(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	for {
		group, err := groupOf(ctx, conn, Name)
		if err != nil {
			return nil, err
		}
		var s *Scope
		if group == "" {
			s, err = create(ctx, func(pid int) (string, error) {
				if err := start(ctx, conn, Name, "Jobs of execd", pid); err != nil {
					return "", err
				}
				return groupOf(ctx, conn, Name)
			})
		} else {
			s, err = enter(group)
			if err == nil {
				// It may have become empty, and been given up, before we were in.
				group, err = groupOf(ctx, conn, Name)
			}
			if err == nil && group != s.Group {
				s.Close()
				err = errVanished
			}
		}
		if err == nil {
			return s, nil
		}
		// Others make or leave it at the same time.
		if !errors.Is(err, errExists) && !errors.Is(err, errVanished) && !gone(err) || ctx.Err() != nil {
			return nil, err
		}
		pause(ctx, 10*time.Millisecond)
	}
}

var errVanished = errors.New("the scope has ended in the meantime")

// create makes the scope with a process to hold it.
func create(ctx context.Context, start func(pid int) (group string, err error)) (*Scope, error) {
	h, err := hold(nil)
	if err != nil {
		return nil, err
	}
	group, err := start(h.process.Pid)
	if err == nil && group == "" {
		err = errVanished
	}
	if err != nil {
		h.release()
		return nil, err
	}
	s := &Scope{Group: group, holder: h}
	if err := s.open(); err != nil {
		s.Close()
		return nil, err
	}
	return s, ctx.Err()
}

// enter holds a scope that exists.
func enter(group string) (*Scope, error) {
	s := &Scope{Group: group}
	err := s.open()
	if err == nil {
		s.holder, err = hold(s.dir)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// open makes and opens the group of the supervisors. It moves the process with which the scope was
// made there, because otherwise no controller could be enabled.
func (s *Scope) open() error {
	top := filepath.Join(Mount, s.Group)
	leaf := filepath.Join(top, supervisors)
	if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	procs, err := os.ReadFile(top + "/cgroup.procs")
	if err != nil {
		return err
	}
	for pid := range strings.FieldsSeq(string(procs)) {
		if err := os.WriteFile(leaf+"/cgroup.procs", []byte(pid), 0); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	s.dir, err = os.Open(leaf)
	return err
}

// Start starts a process in the scope, next to the groups of jobs.
func (s *Scope) Start(path string, argv []string, attr *os.ProcAttr) (*os.Process, error) {
	return startIn(s.dir, path, argv, attr)
}

// startIn starts a process directly in a group (clone3(2), Linux 5.7), or on older kernels moves it
// there at once.
func startIn(dir *os.File, path string, argv []string, attr *os.ProcAttr) (*os.Process, error) {
	in, sys := *attr, syscall.SysProcAttr{}
	if attr.Sys != nil {
		sys = *attr.Sys
	}
	in.Sys = &sys
	sys.UseCgroupFD, sys.CgroupFD = true, int(dir.Fd())
	p, err := os.StartProcess(path, argv, &in)
	if !errors.Is(err, syscall.ENOSYS) && !errors.Is(err, syscall.EINVAL) {
		return p, err
	}
	if p, err = os.StartProcess(path, argv, attr); err != nil {
		return nil, err
	}
	if err := os.WriteFile(dir.Name()+"/cgroup.procs", []byte(strconv.Itoa(p.Pid)), 0); err != nil {
		_ = p.Kill()
		_, _ = p.Wait()
		return nil, err
	}
	return p, nil
}

// Close releases the scope. The scope ends unless jobs or other processes hold it.
func (s *Scope) Close() {
	if s == nil {
		return
	}
	if s.dir != nil {
		s.dir.Close()
	}
	if s.holder != nil {
		s.holder.release()
	}
}

// holder is a process that does nothing, in the scope. It ends with us, however
// we end: its standard input then does.
type holder struct {
	process *os.Process
	pipe    io.Closer
}

func hold(dir *os.File) (*holder, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	attr := &os.ProcAttr{Dir: "/", Files: []*os.File{r}, Sys: &syscall.SysProcAttr{Setsid: true}}
	start := os.StartProcess
	if dir != nil {
		start = func(path string, argv []string, attr *os.ProcAttr) (*os.Process, error) {
			return startIn(dir, path, argv, attr)
		}
	}
	p, err := start("/bin/sh", []string{"execd-jobs", "-c", "read nothing"}, attr)
	if err != nil {
		w.Close()
		return nil, fmt.Errorf("cannot start a process to hold the scope: %w", err)
	}
	return &holder{p, w}, nil
}

func (h *holder) release() {
	_ = h.pipe.Close()
	_ = h.process.Kill()
	_, _ = h.process.Wait()
}

// Move moves this process to a new scope of the user's own manager, delegated to
// us. Without such a manager the error wraps ErrNoManager.
func Move() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	pid := os.Getpid()
	for n := 0; ; n++ {
		// A job that has outlived its execd run holds a scope of that number.
		name := "execd-run-" + strconv.Itoa(pid)
		if n > 0 {
			name += "-" + strconv.Itoa(n)
		}
		err := start(ctx, conn, name+".scope", "execd run", pid)
		if !errors.Is(err, errExists) {
			return err
		}
	}
}

// gone reports whether a group has been removed.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV)
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
