package launch

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"

	"github.com/execd-project/execd/limits/cgroup"
)

// The limits of a group of Groups.Confine.
const (
	confinedPids   = 64
	confinedMemory = 256 << 20
)

// confined counts the groups that this process has made for single processes.
var confined atomic.Uint64

// Confine makes a control group of version 2 for a process of a user that does not belong to a job,
// with small limits of memory and of processes where version 2 has these controllers. It returns the directory of the group, which the
// caller closes, and a function that ends all processes in the group and removes it. The next daemon
// removes a group that was left because this daemon was killed: see Sweep.
func (g *Groups) Confine() (dir *os.File, remove func() error, err error) {
	if g == nil {
		return nil, nil, errors.New("the configuration switches control groups off")
	}
	made, err := g.manager.Create("message-"+strconv.FormatUint(confined.Add(1), 10), cgroup.Limits{Pids: confinedPids, RSS: confinedMemory})
	if err != nil {
		return nil, nil, err
	}
	remove = func() error { return made.Remove(groupPatience) }
	unified := made.Paths().Unified
	if unified == "" {
		return nil, nil, errors.Join(errors.New("the host has no control groups of version 2"), remove())
	}
	fd, err := syscall.Open(unified, syscall.O_DIRECTORY|syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("cannot open the control group %q: %w", unified, err), remove())
	}
	return os.NewFile(uintptr(fd), unified), remove, nil
}
