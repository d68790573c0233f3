package daemon

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/execd-project/execd/agent/audit"
	"github.com/execd-project/execd/agent/gridengine"
	"github.com/execd-project/execd/agent/gridengine/message"
	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/jobdir"
)

// joinCell finds out to which cell of Grid Engine this host belongs, and the name of the host there.
func (d *daemon) joinCell() error {
	var err error
	if d.cell, err = gridengine.OpenCell(os.Getenv); err != nil {
		return fmt.Errorf("--master gridengine: %w", err)
	}
	if d.sensorUser == "" && os.Getuid() == 0 {
		d.sensorUser = d.cell.AdminUser
	}
	if d.host == "" {
		if d.host, err = d.cell.OwnName(context.Background()); err != nil {
			return fmt.Errorf("--master gridengine: %w", err)
		}
	}
	return nil
}

// openLink opens the way to sge_qmaster.
func (d *daemon) openLink(shepherd string) error {
	users := userdb.System()
	me, err := users.UserID(uint32(os.Getuid()))
	if err != nil {
		return fmt.Errorf("--master gridengine: the user of this daemon: %w", err)
	}
	if me.Name != "root" && me.Name != d.cell.AdminUser {
		return fmt.Errorf("--master gridengine: sge_qmaster accepts only root and %s, and this daemon runs as %s", d.cell.AdminUser, me.Name)
	}
	d.link, err = gridengine.New(gridengine.Options{
		Cell: d.cell, Host: d.host, Cluster: d.agent.Cluster, Install: d.installFromMaster,
		BinaryPath: filepath.Dir(shepherd), Identity: message.Identity{UID: os.Getuid(), GID: os.Getgid(), User: me.Name, Group: users.GroupName(uint32(os.Getgid()))},
		Protocol: d.protocol, Release: &releaseFile{d.own}, GPUComplex: d.gpuComplex, Limited: d.limited, Executable: d.Executable, ShellOf: loginShell, UserOf: userName, Topology: launch.Tree, Log: d.logOf("gridengine"),
	})
	return err
}

// releaseFile is the file of the spool directory with the release of sge_qmaster.
type releaseFile struct{ dir *jobdir.Dir }

const releaseName = "qmaster_release"

func (r *releaseFile) Read() (string, error) {
	text, err := r.dir.ReadFile(releaseName)
	return string(text), err
}

func (r *releaseFile) Write(word string) error { return r.dir.WriteFile(releaseName, []byte(word)) }

// installFromMaster uses the configuration of sge_qmaster, and stores it for restarts without a
// connection.
func (d *daemon) installFromMaster(files map[string]string) error {
	return d.configuration.install(files, func() error {
		return d.useFor(reader{command: "configuration", caller: audit.Caller{Via: "gridengine"}})
	})
}

// userName returns the name of a user; empty where it is not known.
func userName(uid uint32) string {
	u, err := userdb.System().UserID(uid)
	if err != nil {
		return ""
	}
	return u.Name
}

// loginShell returns the login shell of a user; empty where it is not known.
func loginShell(name string) string {
	u, err := userdb.System().User(name)
	if err != nil {
		return ""
	}
	return u.Shell
}
