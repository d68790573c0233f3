package store

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// lockedError names the process that has locked the file, if proc_locks(5) lists it. Processes of
// other namespaces are not listed, and on some file systems the inode numbers differ.
func lockedError(path string) error {
	e := &LockedError{Path: path}
	var st unix.Stat_t
	locks, err := os.ReadFile("/proc/locks")
	if err != nil || unix.Stat(path, &st) != nil {
		return e
	}
	id := fmt.Sprintf("%02x:%02x:%d", unix.Major(st.Dev), unix.Minor(st.Dev), st.Ino)
	for line := range strings.Lines(string(locks)) {
		// 1: FLOCK  ADVISORY  WRITE 1234 08:01:131090 0 EOF
		words := strings.Fields(line)
		if len(words) < 6 || words[1] != "FLOCK" || words[5] != id {
			continue
		}
		pid, err := strconv.Atoi(words[4])
		if err != nil || pid <= 0 {
			continue
		}
		e.PID, e.Name = pid, "which has ended since"
		if name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); err == nil {
			e.Name = strings.TrimSpace(string(name))
		}
		return e
	}
	return e
}
