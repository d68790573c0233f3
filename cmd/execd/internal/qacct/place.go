package qacct

import (
	"os"
	"path/filepath"

	"github.com/execd-project/execd/agent/paths"
)

// systemFile is where the daemon of a host keeps its records.
const systemFile = "/var/spool/execd/agent/accounting"

// FileVariable names the file in the environment.
const FileVariable = "EXECD_ACCOUNTING"

// DefaultFile returns the accounting file that the environment names, or else that of a daemon
// of the caller's own, if there is one, or else that of the host. The places are those of
// execd agent and execd standalone where they are told no others.
func DefaultFile() string {
	if file := os.Getenv(FileVariable); file != "" {
		return file
	}
	if socket := os.Getenv(paths.SocketVariable); socket != "" {
		file := filepath.Join(filepath.Dir(socket), "accounting")
		if _, err := os.Stat(file); err == nil {
			return file
		}
	}
	if os.Getuid() == 0 {
		return systemFile
	}
	state := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) {
		state = filepath.Join(os.Getenv("HOME"), ".local", "state")
	}
	own := filepath.Join(state, "execd", "agent", "accounting")
	if _, err := os.Stat(own); err == nil && filepath.IsAbs(own) {
		return own
	}
	return systemFile
}
