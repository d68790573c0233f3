package group

import (
	"errors"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// PIDs lists the processes in the group and in groups below it, which a job may
// have made where it has the right to. Zombies are not among them.
func (g *Group) PIDs() ([]int, error) {
	if len(g.paths.Dirs) == 0 {
		return nil, &NotSupportedError{"list the processes of the group", "a group", nil}
	}
	return pidsBelow(g.listDir(), nil, 0)
}

// listDir returns the directory that is asked for processes. In all of them there are
// the same, unless a delegated v1 hierarchy has let some out.
func (g *Group) listDir() string {
	if g.paths.Unified != "" {
		return g.paths.Unified
	}
	if g.has(FreezerState) {
		return strings.TrimSuffix(g.paths.File[FreezerState], "/"+FreezerState.String())
	}
	return g.paths.Dirs[0]
}

// deepest bounds the recursion into what a user has made.
const deepest = 64

func pidsBelow(dir string, pids []int, depth int) ([]int, error) {
	text, err := readFile(dir + "/" + Procs)
	switch {
	case err == nil:
		for f := range strings.FieldsSeq(text) {
			// 0 is a process outside of our PID namespace.
			if pid, err := strconv.Atoi(f); err == nil && pid > 0 {
				pids = append(pids, pid)
			}
		}
	case gone(err):
		return pids, nil
	case !errors.Is(err, unix.EOPNOTSUPP):
		return pids, err
		// EOPNOTSUPP: a threaded group. Its processes are listed further up.
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
	// Directories of the kernel's have a link for each one in them, and two more.
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
	// Few at a time: each is an open descriptor until it has been looked whether
	// the number still is that of a process in the group.
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

// signalThese signals processes that have been in the group. Any of them may have
// ended and its number been given to a stranger; a pidfd holds on to one process,
// and if its number is in the group after it was opened, then it is the group's.
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
			// ENOSYS before Linux 5.3, EMFILE when there are many: a process
			// of the group must not live on because of that.
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

// Left describes the processes that are in the group.
func (g *Group) Left() ([]Process, error) {
	pids, err := g.PIDs()
	var list []Process
	for _, pid := range pids {
		text, err := readFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil {
			continue
		}
		list = append(list, parseStat(pid, text))
	}
	return list, err
}

// parseStat reads name and state from /proc/PID/stat. The name is in parentheses
// and may hold anything, these included.
func parseStat(pid int, text string) Process {
	p := Process{PID: pid}
	from, to := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	if from < 0 || to < from {
		return p
	}
	p.Name = text[from+1 : to]
	if rest := strings.TrimSpace(text[to+1:]); rest != "" {
		p.State = rest[0]
	}
	return p
}
