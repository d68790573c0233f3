package run

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/internal/host/gpu"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler/expression"
	"github.com/execd-project/execd/scheduler/value"
)

// gpuFile is the file with the numbers of GPUs, and gpuLock the lock of calls of execd run that choose GPUs, below the
// spool directory.
const (
	gpuFile = "gpus"
	gpuLock = "gpus.lock"
)

// gpuRequest is the request of a job for GPUs of this host.
type gpuRequest struct {
	cluster *qconf.Cluster
	host    string
	hard    []qconf.Setting // hard requests of the job
	count   int             // for each slot
	asked   bool            // the host was asked for its GPUs
}

// findGPURequest returns the request of a job for GPUs; nil if it has none, and if the complex "gpu" of the site is not a
// resource map, because then a procedure of the site assigns GPUs.
func (s *session) findGPURequest(cluster *qconf.Cluster, host string) (*gpuRequest, error) {
	r := &gpuRequest{cluster: cluster, host: host}
	text := ""
	for _, q := range s.request.Resources {
		if q.Soft {
			continue
		}
		r.hard = append(r.hard, qconf.Setting{Name: q.Name, Value: q.Value})
		if x, ok := cluster.Complexes().Find(q.Name); ok && x.Name == launch.GPUMap && x.Type != qconf.ComplexRSMap {
			return nil, nil //nolint:nilnil // none
		} else if ok && x.Name == launch.GPUMap || !ok && q.Name == launch.GPUMap {
			text = q.Value
		}
	}
	if text == "" {
		return nil, nil //nolint:nilnil // none
	}
	const most = 4096
	v, err := value.Parse(value.Int, text)
	if n := v.Number(); err != nil || n != math.Trunc(n) || n < 0 || n > most {
		return nil, fmt.Errorf("-l %s=%s: expected a number of GPUs, from 0 to %d", launch.GPUMap, text, most)
	}
	if r.count = int(v.Number()); r.count == 0 {
		return nil, nil //nolint:nilnil // none
	}
	return r, nil
}

// withGPUs calls f while no other call of execd run, and no daemon of root, gives GPUs to jobs. If the job requests GPUs,
// the assignment of the session has those from which f can choose.
func (s *session) withGPUs(f func() error) error {
	if s.gpus == nil {
		return f()
	}
	lock, err := lockGPUs(filepath.Join(s.spool, gpuLock))
	if err != nil {
		return err
	}
	defer lock.Close()
	root, err := filepath.Abs(s.own.GPURoot)
	if err != nil {
		return err
	}
	if !s.gpus.asked && os.Geteuid() != 0 && gpu.OthersOffer(root) {
		s.say("warning: a daemon of root gives the GPUs of this host to jobs, perhaps those of this job, too: submit the job with execd qsub")
	}
	register := gpu.OpenRegister(root, numbersIn(s.spool, root), launch.GPUsInUse)
	defer register.Close()
	if register.Wants() && !s.gpus.asked {
		register.Ask(context.Background())
	}
	s.gpus.asked = true
	if err := s.gpus.offer(s.order, register); err != nil {
		return err
	}
	err = f()
	if e, ok := errors.AsType[*launch.GPUError](err); ok {
		return fmt.Errorf("cannot grant %s: the host has %d such GPUs, and other jobs of execd run have %d of them", s.gpus, e.Offered, e.Others)
	}
	return err
}

// numbersIn returns the path of the file with the numbers of the GPUs below a root. The host's GPUs do not share it with
// those of a test: numbers are never used again.
func numbersIn(spool, root string) string {
	const digits = 12
	name := gpuFile
	if root != "/" {
		sum := sha256.Sum256([]byte(root))
		name += "." + hex.EncodeToString(sum[:])[:digits]
	}
	return filepath.Join(spool, name)
}

// lockGPUs waits for the lock of calls of execd run that choose GPUs. Only their user can open it.
func lockGPUs(path string) (*os.File, error) {
	const mode = 0o600
	lock, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, mode)
	if err != nil {
		return nil, err
	}
	for {
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		lock.Close()
		return nil, fmt.Errorf("cannot lock %s: %w", path, err)
	}
	return lock, nil
}

// offer sets the GPUs from which the job gets its own. The map of the site replaces the one that the host has found; if
// its IDs are not numbers of GPUs, the job gets no GPUs.
func (r *gpuRequest) offer(o *launch.Assignment, register *gpu.Register) error {
	o.GPUs, o.GPUCount, o.GPUAmong = nil, 0, nil
	v := register.Inventory()
	cluster, err := r.cluster.WithFoundMap(r.host, launch.FoundGPUs(v, register.Numbers()))
	if err != nil {
		return err
	}
	offered, err := gpuMapOf(cluster, r.host)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(offered.IDs, func(id string) bool { return !v.Known(id) }) {
		return nil
	}
	among := []string{}
	var kinds []string
	for i, id := range offered.IDs {
		var of []qconf.Setting
		if offered.Attributes != nil {
			of = offered.Attributes[i]
		}
		kinds = append(kinds, kindOf(id, of))
		fits, err := r.fits(cluster.Complexes(), of)
		if err != nil {
			return err
		}
		if fits && !slices.Contains(among, id) {
			among = append(among, id)
		}
	}
	count := r.count
	if x, ok := cluster.Complexes().Find(launch.GPUMap); !ok || x.Consumable != qconf.ConsumableJob {
		count *= o.Slots
	}
	if len(among) < count {
		return r.refusal(count, len(among), kinds, v.Problems)
	}
	o.GPUs, o.GPUCount, o.GPUComplex, o.GPUAmong = v, count, launch.GPUMap, among
	return nil
}

// gpuMapOf returns the resource map "gpu" of a host.
func gpuMapOf(c *qconf.Cluster, host string) (m qconf.ResourceMap, err error) {
	h, err := c.Host(host)
	if err != nil {
		return m, nil //nolint:nilerr // without an entry it has no map
	}
	for _, s := range c.Complexes().Canonical(h.ComplexValues) {
		if s.Name == launch.GPUMap {
			return qconf.ParseResourceMap(s.Value)
		}
	}
	return m, nil
}

// kindOf describes a GPU for people: "0 (gpu_type=NVIDIA-A40, gpu_mem=46068M)".
func kindOf(id string, of []qconf.Setting) string {
	var words []string
	for _, s := range of {
		words = append(words, s.Name+"="+s.Value)
	}
	if words == nil {
		return id
	}
	return id + " (" + strings.Join(words, ", ") + ")"
}

// fits reports whether a GPU with some attributes satisfies the requests of the job for attributes of GPUs.
func (r *gpuRequest) fits(complexes *qconf.Complexes, of []qconf.Setting) (bool, error) {
	for _, want := range r.hard {
		x, ok := complexes.Find(want.Name)
		if !ok || !isGPUAttribute(x.Name) {
			continue
		}
		typ, err := value.ParseType(string(x.Type))
		if err != nil {
			return false, err
		}
		relop, err := value.ParseRelop(x.Relop)
		if err != nil {
			return false, err
		}
		request, err := value.ParseRequest(typ, expression.HostNames{}, want.Value)
		if err != nil {
			return false, fmt.Errorf("-l %s=%s: %w", want.Name, want.Value, err)
		}
		i := slices.IndexFunc(of, func(s qconf.Setting) bool { return s.Name == x.Name })
		if i < 0 {
			return false, nil
		}
		has, err := value.Parse(typ, of[i].Value)
		if err != nil || !request.Match(relop, has) {
			return false, err
		}
	}
	return true, nil
}

// isGPUAttribute reports whether a complex is an attribute of GPUs.
func isGPUAttribute(name string) bool { return name == "gpu_type" || name == "gpu_mem" }

// without removes from the words of submit.Request.Notice those of the request.
func (r *gpuRequest) without(words []string) []string {
	if r == nil {
		return words
	}
	return slices.DeleteFunc(words, func(w string) bool {
		name := strings.TrimPrefix(w, "-l ")
		return name == launch.GPUMap || isGPUAttribute(name)
	})
}

// String returns the request: "gpu=2,gpu_type=*H100*".
func (r *gpuRequest) String() string {
	words := []string{fmt.Sprintf("%s=%d", launch.GPUMap, r.count)}
	for _, want := range r.hard {
		if isGPUAttribute(want.Name) {
			words = append(words, want.Name+"="+want.Value)
		}
	}
	return strings.Join(words, ",")
}

// refusal says why the host cannot grant the GPUs, and which it has.
func (r *gpuRequest) refusal(count, suitable int, kinds, problems []string) error {
	if len(kinds) == 0 && len(problems) > 0 {
		return fmt.Errorf("cannot grant %s: %s; if a daemon runs on this host, submit the job with execd qsub", r, strings.Join(problems, "; "))
	}
	if len(kinds) == 0 {
		return fmt.Errorf("cannot grant %s: execd has found no GPU on this host: see execd doctor", r)
	}
	return fmt.Errorf("cannot grant %s: the job needs %d, and %d of the host's GPUs satisfy its requests; the host has %s",
		r, count, suitable, strings.Join(kinds, ", "))
}
