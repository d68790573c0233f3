package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// A process holds what /proc says about a process, in a form that is the same in each run. In the probe's
// own entry, the soft limit of open files and the ignored signals are those of the Go runtime, which
// changes them; the entries of its ancestors show the real values. Blocked signals are reported only for
// the probe, because shells temporarily block all of them.
type process struct {
	Argv    []string
	Environ []string // sorted; duplicates kept
	Exe     string
	Cwd     string
	Session string // "own" for a leader, otherwise the place of the leader among the ancestors
	Group   string
	TTY     bool
	Nice    string
	Policy  string            // scheduling policy, a number
	OOM     string            // oom_score_adj
	Status  map[string]string // the lines of /proc/PID/status that are in kept
	Limits  map[string]string
	FDs     map[string]string // number -> flags and target

	pid, ppid, pgrp, sid int
	comm                 string
}

// kept lists the lines of /proc/PID/status that a shepherd can influence.
var kept = []string{
	"Umask", "Uid", "Gid", "Groups", "SigBlk", "SigIgn", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb",
	"NoNewPrivs", "Seccomp", "Cpus_allowed_list", "Mems_allowed_list",
}

// ancestry reads pid and its ancestors up to the first one whose name begins with sge_shep, which
// is included, or to process 1, which is not. It ignores the probe's own name, since the probe may
// be installed under any name.
func ancestry(pid int) ([]process, error) {
	var chain []process
	for p := pid; p > 1; {
		next, err := read(p)
		if err != nil {
			return nil, err
		}
		chain = append(chain, next)
		if len(chain) > 1 && strings.HasPrefix(next.comm, "sge_shep") {
			break
		}
		p = next.ppid
	}
	for i := range chain {
		chain[i].Session = relation(chain, i, chain[i].sid)
		chain[i].Group = relation(chain, i, chain[i].pgrp)
	}
	return chain, nil
}

// relation describes a process ID as seen from chain[i]: its own, that of a process of the chain, or another.
func relation(chain []process, i, id int) string {
	if chain[i].pid == id {
		return "own"
	}
	if n := slices.IndexFunc(chain, func(p process) bool { return p.pid == id }); n >= 0 {
		return fmt.Sprintf("of process %d", n)
	}
	return "of another"
}

// read reads one process. If a value may not be read (another user's descriptors), the report
// contains the error instead, which can be compared as well.
func read(pid int) (process, error) {
	dir := fmt.Sprintf("/proc/%d", pid)
	own := pid == os.Getpid()
	p := process{pid: pid, FDs: fds(dir, own), Status: map[string]string{}, Limits: map[string]string{}}
	stat, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return p, err
	}
	if err := p.parseStat(string(stat)); err != nil {
		return p, err
	}
	p.Argv = zeroSeparated(dir + "/cmdline")
	p.Environ = zeroSeparated(dir + "/environ")
	slices.Sort(p.Environ)
	p.Exe, p.Cwd = link(dir+"/exe"), link(dir+"/cwd")
	p.OOM = strings.TrimSpace(text(dir + "/oom_score_adj"))
	for line := range strings.Lines(text(dir + "/status")) {
		key, value, _ := strings.Cut(line, ":")
		untrue := key == "SigIgn" && own || key == "SigBlk" && !own
		if slices.Contains(kept, key) && !untrue {
			p.Status[key] = strings.Join(strings.Fields(value), " ")
		}
	}
	for line := range strings.Lines(text(dir + "/limits")) {
		// "Max cpu time              unlimited            unlimited            seconds"
		if len(line) > 26 && strings.HasPrefix(line, "Max ") {
			p.Limits[strings.TrimSpace(line[4:26])] = strings.Join(strings.Fields(line[26:]), " ")
		}
	}
	return p, nil
}

// parseStat reads proc_pid_stat(5). The name is in parentheses and may contain blanks and
// parentheses itself, so the fields are counted from the last parenthesis.
func (p *process) parseStat(line string) error {
	open, end := strings.IndexByte(line, '('), strings.LastIndexByte(line, ')')
	if open < 0 || end < open {
		return fmt.Errorf("cannot read stat line %q", line)
	}
	p.comm = line[open+1 : end]
	f := strings.Fields(line[end+1:]) // f[0] is field 3
	if len(f) < 39 {
		return fmt.Errorf("cannot read stat line %q: %d fields", line, len(f))
	}
	for i, to := range map[int]*int{1: &p.ppid, 2: &p.pgrp, 3: &p.sid} {
		n, err := strconv.Atoi(f[i])
		if err != nil {
			return fmt.Errorf("cannot read stat line %q: %w", line, err)
		}
		*to = n
	}
	p.TTY, p.Nice, p.Policy = f[4] != "0", f[16], f[38]
	return nil
}

// fds lists the open descriptors with their flags. The probe's own list omits descriptors with
// close-on-exec: exec closed all that existed at the start, so these belong to the probe itself
// (the runtime keeps cgroup files open, for example).
func fds(dir string, own bool) map[string]string {
	const cloexec = syscall.O_CLOEXEC
	list := map[string]string{}
	names, err := os.ReadDir(dir + "/fd")
	if err != nil {
		list["error"] = problem(err)
	}
	for _, n := range names {
		target, err := os.Readlink(dir + "/fd/" + n.Name())
		if errors.Is(err, fs.ErrNotExist) {
			continue // closed in the meantime
		}
		flags := 0
		for line := range strings.Lines(text(dir + "/fdinfo/" + n.Name())) {
			if rest, ok := strings.CutPrefix(line, "flags:"); ok {
				f, _ := strconv.ParseInt(strings.TrimSpace(rest), 8, 32)
				flags = int(f)
			}
		}
		if own && flags&cloexec != 0 {
			continue
		}
		// A pipe has a new inode number in each run.
		kind, _, _ := strings.Cut(target, ":[")
		list[n.Name()] = fmt.Sprintf("%#o %s", flags, kind)
	}
	return list
}

// describe returns a file's type, mode and owner, not its name.
func describe(info fs.FileInfo, err error) string {
	if err != nil {
		return problem(err)
	}
	st := info.Sys().(*syscall.Stat_t)
	return fmt.Sprintf("%v %d:%d", info.Mode(), st.Uid, st.Gid)
}

func zeroSeparated(path string) []string {
	s := strings.TrimSuffix(text(path), "\x00")
	if s == "" {
		return nil
	}
	return strings.Split(s, "\x00")
}

func text(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return problem(err)
	}
	return string(b)
}

func link(path string) string {
	target, err := os.Readlink(path)
	if err != nil {
		return problem(err)
	}
	return filepath.Clean(target)
}

// problem returns an error without the file name, which may contain a process ID.
func problem(err error) string {
	if perr, ok := errors.AsType[*fs.PathError](err); ok {
		err = perr.Err
	}
	return "error: " + err.Error()
}
