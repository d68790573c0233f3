package run

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/internal/configdir"
	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/internal/options"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/qconf"
)

// resolve looks up the queue and the other objects that the request names.
func (s *session) resolve(cwd string) (*launch.Assignment, error) {
	cluster := qconf.Builtin(runtime.NumCPU())
	if s.own.Conf != "" {
		if _, err := os.ReadDir(s.own.Conf); err != nil {
			return nil, fmt.Errorf("--conf %s: cannot read the directory: %w", s.own.Conf, errors.Unwrap(err))
		}
		files, err := configdir.Trusted(s.own.Conf)
		if err != nil {
			return nil, fmt.Errorf("--conf %s: %w", s.own.Conf, err)
		}
		if cluster, err = qconf.Load(files, cluster); err != nil {
			return nil, qconf.Within(s.own.Conf, err)
		}
	}
	queue, err := s.chooseQueue(cluster.QueueNames())
	if err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	if s.request, err = s.request.PEOfSlots(cluster.Global().QmasterParams.SlotsPE, func(name string) bool {
		x, ok := cluster.Complexes().Find(name)
		return ok && x.Name == "slots"
	}); err != nil {
		return nil, err
	}
	order, err := launch.Resolve(cluster, s.request, queue, host)
	if err != nil {
		return nil, qconf.Within(s.own.Conf, err)
	}
	if s.gpus, err = s.findGPURequest(cluster, host); err != nil {
		return nil, err
	}
	if s.own.Conf == "" { // without a queue of the user's, the current nice value applies
		if n, err := unix.Getpriority(unix.PRIO_PROCESS, 0); err == nil {
			order.Queue.Priority = 20 - n // in the form of the system call
		}
	}
	for _, w := range cluster.Warnings() {
		s.warnings = append(s.warnings, w.Within(s.own.Conf))
	}
	order.Owner = s.owner
	order.Submitted = time.Now()
	order.SubmitEnv, order.SubmitDir = os.Environ(), cwd
	order.Lookup = userdb.System().User
	order.SGERoot = os.Getenv("SGE_ROOT")
	order.SGECell = os.Getenv("SGE_CELL")
	order.BinaryPath = filepath.Dir(s.Executable)
	order.Arch = job.Arch(runtime.GOARCH)
	order.Devices = s.own.Devices
	order.Terminal = true
	order.Privileged = os.Getuid() == 0
	return order, nil
}

// chooseQueue returns the requested queue, or the only one.
func (s *session) chooseQueue(names []string) (string, error) {
	queue, all := s.own.Queue, strings.Join(names, ", ")
	switch {
	case len(names) == 0:
		return "", fmt.Errorf("--conf %s: it contains no queues", s.own.Conf)
	case queue == "" && len(names) == 1:
		return names[0], nil
	case queue == "":
		return "", options.Usagef("there are %d queues: name one of %s with --queue", len(names), all)
	case !slices.Contains(names, queue):
		return "", fmt.Errorf("--queue %s: there is no such queue; there are %s", queue, all)
	}
	return queue, nil
}
