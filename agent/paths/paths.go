// Package paths returns the default paths of an agent, of jobs without an agent, and of clients
// that look for an agent: the paths of the host for root, and those of the XDG Base Directory
// Specification for other users. It reads the environment and creates nothing.
//
// Other projects should not import this package: it may change at any time.
package paths

import (
	"os"
	"path/filepath"

	"github.com/execd-project/execd/agent/api"
)

// State returns the spool directory for jobs. home is the home directory if HOME is not set; if
// both are empty, ok is false.
func State(root bool, home string) (dir string, ok bool) {
	if root {
		return "/var/spool/execd", true
	}
	if dir, ok := variable("XDG_STATE_HOME"); ok {
		return filepath.Join(dir, "execd"), true
	}
	if dir, ok := variable("HOME"); ok {
		home = dir
	}
	return filepath.Join(home, ".local", "state", "execd"), filepath.IsAbs(home)
}

// Spool returns the spool area of an agent, in the directory State.
func Spool(root bool) (dir string, ok bool) {
	dir, ok = State(root, "")
	return filepath.Join(dir, "agent"), ok
}

// Socket returns the path of the socket of an agent with the given spool area.
func Socket(root bool, spool string) string {
	if root {
		return api.DefaultSocket
	}
	if dir, ok := runtimeDir(); ok {
		spool = dir
	}
	return filepath.Join(spool, socket)
}

// Conf is the configuration directory of a host, for a daemon of root.
const Conf = "/etc/execd/conf"

// Procedures is the file of the programs that a host runs as other users, see package procedures.
const Procedures = "/etc/execd/procedures"

// SocketVariable is the environment variable with the socket of the agent, for clients.
const SocketVariable = "EXECD_SOCKET"

// Sockets returns the paths at which an agent may listen; the first that exists counts. If
// SocketVariable is set, it is the only one. Otherwise they are the sockets of the caller's own
// agent, which may have been started with other variables than these, and the host's socket.
func Sockets(root bool) []string {
	if path := os.Getenv(SocketVariable); path != "" {
		return []string{path}
	}
	if root {
		return []string{api.DefaultSocket}
	}
	var all []string
	if dir, ok := runtimeDir(); ok {
		all = append(all, filepath.Join(dir, socket))
	}
	if spool, ok := Spool(root); ok {
		all = append(all, filepath.Join(spool, socket))
	}
	return append(all, api.DefaultSocket)
}

const socket = "agent.sock"

func runtimeDir() (string, bool) {
	dir, ok := variable("XDG_RUNTIME_DIR")
	return filepath.Join(dir, "execd"), ok
}

// variable returns the value of an environment variable if it is an absolute path.
func variable(name string) (string, bool) {
	dir := os.Getenv(name)
	return dir, filepath.IsAbs(dir)
}
