package gridengine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Directories of Debian's packages. Inside a cell these are private copies.
const (
	sgeRoot  = "/var/lib/gridengine"
	spoolDir = "/var/spool/gridengine"
	shareDir = "/usr/share/gridengine" // of Debian's Grid Engine alone
)

// BinDir is a directory for programs of the test, visible to every process of the cell; see
// AddProgram.
const BinDir = "/home/cell/bin"

// The cell's users. They exist only in its own passwd and group files, so their IDs cannot conflict
// with those of the machine. All are members of group lab.
const (
	AliceUID = 2001
	BobUID   = 2002
	LabGID   = 2100
)

// userID returns the ID of the cell's i-th user and of the group of the same name.
func userID(i int) int { return AliceUID + i }

// prepare creates all files that init.sh mounts over the machine's own.
func (c *Cell) prepare(cfg Config) error {
	for dir, mode := range map[string]os.FileMode{
		"etc": 0o755, "home/cell/bin": 0o755, "home/cell/etc": 0o755, "tmp": 0o1777,
		"spool/execd": 0o755, "spool/spooldb": 0o755, "spool/qmaster/job_scripts": 0o755,
	} {
		if err := os.MkdirAll(filepath.Join(c.dir, dir), 0o755); err != nil {
			return err
		}
		// Mkdir applies the umask and ignores the sticky bit.
		if mode&0o1000 != 0 {
			mode = mode&0o777 | os.ModeSticky
		}
		if err := os.Chmod(filepath.Join(c.dir, dir), mode); err != nil {
			return err
		}
	}
	users := append([]string{"alice", "bob"}, cfg.Users...)
	uid, gid, err := c.accounts(users)
	if err != nil {
		return err
	}
	// otherhost has no daemon. It exists for requests that name two hosts.
	hosts := "127.0.0.1 localhost\n10.77.7.1 " + c.Host + "\n10.77.7.2 otherhost\n" + nodeAddresses(cfg.Nodes) + simulatedAddresses(cfg.Simulated)
	// Without this, names that are not in the files are looked up in the network.
	const nsswitch = "passwd: files\ngroup: files\nshadow: files\nhosts: files\nservices: files\nnetgroup: files\n"
	// Missing files in /etc would otherwise be those of the machine.
	const bashrc = "# Nothing: what a shell of the cell does must not depend on the machine.\n"
	err = errors.Join(c.write("etc/hosts", hosts), c.write("etc/nsswitch.conf", nsswitch), c.write("etc/bash.bashrc", bashrc), c.write("etc/profile", bashrc))
	if err != nil {
		return err
	}
	if err := c.install.prepare(filepath.Join(c.dir, "root")); err != nil {
		return err
	}
	if err := c.bootstrap(cfg); err != nil {
		return err
	}
	if cfg.Shepherd != "" {
		if err := c.AddProgram("sge_shepherd-go", cfg.Shepherd); err != nil {
			return err
		}
	}
	if cfg.Agent != "" {
		for _, name := range agentPrograms {
			if err := c.AddProgram(name, filepath.Join(cfg.Agent, name)); err != nil {
				return err
			}
		}
	}
	if len(cfg.Simulated) > 0 {
		if err := c.prepareSimulation(); err != nil {
			return err
		}
	}
	for i, name := range users {
		home := filepath.Join(c.dir, "home", name)
		if err := errors.Join(os.Mkdir(home, 0o755), os.Chmod(home, 0o755), os.Lchown(home, userID(i), userID(i))); err != nil {
			return err
		}
	}
	return errors.Join(
		chown(filepath.Join(c.dir, "spool"), uid, gid),
		chown(filepath.Join(c.dir, "root/default"), uid, gid))
}

// accounts writes the cell's passwd and group files: the machine's without people, and with the
// cell's users. It returns the IDs of Grid Engine's administrator, which the packages have created.
func (c *Cell) accounts(users []string) (uid, gid int, err error) {
	passwd, err := systemLines("/etc/passwd")
	if err != nil {
		return 0, 0, err
	}
	group, err := systemLines("/etc/group")
	if err != nil {
		return 0, 0, err
	}
	for _, f := range passwd {
		if f[0] == "sgeadmin" {
			uid, _ = strconv.Atoi(f[2])
			gid, _ = strconv.Atoi(f[3])
		}
	}
	if uid == 0 || gid == 0 {
		return 0, 0, errors.New("/etc/passwd has no user sgeadmin")
	}
	for i, name := range users {
		id, shell := strconv.Itoa(userID(i)), "/bin/sh"
		if name == "alice" {
			shell = "/bin/bash"
		}
		fullName := strings.ToUpper(name[:1]) + name[1:]
		passwd = append(passwd, []string{name, "x", id, id, fullName, "/home/" + name, shell})
		group = append(group, []string{name, "x", id, ""})
	}
	group = append(group, []string{"lab", "x", strconv.Itoa(LabGID), strings.Join(users, ",")})
	return uid, gid, errors.Join(c.write("etc/passwd", join(passwd)), c.write("etc/group", join(group)))
}

// systemLines reads the lines of a passwd or group file that describe no person: those with IDs
// below 1000, and nobody.
func systemLines(path string) ([][]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var lines [][]string
	for line := range strings.Lines(string(text)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), ":")
		if len(f) < 4 {
			continue
		}
		if id, err := strconv.Atoi(f[2]); err != nil || id >= 1000 && f[0] != "nobody" && f[0] != "nogroup" {
			continue
		}
		if len(f) == 4 {
			f[3] = "" // the members of a group may be people
		}
		lines = append(lines, f)
	}
	return lines, nil
}

func join(lines [][]string) string {
	var b strings.Builder
	for _, f := range lines {
		b.WriteString(strings.Join(f, ":") + "\n")
	}
	return b.String()
}

// bootstrap writes the files that the daemons read first.
func (c *Cell) bootstrap(cfg Config) error {
	text, err := c.install.bootstrap()
	if err != nil {
		return err
	}
	common := "root/default/common"
	for _, name := range []string{"accounting", "act_qmaster"} {
		if err := os.RemoveAll(filepath.Join(c.dir, common, name)); err != nil {
			return err
		}
	}
	// Debian's binary_path leads to shell wrappers, which triple the start time of a shepherd. The
	// programs themselves are one link further.
	settings := map[string]string{"binary_path": sgeRoot + "/bin"}
	if cfg.classic() {
		settings["spooling_method"], settings["spooling_lib"] = "classic", "libspoolc"
		settings["spooling_params"] = classicParams
	}
	if cfg.SecurityMode != "" {
		settings["security_mode"] = cfg.SecurityMode
	}
	if cfg.SecurityParams != "" {
		settings["security_params"] = cfg.SecurityParams
	}
	return errors.Join(
		c.write(common+"/bootstrap", edit(text, settings)),
		c.write(common+"/act_qmaster", c.Host+"\n"))
}

// classicParams are the directories of classic spooling.
const classicParams = sgeRoot + "/default/common;" + spoolDir + "/qmaster"

// write creates a file of the cell; name is relative to the cell's directory.
func (c *Cell) write(name, text string) error {
	return os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o644)
}

// AddProgram copies an executable of this machine to BinDir/name in the cell.
func (c *Cell) AddProgram(name, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return c.AddFile(BinDir+"/"+name, string(text), 0o755)
}

// AddFile writes a file below /home or /tmp of the cell. It belongs to alice in
// her home, else to root.
func (c *Cell) AddFile(path, text string, mode os.FileMode) error {
	name := c.Path(path)
	if name == path {
		return fmt.Errorf("cannot write %q: it is not the cell's own", path)
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(name, []byte(text), mode); err != nil {
		return err
	}
	if err := os.Chmod(name, mode); err != nil {
		return err
	}
	if strings.HasPrefix(path, "/home/alice/") {
		return os.Chown(name, AliceUID, AliceUID)
	}
	return nil
}

// chown changes the owner of a tree.
func chown(path string, uid, gid int) error {
	return filepath.WalkDir(path, func(name string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(name, uid, gid)
	})
}

// Owner returns the owner and the mode of a file as text, for comparisons.
func Owner(info os.FileInfo) string {
	st := info.Sys().(*syscall.Stat_t)
	return fmt.Sprintf("%v %d:%d", info.Mode(), st.Uid, st.Gid)
}
