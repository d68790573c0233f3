package daemon

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"path/filepath"

	"github.com/execd-project/execd/agent/audit"
	"github.com/execd-project/execd/agent/gridengine"
	"github.com/execd-project/execd/agent/gridengine/message"
	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/internal/host/userdb"
)

// joinCell finds out which cell of Grid Engine this host belongs to, and how it is called
// there.
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
	me, err := user.Current()
	if err != nil {
		return err
	}
	if me.Username != "root" && me.Username != d.cell.AdminUser {
		return fmt.Errorf("--master gridengine: sge_qmaster talks to root and %s alone, and this is %s", d.cell.AdminUser, me.Username)
	}
	group := me.Gid
	if g, err := user.LookupGroupId(me.Gid); err == nil {
		group = g.Name
	}
	d.link, err = gridengine.New(gridengine.Options{
		Cell: d.cell, Host: d.host, Cluster: d.agent.Cluster, Install: d.installFromMaster,
		BinaryPath: filepath.Dir(shepherd), Identity: message.Identity{UID: os.Getuid(), GID: os.Getgid(), User: me.Username, Group: group},
		Protocol: d.protocol, GPUComplex: d.gpuComplex, Limited: d.limited, Executable: d.Executable, ShellOf: loginShell, Topology: launch.Tree, Log: d.logOf("gridengine"),
	})
	return err
}

// installFromMaster uses the configuration of sge_qmaster, and stores it for restarts without a
// connection.
func (d *daemon) installFromMaster(files map[string]string) error {
	return d.configuration.install(files, func() error {
		return d.useFor(reader{command: "configuration", caller: audit.Caller{Via: "gridengine"}})
	})
}

// loginShell returns the login shell of a user; empty where it is not known.
func loginShell(name string) string {
	u, err := userdb.System().User(name)
	if err != nil {
		return ""
	}
	return u.Shell
}
