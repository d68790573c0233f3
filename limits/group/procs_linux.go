package group

import (
	"errors"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// PIDs lists the processes in the group and in the groups below it, which a job may create if it
// has the right. Zombies are omitted.
func (g *Group) PIDs() ([]int, error) {
	if len(g.paths.Dirs) == 0 {
		return nil, &NotSupportedError{"list the processes of the group", "a group", nil}
	}
	return pidsBelow(g.listDir(), nil, 0)
}

// listDir returns the directory from which processes are listed. All directories of the group list
// the same processes, unless processes have left a delegated v1 hierarchy.
func (g *Group) listDir() string {
	if g.paths.Unified != "" {
		return g.paths.Unified
	}
	if g.has(FreezerState) {
		return strings.TrimSuffix(g.paths.File[FreezerState], "/"+FreezerState.String())
	}
	return g.paths.Dirs[0]
}

// deepest limits the depth of the recursion, since a user may have created the groups.
const deepest = 64

func pidsBelow(dir string, pids []int, depth int) ([]int, error) {
	text, err := readFile(dir + "/" + Procs)
	switch {
	case err == nil:
		for f := range strings.FieldsSeq(text) {
			// 0 is a process outside this PID namespace.
			if pid, err := strconv.Atoi(f); err == nil && pid > 0 {
				pids = append(pids, pid)
			}
		}
	case gone(err):
		return pids, nil
	case !errors.Is(err, unix.EOPNOTSUPP):
		return pids, err
		// EOPNOTSUPP means a threaded group. The group above it lists its processes.
	}
	if depth == deepest {
		return pids, nil
	}
	below, err := subdirs(dir)
	if err != nil {
		return pids, err
	}
	for _, d := range below {
		if pids, err = pidsBelow(d, pids, depth+1); err != nil {
			return pids, err
		}
	}
	return pids, nil
}

// subdirs lists the groups in a group.
func subdirs(dir string) ([]string, error) {
	fd, err := open(dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		if gone(err) {
			return nil, nil
		}
		return nil, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	// A directory of the kernel has one link for each subdirectory, and two more.
	if unix.Fstat(fd, &st) == nil && st.Nlink == 2 {
		return nil, nil
	}
	var list []string
	b := make([]byte, 4096)
	for {
		n, err := unix.ReadDirent(fd, b)
		if err != nil {
			return list, &Error{"list", dir, err}
		}
		if n <= 0 {
			return list, nil
		}
		_, _, names := unix.ParseDirent(b[:n], -1, nil)
		for _, name := range names {
			err := unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW)
			if err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
				list = append(list, dir+"/"+name)
			}
		}
	}
}

// signal sends a signal to the processes that are in the group now.
func (g *Group) signal(sig unix.Signal) (int, error) {
	pids, err := g.PIDs()
	if err != nil {
		return 0, err
	}
	// Each process in a batch needs an open descriptor until its number was checked again.
	const batch = 128
	sent := 0
	for len(pids) > 0 {
		n := min(batch, len(pids))
		m, err := g.signalThese(pids[:n], sig)
		sent += m
		if err != nil {
			return sent, err
		}
		pids = pids[n:]
	}
	return sent, nil
}

// signalThese signals processes that were in the group when they were listed. A process may have
// exited since, and the kernel may have reused its number for a process outside. A pidfd refers to
// one process: if its number is still in the group after the pidfd was opened, the process belongs
// to the group.
func (g *Group) signalThese(pids []int, sig unix.Signal) (int, error) {
	var batch []held
	defer func() {
		for _, h := range batch {
			_ = unix.Close(h.fd)
		}
	}()
	for _, pid := range pids {
		fd, err := unix.PidfdOpen(pid, 0)
		switch {
		case err == nil:
			batch = append(batch, held{pid, fd})
		case errors.Is(err, unix.ESRCH):
		default:
			// ENOSYS before Linux 5.3, EMFILE with many open files. A process of the group must not
			// survive for these reasons.
			_ = unix.Kill(pid, sig)
		}
	}
	now, err := g.PIDs()
	if err != nil {
		return 0, err
	}
	there := make(map[int]bool, len(now))
	for _, pid := range now {
		there[pid] = true
	}
	sent := len(pids) - len(batch)
	for _, h := range batch {
		if there[h.pid] && unix.PidfdSendSignal(h.fd, sig, nil, 0) == nil {
			sent++
		}
	}
	return sent, nil
}

type held struct{ pid, fd int }

// Left describes the processes that remain in the group.
func (g *Group) Left() ([]Process, error) {
	pids, err := g.PIDs()
	var list []Process
	for _, pid := range pids {
		// stat could wait for as long as the process likes: see package process.
		text, err := readFile("/proc/" + strconv.Itoa(pid) + "/status")
		if err != nil {
			continue
		}
		list = append(list, parseStatus(pid, text))
	}
	return list, err
}

// parseStatus reads name and state from /proc/PID/status. The name cannot contain the end of a line.
func parseStatus(pid int, text string) Process {
	p := Process{PID: pid}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":\t")
		switch {
		case key == "Name":
			p.Name = value
		case key == "State" && value != "":
			p.State = value[0]
			return p
		}
	}
	return p
}
