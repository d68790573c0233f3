package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/limits/cgroup"
	"github.com/execd-project/execd/qconf"
)

// denied returns the devices that match patterns and have not been granted. It compares devices,
// not names, so that a second name of a device does not open it.
func denied(patterns, granted []string) ([]cgroup.Device, error) {
	if len(patterns) == 0 {
		return nil, nil
	}
	var allowed, list []cgroup.Device
	for _, path := range granted {
		d, ok, err := device(path)
		if err == nil && !ok {
			err = errors.New("it is not a device")
		}
		if err != nil {
			return nil, fmt.Errorf("cannot grant the device %q: %w", path, err)
		}
		allowed = append(allowed, d)
	}
	for _, pattern := range patterns {
		names, err := qconf.ExpandRanges(pattern)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			paths, err := filepath.Glob(name)
			if err != nil {
				return nil, fmt.Errorf("cannot use the pattern %q: %w", pattern, err)
			}
			for _, path := range paths {
				d, ok, err := device(path)
				if err != nil && !errors.Is(err, fs.ErrNotExist) {
					return nil, fmt.Errorf("cannot deny the job the device %q: %w", path, err)
				}
				if ok && !slices.Contains(allowed, d) && !slices.Contains(list, d) {
					list = append(list, d)
				}
			}
		}
	}
	return list, nil
}

// device returns which device a file is, if it is one.
func device(path string) (cgroup.Device, bool, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return cgroup.Device{}, false, err
	}
	d := cgroup.Device{
		Block: st.Mode&unix.S_IFMT == unix.S_IFBLK,
		Major: int64(unix.Major(st.Rdev)), Minor: int64(unix.Minor(st.Rdev)),
	}
	return d, d.Block || st.Mode&unix.S_IFMT == unix.S_IFCHR, nil
}
