package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/agent"
	"github.com/execd-project/execd/agent/launcher"
	"github.com/execd-project/execd/internal/failpoint"
	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/internal/printer"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/qconf"
)

// Confirmed is a job with the digest of what its owner has submitted, under a key.
type Confirmed struct {
	Job                int
	Owner, Key, Digest string
}

// The file agent.FileNumbers of a spool directory says which daemon it belongs to. With one process it is a number. With
// two it is one of these texts: every daemon of one process, also one of an earlier version, refuses them, and shows them.
const (
	dividing = "execd is dividing this directory for two processes: start execd with --front-user again\n"
	divided  = "this directory is for execd with two processes: start it with --front-user, or name another one with --spool\n"
)

// launchers are the files of a spool directory that remain root's with two processes; all others are the front's.
var launchers = []string{
	agent.FileNumbers, "active_jobs", "job_scripts", "jobseqnum", cellDir, gpuFile, "submissions", frontDir, "launcher-audit", "launcher.sock",
	"submissions.sock", "lost+found",
}

// divide makes the spool directory of a daemon of one process one for two: the front gets its files. Each step can be
// repeated, and the file agent.FileNumbers says how far it has come. Running jobs are not affected: their directories
// remain root's.
func (c *Command) divide(s *settings, user *userdb.User, spool *jobdir.Spool, cluster *qconf.Cluster) error {
	dir := spool.Dir()
	state, err := dir.ReadFile(agent.FileNumbers)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return dir.WriteDurably(agent.FileNumbers, []byte(divided)) // a new directory
	case err != nil:
		return err
	case string(state) == divided:
		return nil
	}
	if err := lockFor(dir, s.spool); err != nil {
		return err
	}
	front := filepath.Join(s.spool, frontDir)
	if err := os.Mkdir(front, 0o711); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if string(state) != dividing {
		if _, err := dir.ReadNumber(agent.FileNumbers); err != nil {
			return err
		}
		if err := c.confirm(s, spool, cluster); err != nil {
			return fmt.Errorf("cannot divide the spool directory %s: %w", s.spool, err)
		}
		failpoint.At("divide-confirmed")
		if err := writeFor(user, front, agent.FileNumbers, state); err != nil {
			return err
		}
		failpoint.At("divide-numbered")
		if err := dir.WriteDurably(agent.FileNumbers, []byte(dividing)); err != nil {
			return err
		}
	}
	var kept []string
	if s.ownMaster { // the configuration stays root's: only root may write to it
		kept = append(kept, pushedDir)
	}
	if err := give(dir, user, kept...); err != nil {
		return fmt.Errorf("cannot divide the spool directory %s: %w", s.spool, err)
	}
	failpoint.At("divide-given")
	if err := dir.WriteDurably(agent.FileNumbers, []byte(divided)); err != nil {
		return err
	}
	printer.Fprintf(c.Stderr, "execd %s: the spool directory %s is now for two processes: its queue, records and logs are in %s and belong to %s; there is no way back\n",
		c.Name, s.spool, front, user.Name)
	return nil
}

// lockFor refuses to change a spool directory that a daemon uses. The lock ends when dir is closed.
func lockFor(dir *jobdir.Dir, path string) error {
	for end := time.Now().Add(dying); ; time.Sleep(20 * time.Millisecond) {
		err := dir.Use(func(fd int) error { return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) })
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("another daemon uses the spool directory %s: stop that daemon first, or name another directory with --spool", path)
		}
	}
}

// confirm records for the launcher which jobs users have submitted to the daemon of one process. It is the last moment at
// which the store can be trusted: afterwards the front can change it.
func (c *Command) confirm(s *settings, spool *jobdir.Spool, cluster *qconf.Cluster) error {
	if c.Confirm == nil {
		return nil
	}
	submissions, err := launcher.OpenSubmissions(spool)
	if err != nil {
		return err
	}
	defer submissions.Close()
	read := configuration{dir: s.conf, spool: s.spool, host: s.host, root: true}
	if err := read.buildIn(); err != nil {
		return err
	}
	if err := read.restore(); err != nil {
		return err
	}
	h := &Host{
		Name: s.host, Spool: s.spool, CellDir: filepath.Join(s.spool, cellDir), Users: true, Socket: s.socket, Executable: c.Executable,
		PerUser: s.perUser, Reserve: s.reserve, Memory: s.memory, Managers: s.managers, Version: c.Version,
		Log:     hclog.New(&hclog.LoggerOptions{Name: "execd.divide", Output: c.Stderr, Level: hclog.Warn}),
		Cluster: func() *qconf.Cluster { return cluster },
		Read: func() (*qconf.Cluster, error) {
			cluster, _, err := read.read()
			return cluster, err
		},
	}
	return c.Confirm(h, func(list []Confirmed) error {
		entries := make([]launcher.Entry, 0, len(list))
		for _, j := range list {
			owner, err := userdb.System().User(j.Owner)
			if err != nil {
				h.Log.Warn("the job cannot start: its owner is unknown", "job", j.Job, "owner", j.Owner, "error", err)
				continue
			}
			entries = append(entries, launcher.Entry{UID: owner.UID, Key: j.Key, Digest: j.Digest})
		}
		return submissions.AddAll(entries)
	})
}

// writeFor writes a file in a directory, and makes it a user's.
func writeFor(user *userdb.User, path, name string, content []byte) error {
	dir, err := jobdir.OpenDir(path)
	if err != nil {
		return err
	}
	err = dir.WriteDurably(name, content)
	if err == nil {
		err = dir.Use(func(fd int) error { return own(fd, name, user) })
	}
	return errors.Join(err, dir.Close())
}

// give moves the files of the front, all but those of the launcher and the kept ones, into its directory, and makes them
// its own. The directory is still root's: no other
// user can change anything there meanwhile.
func give(dir *jobdir.Dir, user *userdb.User, kept ...string) error {
	return dir.Use(func(spool int) error {
		front, err := unix.Openat(spool, frontDir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return &fs.PathError{Op: "open", Path: frontDir, Err: err}
		}
		defer unix.Close(front)
		names, err := namesIn(spool, ".")
		if err != nil {
			return err
		}
		for _, name := range names {
			if slices.Contains(launchers, name) || slices.Contains(kept, name) || strings.HasPrefix(name, pushedDir+".") && len(kept) > 0 || strings.HasPrefix(name, "launcher-audit") || strings.HasSuffix(name, ".sock") {
				continue
			}
			if err := own(spool, name, user); err != nil {
				return err
			}
			if err := unix.Renameat2(spool, name, front, name, unix.RENAME_NOREPLACE); err != nil {
				return &os.LinkError{Op: "rename", Old: name, New: filepath.Join(frontDir, name), Err: err}
			}
			failpoint.AtOf("divide", name)
		}
		return os.NewSyscallError("fsync", errors.Join(unix.Fsync(front), unix.Fsync(spool)))
	})
}

// own makes a file of a directory a user's, with all that is below it. It follows no links.
func own(dir int, name string, user *userdb.User) error {
	names, err := namesIn(dir, name)
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		names, err = nil, nil
	}
	if err != nil {
		return err
	}
	if len(names) > 0 {
		fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return &fs.PathError{Op: "open", Path: name, Err: err}
		}
		defer unix.Close(fd)
		for _, below := range names {
			if err := own(fd, below, user); err != nil {
				return err
			}
		}
	}
	if err := unix.Fchownat(dir, name, int(user.UID), int(user.GID), unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return &fs.PathError{Op: "chown", Path: name, Err: err}
	}
	return nil
}

// namesIn lists a directory, which must not be a link.
func namesIn(dir int, name string) ([]string, error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	return f.Readdirnames(-1)
}
