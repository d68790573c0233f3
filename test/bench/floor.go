package main

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/internal/spawn"
)

//go:embed testdata/floor.c
var floorSource []byte

// floor is the lowest possible cost of a job on this machine: starting /bin/true in its own
// session, with limits, as another user, and waiting for its end.
type floor struct {
	name string
	once func() (cost, error)
	stop func() error
}

// newFloor compiles the floor. It is in C, so that the benchmark itself (whose page tables fork
// copies) does not add to the cost. Without a compiler the floor is in Go, which takes about 0.15
// ms more; all ratios to it are then lower.
func newFloor(ctx context.Context, dir string, user *userdb.User) (*floor, error) {
	cc, _ := exec.LookPath("cc")
	if cc == "" {
		return &floor{"floor (Go: no C compiler)", func() (cost, error) { return goFloor(user) }, func() error { return nil }}, nil
	}
	bin := filepath.Join(dir, "floor")
	if err := os.WriteFile(bin+".c", floorSource, 0o644); err != nil {
		return nil, err
	}
	if out, err := exec.CommandContext(ctx, cc, "-O2", "-Wall", "-o", bin, bin+".c").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("cannot compile the floor: %w\n%s", err, out)
	}
	id := -1
	if os.Getuid() == 0 {
		id = int(user.UID)
	}
	cmd := exec.CommandContext(ctx, bin, strconv.Itoa(id))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	answers := bufio.NewReader(out)
	return &floor{
		name: "floor",
		once: func() (cost, error) { return askFloor(in, answers) },
		stop: func() error { return errors.Join(in.Close(), cmd.Wait()) },
	}, nil
}

func askFloor(in io.Writer, answers *bufio.Reader) (c cost, err error) {
	if _, err := in.Write([]byte{'\n'}); err != nil {
		return c, err
	}
	line, err := answers.ReadString('\n')
	if err != nil {
		return c, fmt.Errorf("the floor has ended: %w", err)
	}
	_, err = fmt.Sscan(line, &c.time, &c.cpu)
	return c, err
}

// goFloor returns the floor in Go.
func goFloor(user *userdb.User) (took cost, err error) {
	start := time.Now()
	p := &spawn.Program{}
	p.Setsid()
	for _, number := range []int{
		unix.RLIMIT_CPU, unix.RLIMIT_FSIZE, unix.RLIMIT_DATA, unix.RLIMIT_STACK,
		unix.RLIMIT_CORE, unix.RLIMIT_RSS, unix.RLIMIT_AS, unix.RLIMIT_NOFILE,
	} {
		var r unix.Rlimit
		if err := unix.Getrlimit(number, &r); err != nil {
			return took, err
		}
		p.Rlimit(number, r.Cur, r.Max, "a limit")
	}
	if os.Getuid() == 0 {
		p.Groups([]uint32{user.GID})
		p.Setresgid(user.GID)
		p.Setresuid(user.UID)
	}
	p.Environment(os.Environ())
	p.Exec([]string{"/bin/true"}, []string{"/bin/true"})
	c, err := p.Start()
	if err != nil {
		return took, err
	}
	if took, err = waitSince(start, c.PID); err != nil {
		return took, err
	}
	if f := c.Failed(); f != nil {
		return took, f
	}
	return took, nil
}
