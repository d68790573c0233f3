package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// shepherd is a supervisor to be measured.
type shepherd struct {
	name string
	argv []string
	env  []string
}

// start starts the shepherd in a job's directory like a daemon. The start itself is as cheap as
// possible (vfork), so that the measured time is the shepherd's own.
func (s shepherd) start(j *madeJob) (pid int, err error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	fd := null.Fd()
	env := append([]string{
		"PATH=/usr/local/bin:/usr/bin:/bin", "SGE_ROOT=/var/lib/gridengine", "SGE_CELL=default", "SGE_ARCH=lx-amd64",
	}, s.env...)
	pid, err = syscall.ForkExec(s.argv[0], s.argv, &syscall.ProcAttr{
		Dir: j.dir.Path(), Env: env, Files: []uintptr{fd, fd, fd},
	})
	if err != nil {
		return 0, fmt.Errorf("cannot start %s: %w", s.name, err)
	}
	return pid, nil
}

// cost is the cost of one lifecycle: the elapsed time, and the CPU time of the process and all its
// descendants.
type cost struct{ time, cpu time.Duration }

// lifecycle measures a shepherd from its start to its end.
func (s shepherd) lifecycle(m *maker, c command) (took cost, err error) {
	j, err := m.make(c)
	if err != nil {
		return took, err
	}
	start := time.Now()
	pid, err := s.start(j)
	if err != nil {
		return took, err
	}
	if took, err = waitSince(start, pid); err != nil {
		return took, err
	}
	if err := j.check(); err != nil {
		return took, fmt.Errorf("%s in %s: %w", s.name, j.dir.Path(), err)
	}
	return took, j.remove()
}

// waitSince waits for the end of a process.
func waitSince(start time.Time, pid int) (cost, error) {
	for {
		var ru syscall.Rusage
		_, err := syscall.Wait4(pid, nil, 0, &ru)
		if !errors.Is(err, syscall.EINTR) {
			return cost{time.Since(start), time.Duration(ru.Utime.Nano() + ru.Stime.Nano())}, err
		}
	}
}

// measureLifecycles takes n measurements of each shepherd, in turns, so that other load on the
// machine affects all of them equally.
func measureLifecycles(ctx context.Context, r *report, m *maker, dir string, shepherds []shepherd, n int) error {
	f, err := newFloor(ctx, dir, m.user)
	if err != nil {
		return err
	}
	defer func() { _ = f.stop() }()

	type contender struct {
		name string
		once func() (cost, error)
		took []cost
	}
	contenders := []*contender{{name: f.name, once: f.once}}
	for _, c := range []struct {
		suffix string
		command
	}{
		{"", command{argv: []string{"/bin/true"}}},
		{", prolog and epilog", command{argv: []string{"/bin/true"}, procedures: true}},
	} {
		for _, s := range shepherds {
			contenders = append(contenders, &contender{
				name: s.name + c.suffix,
				once: func() (cost, error) { return s.lifecycle(m, c.command) },
			})
		}
	}
	const warmUp = 3
	for i := range warmUp + n {
		for k := range contenders {
			if err := ctx.Err(); err != nil {
				return err
			}
			c := contenders[(i+k)%len(contenders)]
			took, err := c.once()
			if err != nil {
				return err
			}
			if i >= warmUp {
				c.took = append(c.took, took)
			}
		}
	}
	for _, c := range contenders {
		r.lifecycle(c.name, c.took)
	}
	return nil
}
