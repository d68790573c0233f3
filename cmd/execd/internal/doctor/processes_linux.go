package doctor

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/agent/paths"
	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/internal/submission/claim"
	"github.com/execd-project/execd/limits/process"
)

// Process is a process of a running daemon.
type Process struct {
	PID          int    `json:"pid"`  // 0 for a launcher that is not running
	Role         string `json:"role"` // daemon, or front or launcher of a daemon with --front-user
	User         string `json:"user"` // name, or the user ID without a name
	Capabilities bool   `json:"capabilities"`
	NoNewPrivs   bool   `json:"no_new_privs"`
	Seccomp      bool   `json:"seccomp"` // system calls are filtered
}

// The roles.
const (
	roleDaemon   = "daemon"
	roleFront    = "front"
	roleLauncher = "launcher"
)

// launcherName is the name of a launcher's process.
const launcherName = "execd-launcher"

// findProcesses returns the processes of the daemon that serves the first of some sockets that a daemon serves; none
// if there is no daemon.
func findProcesses(sockets []string, users userdb.Database) []Process {
	for _, path := range sockets {
		pid := server(path, unix.SOCK_STREAM)
		if pid <= 0 {
			continue
		}
		p, _, ok := readProcess(pid, users)
		if !ok {
			continue
		}
		p.Role = roleDaemon
		spool, ok := frontSpool(pid)
		if !ok {
			return []Process{p}
		}
		p.Role = roleFront
		// The launcher is not always the parent: either process may have been started again alone.
		launcher, name, ok := readProcess(server(filepath.Join(spool, claim.SocketName), unix.SOCK_SEQPACKET), users)
		if !ok || name != launcherName {
			launcher, _ = launcherOf(spool, users) // that of an agent has no socket for users
		}
		launcher.Role = roleLauncher
		return []Process{p, launcher}
	}
	return nil
}

// frontSpool returns the spool directory of a front, from its options; ok is false for a process that is none.
func frontSpool(pid int) (dir string, ok bool) {
	text := commandLine(pid)
	if text == "" {
		return "", false
	}
	dir, _ = paths.Spool(true)
	words := strings.Split(text, "\x00")
	for i, word := range words {
		if !strings.HasPrefix(word, "-") {
			continue
		}
		name, value, joined := strings.Cut(strings.TrimLeft(word, "-"), "=")
		if !joined && i+1 < len(words) {
			value = words[i+1]
		}
		switch name {
		case "front-user":
			ok = true
		case "spool":
			dir = value
		}
	}
	return dir, ok
}

// commandLine returns the words of a process, each with a NUL behind it. It is empty if they cannot be read: they are in
// memory of the process, which can hold up the kernel.
func commandLine(pid int) string {
	var text []byte
	if process.InTime(pid, func() { text, _ = os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline") }) != nil {
		return ""
	}
	return string(text)
}

// launcherOf finds the launcher that uses a spool directory. It is a process of root, so no user can imitate it.
func launcherOf(spool string, users userdb.Database) (p Process, ok bool) {
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range all {
		pid, err := strconv.Atoi(filepath.Base(dir))
		var info unix.Stat_t
		if err != nil || unix.Stat(dir, &info) != nil || info.Uid != 0 {
			continue
		}
		p, name, ok := readProcess(pid, users)
		if ok && name == launcherName && strings.Contains(commandLine(pid), "\x00--spool\x00"+spool+"\x00") {
			return p, true
		}
	}
	return Process{}, false
}

// server returns the process that serves a socket of a type; 0 for none.
func server(path string, kind int) (pid int) {
	fd, err := unix.Socket(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return 0
	}
	defer unix.Close(fd)
	if claim.At(path, func(short string) error { return unix.Connect(fd, &unix.SockaddrUnix{Name: short}) }) != nil {
		return 0
	}
	peer, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return 0
	}
	return int(peer.Pid)
}

// readProcess returns a process with its name.
func readProcess(pid int, users userdb.Database) (p Process, name string, ok bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return p, "", false
	}
	p.PID = pid
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch value = strings.TrimSpace(value); key {
		case "Name":
			name = value
		case "Uid":
			if fields := strings.Fields(value); len(fields) > 1 {
				p.User = fields[1] // the effective one
			}
		case "CapEff":
			p.Capabilities = strings.Trim(value, "0") != ""
		case "NoNewPrivs":
			p.NoNewPrivs = value == "1"
		case "Seccomp":
			p.Seccomp = value == "2"
		}
	}
	if uid, err := strconv.ParseUint(p.User, 10, 32); err == nil {
		if u, err := users.UserID(uint32(uid)); err == nil {
			p.User = u.Name
		}
	}
	return p, name, true
}

// fact describes the process for people.
func (p *Process) fact() string {
	if p.PID == 0 {
		return p.Role + ": is not running; jobs go on, and none starts until it is started again"
	}
	is := []string{}
	add := func(is *[]string, holds bool, yes, no string) {
		if holds {
			*is = append(*is, yes)
		} else {
			*is = append(*is, no)
		}
	}
	add(&is, p.Capabilities, "with capabilities", "without capabilities")
	add(&is, p.NoNewPrivs, "cannot gain rights (NoNewPrivs)", "can gain rights")
	add(&is, p.Seccomp, "system calls filtered (seccomp)", "all system calls")
	return p.Role + ": process " + strconv.Itoa(p.PID) + " runs as " + p.User + ", " + strings.Join(is, ", ")
}
