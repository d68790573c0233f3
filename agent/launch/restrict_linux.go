package launch

import (
	"errors"
	"slices"

	"github.com/execd-project/execd/internal/host/gpu"
	"github.com/execd-project/execd/limits/cgroup"
)

// Restrict keeps a running job from GPUs that have appeared on the host since the job was prepared,
// before other jobs get them. The job keeps the GPUs in gpus, which are its own or, for a task, those
// of its job. Jobs of another process (Remote) are left alone. An error is returned once: the next
// call does not try again. The caller must not call other methods of the job meanwhile.
func (j *Job) Restrict(v *gpu.Inventory, gpus []string) error {
	if j.remote != nil {
		return nil
	}
	var more []cgroup.Device
	for _, n := range v.Denied(gpus) {
		d := cgroup.Device{Major: int64(n.Major), Minor: int64(n.Minor)}
		if !slices.Contains(j.own.deny, d) {
			more = append(more, d)
		}
	}
	if len(more) == 0 {
		return nil
	}
	var err error
	if j.group != nil && !j.groupGone {
		err = cgroup.Deny(j.group, more)
	}
	// Tasks of the job that start later are kept from them, too, also after a restart.
	j.own.deny = append(slices.Clone(j.own.deny), more...)
	return errors.Join(err, j.writeOwn())
}
