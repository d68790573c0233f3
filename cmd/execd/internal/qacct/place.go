package qacct

import (
	"os"
	"path/filepath"

	"github.com/execd-project/execd/agent/paths"
)

// systemFile is the accounting file of the host's daemon.
const systemFile = "/var/spool/execd/agent/accounting"

// FileVariable is the environment variable that names the accounting file.
const FileVariable = "EXECD_ACCOUNTING"

// DefaultFile returns the accounting file named in the environment, otherwise that of the caller's
// own daemon if it exists, otherwise that of the host. The paths are the defaults of execd agent
// and execd standalone.
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
