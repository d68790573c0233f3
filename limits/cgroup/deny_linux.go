package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/containerd/cgroups/v3/cgroup2"
	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/limits/group"
)

// ErrNoFilter means that the group of a job has no device filter, to which devices could be added.
var ErrNoFilter = errors.New("its control group was made without a device filter")

// Deny adds devices to the ones that the processes of an existing group may not open. Devices that
// are open stay open. The groups below it are restricted, too.
func Deny(p *group.Paths, devices []Device) error {
	if len(devices) == 0 {
		return nil
	}
	for _, dir := range p.Dirs {
		if dir == p.Unified {
			continue
		}
		for i, r := range rules(devices)[1:] { // the first rule allows all
			err := writeFile(filepath.Join(dir, "devices.deny"), fmt.Sprintf("%s %s:%s rwm", r.Type, number(*r.Major), number(*r.Minor)))
			if i == 0 && errors.Is(err, fs.ErrNotExist) {
				break // of another controller
			}
			if err != nil {
				return err
			}
			if i == len(devices)-1 {
				return nil
			}
		}
	}
	if p.Unified == "" {
		return ErrNoFilter
	}
	insts, license, err := cgroup2.DeviceFilter(rules(devices))
	if err != nil {
		return err
	}
	fd, err := unix.Open(p.Unified, unix.O_DIRECTORY|unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	// All programs of a group must allow an access (bpf(2), BPF_F_ALLOW_MULTI).
	_, err = cgroup2.LoadAttachCgroupDeviceFilter(insts, license, fd)
	return err
}

// number returns a number of a device for devices.deny.
func number(n int64) string {
	if n < 0 {
		return "*"
	}
	return itoa(int(n))
}
