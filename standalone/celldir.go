package standalone

import (
	"cmp"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/execd-project/execd/agent/daemon"
	"github.com/execd-project/execd/cell/command"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/standalone/celldir"
)

// cellDir returns the directory that jobs find as SGE_ROOT, in the spool area.
func (m *Master) cellDir() string {
	return cmp.Or(m.host.CellDir, filepath.Join(m.host.Spool, "sge"))
}

// MakeCellDir makes the directory that jobs find as SGE_ROOT, and returns SGE_CELL.
func MakeCellDir(dir string, h *daemon.Host) (string, error) {
	return celldir.Cell, celldir.Make(dir, celldir.Contents{
		Host: h.Name, Socket: h.Socket, Accounting: h.Accounting, Executable: h.Executable,
		Library: drmaaLibrary(h.Executable), Arch: job.Arch(runtime.GOARCH), Commands: slices.Concat(command.Names(), []string{"qacct"}, slices.Sorted(maps.Keys(command.Absent))),
	})
}

// makeCellDir makes the directory that jobs find as SGE_ROOT. Unless the environment of the daemon
// contains SGE_ROOT already, makeCellDir sets SGE_ROOT and SGE_CELL there, and so for everything that
// the daemon starts: jobs, load sensors, verifiers. If the directory cannot be made, for example on a
// full disk, jobs still run.
func (m *Master) makeCellDir() {
	if m.host.CellDir != "" {
		return // root has made it
	}
	if _, err := MakeCellDir(m.cellDir(), m.host); err != nil {
		m.log.Warn("scripts may not find the directory of the cell", "error", err)
	}
	if os.Getenv("SGE_ROOT") != "" {
		return
	}
	for name, value := range map[string]string{"SGE_ROOT": m.cellDir(), "SGE_CELL": celldir.Cell} {
		if err := os.Setenv(name, value); err != nil {
			m.log.Warn("jobs do not get a variable", "name", name, "error", err)
		}
	}
}

// drmaaLibrary returns the path of the DRMAA library that belongs to an executable, or "" if there is none.
func drmaaLibrary(executable string) string {
	dir := filepath.Dir(executable)
	// In a build, in the packages, and below the prefix of make install.
	for _, place := range []string{".", "lib", "../lib/execd/lib"} {
		path := filepath.Join(dir, place, "libdrmaa.so.1.0")
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path
		}
	}
	return ""
}
