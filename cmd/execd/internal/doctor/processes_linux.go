package doctor

import (
	"net"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/host/userdb"
)

// Process is a process of a running daemon.
type Process struct {
	PID          int    `json:"pid"`
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
		pid := server(path)
		if pid <= 0 {
			continue
		}
		p, parent, _, ok := readProcess(pid, users)
		if !ok {
			continue
		}
		p.Role = roleDaemon
		launcher, _, name, ok := readProcess(parent, users)
		if !ok || name != launcherName {
			return []Process{p}
		}
		p.Role, launcher.Role = roleFront, roleLauncher
		return []Process{p, launcher}
	}
	return nil
}

// server returns the process that serves a socket; 0 for none.
func server(path string) int {
	c, err := net.Dial("unix", path)
	if err != nil {
		return 0
	}
	defer c.Close()
	raw, err := c.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0
	}
	pid := 0
	_ = raw.Control(func(fd uintptr) {
		if peer, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			pid = int(peer.Pid)
		}
	})
	return pid
}

// readProcess returns a process with its parent and its name.
func readProcess(pid int, users userdb.Database) (p Process, parent int, name string, ok bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return p, 0, "", false
	}
	p.PID = pid
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch value = strings.TrimSpace(value); key {
		case "Name":
			name = value
		case "PPid":
			parent, _ = strconv.Atoi(value)
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
	return p, parent, name, true
}

// fact describes the process for people.
func (p *Process) fact() string {
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
