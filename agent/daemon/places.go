package daemon

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/trust"
)

// trustPlaces refuses directories for files of a daemon of root that other users could replace:
// they could hide accounting and audit records, and answer commands instead of the daemon. With a
// gpu-root that they could replace, they could choose the devices that jobs can open. The spool
// directory is checked when it is opened (jobdir.OpenSpool).
func (s *settings) trustPlaces() error {
	if os.Geteuid() != 0 {
		return nil
	}
	for _, place := range []struct {
		option, path string
		// exclusive says that the daemon refuses a file that others have made in a directory
		// like /tmp.
		exclusive bool
	}{
		{"accounting", s.accounting, true},
		{"audit", s.audit, false},
		{"socket", filepath.Dir(s.socket), true},
		{"gpu-root", filepath.Join(s.gpuRoot, "proc"), false},
	} {
		if place.path == "" || place.path == "/proc" {
			continue // a mount point: users cannot rename it, even where they may write into /
		}
		path, err := filepath.Abs(place.path)
		if err != nil {
			return err
		}
		err = trust.Users{}.CheckDirectory(filepath.Dir(path))
		e, ok := errors.AsType[*trust.Error](err)
		if ok && place.exclusive && e.At == e.Path && e.UID == 0 && e.Mode&unix.S_ISVTX != 0 {
			continue
		}
		if err != nil {
			return fmt.Errorf("--%s: %w", place.option, err)
		}
	}
	return nil
}

// trustFiles refuses certificates, keys and a token that another user can change: that user could
// decide who controls the agent. The agent checks the configuration each time it reads it.
func (s *settings) trustFiles() error {
	if s.frontUser != "" && !s.isFront() {
		return nil // the front reads them, as its user
	}
	for option, path := range map[string]string{
		"tls-cert": s.tlsCert, "tls-key": s.tlsKey, "tls-ca": s.tlsCA, "token-file": s.tokenFile,
	} {
		if path == "" {
			continue
		}
		path, err := filepath.Abs(path)
		if err != nil {
			return err
		}
		if err := trust.Own().Check(path); err != nil {
			return fmt.Errorf("--%s: %w", option, err)
		}
	}
	return nil
}
