package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/execd-project/execd/agent/paths"
	"github.com/execd-project/execd/internal/host/procedures"
	"github.com/execd-project/execd/loadsensor"
)

// readProcedures finds the file that lists the programs which the master may run as other users,
// and refuses an invalid one. A master in this process needs none, because its configuration comes
// from root.
func (s *settings) readProcedures(root bool) error {
	required := s.procedures != ""
	switch {
	case required:
		var err error
		if s.procedures, err = filepath.Abs(s.procedures); err != nil {
			return err
		}
		if _, err := os.Stat(s.procedures); err != nil {
			return fmt.Errorf("--procedures: %w", err)
		}
	case root && !s.ownMaster:
		s.procedures = paths.Procedures
	default:
		return nil
	}
	s.permitted, s.proceduresRequired = procedures.NewFile(s.procedures, required), required
	_, err := s.permitted.Read()
	return err
}

// permit refuses a program that the master of this host may not run as a user. It reads the file
// each time, because it is short, and so a change counts at once. While the file cannot be read, no
// program runs as another user.
func (d *daemon) permit(user, command string) error {
	if d.permitted == nil {
		return nil
	}
	list, err := d.permitted.Read()
	if err != nil {
		return err
	}
	return list.Permit(user, command)
}

// limited reports whether the host has the file, or may have one.
func (d *daemon) limited() bool {
	if d.permitted == nil {
		return false
	}
	list, err := d.permitted.Read()
	return list != nil || err != nil
}

// permittedSensors leaves out the load sensors that may not run as their user.
func (d *daemon) permittedSensors(s loadsensor.Settings) []string {
	return slices.DeleteFunc(slices.Clone(s.Sensors), func(path string) bool {
		err := d.permit(s.User, path)
		if err == nil {
			return false
		}
		if _, again := d.said.LoadOrStore("load_sensor "+err.Error(), true); !again {
			d.logOf("load").Error("a load sensor is not run", "path", path, "error", err)
		}
		return true
	})
}
