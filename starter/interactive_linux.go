package starter

import (
	"errors"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/job"
)

// handOver replaces this process with the original shepherd for a job of qrsh, qlogin or qsh, or
// for a task of a parallel job: these use the original's own protocol to talk to their client. It
// returns only if that is not possible.
func handOver(d *job.Description) error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0); err != nil {
		return err
	}
	var tried []string
	for _, path := range originalShepherds() {
		var st unix.Stat_t
		if unix.Stat(path, &st) != nil || st.Uid != 0 || st.Mode&0o022 != 0 || st.Mode&0o111 == 0 {
			tried = append(tried, path)
			continue
		}
		err := unix.Exec(path, []string{"sge_shepherd-" + itoa(d.ID.Job), "-bg"}, syscall.Environ())
		tried = append(tried, path+": "+err.Error())
	}
	return errors.New("interactive jobs are left to the original shepherd, which was not found: " + strings.Join(tried, ", "))
}

// originalShepherds returns the paths where the original shepherd may be. It does not use the job's
// SGE_BINARY_PATH, which the user may have chosen.
func originalShepherds() []string {
	var list []string
	if dir := binaryPath(newEnvironment(syscall.Environ())); dir != "" {
		list = append(list, dir+"/sge_shepherd", dir[:strings.LastIndexByte(dir, '/')]+"/sge_shepherd")
	}
	return append(list, "/usr/lib/gridengine/sge_shepherd")
}
