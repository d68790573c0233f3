package group

import (
	"golang.org/x/sys/unix"
)

// A Group is the open group of a job.
type Group struct {
	paths *Paths
	// fds are the descriptors of files that are read repeatedly or polled; -1 for none.
	fds [NumFiles]int
	// oom is the eventfd that v1 signals when memory runs out; -1 for none.
	oom int
	// alarm is the eventfd of Alarm; -1 for none.
	alarm int
	// stopped is set after forks were disabled in order to kill the group. refused is the number of
	// forks refused until then, and limit is the content of pids.max at that time.
	stopped bool
	refused Refusals
	limit   string
	buf     [4096]byte
}

// kept lists the files that stay open while the job runs.
var kept = [...]File{
	CPUStat, CPUAcctUsage, MemoryCurrent, MemorySwapCurrent, MemoryUsage, MemoryMemswUsage,
	MemoryEvents, CgroupEvents, IOPressure,
}

// Open opens the group of a job. A file that has a path and cannot be opened is an error, because
// it existed when the group was made.
func Open(p *Paths) (*Group, error) {
	g := &Group{paths: p, oom: -1, alarm: -1}
	for f := range g.fds {
		g.fds[f] = -1
	}
	for _, f := range kept {
		if p.File[f] == "" {
			continue
		}
		fd, err := open(p.File[f], unix.O_RDONLY)
		if err != nil {
			g.Close()
			return nil, err
		}
		g.fds[f] = fd
	}
	g.listen()
	return g, nil
}

// Paths returns the paths with which the group was opened.
func (g *Group) Paths() *Paths { return g.paths }

// Close closes the descriptors of g. The group itself stays.
func (g *Group) Close() {
	for f, fd := range g.fds {
		if fd >= 0 {
			_ = unix.Close(fd)
			g.fds[f] = -1
		}
	}
	for _, fd := range []*int{&g.oom, &g.alarm} {
		if *fd >= 0 {
			_ = unix.Close(*fd)
			*fd = -1
		}
	}
}

// Entry is an open file cgroup.procs, or tasks on v1. A process with one thread enters the group by
// writing "0" to the descriptor. The kernel checks the rights of the process that opened the file
// (since Linux 5.16; before that it checks the writer, which is still root here).
type Entry struct {
	FD   int
	Path string
	// Dir is the descriptor of a v2 group's directory, for CLONE_INTO_CGROUP (clone3(2)); -1 for a
	// v1 group.
	Dir int
}

// Entries opens the group in each hierarchy. A process is in the group after it has used all of them.
// The caller closes them with CloseEntries after it has started the child.
func (g *Group) Entries() ([]Entry, error) {
	var entries []Entry
	for _, dir := range g.paths.Dirs {
		path := dir + "/" + Tasks
		if dir == g.paths.Unified {
			path = dir + "/" + Procs
		}
		fd, err := open(path, unix.O_WRONLY)
		if err != nil {
			CloseEntries(entries)
			return nil, err
		}
		entry := Entry{fd, path, -1}
		if dir == g.paths.Unified {
			if entry.Dir, err = open(dir, unix.O_PATH|unix.O_DIRECTORY); err != nil {
				entry.Dir = -1 // cgroup.procs is used instead
			}
		}
		entries = append(entries, entry)
	}
	return entries, nil
}

// CloseEntries closes the descriptors of Entries.
func CloseEntries(entries []Entry) {
	for _, d := range entries {
		_ = unix.Close(d.FD)
		if d.Dir >= 0 {
			_ = unix.Close(d.Dir)
		}
	}
}

// read returns the content of a file, from the open descriptor if there is one.
func (g *Group) read(f File) (string, error) {
	if fd := g.fds[f]; fd >= 0 {
		text, err := pread(fd, g.buf[:])
		if err != nil {
			return "", &Error{"read", g.paths.File[f], err}
		}
		return text, nil
	}
	return readFile(g.paths.File[f])
}

// number returns the number in a file.
func (g *Group) number(f File) (uint64, error) {
	text, err := g.read(f)
	if err != nil {
		return 0, err
	}
	n, err := number(text)
	if err != nil {
		return 0, &Error{"read", g.paths.File[f], err}
	}
	return n, nil
}

func (g *Group) has(f File) bool { return g.paths.File[f] != "" }
