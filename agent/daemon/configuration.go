package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/agent/launcher"
	"github.com/execd-project/execd/internal/configdir"
	"github.com/execd-project/execd/internal/failpoint"
	"github.com/execd-project/execd/internal/textfile"
	"github.com/execd-project/execd/qconf"
)

// quiet is how long no file of the configuration may have changed before it is read
// again: editors and copies write in several steps.
const quiet = time.Second

// pushedDir is the directory of a configuration pushed by a master, in the spool area.
const pushedDir = "configuration"

// configuration is the source of the agent's configuration: the directory pushed by a master,
// otherwise the one of --conf, otherwise the built-in configuration.
type configuration struct {
	dir   string         // --conf; empty for none
	spool string         // spool area
	base  *qconf.Cluster // for objects without files; nil means qconf.Builtin
	// builtin is the configuration if there are no files at all; nil means base.
	builtin *qconf.Cluster
	host    string // this host
	root    bool   // jobs are started with the rights of root
	// launcher changes the configuration, which is root's, and below is its spool area; nil if this process does so.
	launcher *launcher.Client
	replace  func() // has another front use a change, with launcher
	below    string
	// found is the resource map that the host has found on itself; nil for none.
	found func() qconf.FoundMap

	mu sync.Mutex // serialises installations
	// Readers of the directory in use hold files for reading, and a change holds it for
	// writing: no reader sees a mixture of two configurations.
	files sync.RWMutex
}

// pushed returns the directory of a configuration pushed by a master.
func (c *configuration) pushed() string { return filepath.Join(c.spool, pushedDir) }

// current returns the directory in use; empty for the built-in configuration.
func (c *configuration) current() string {
	if c.launcher != nil {
		return launcher.ConfigurationDir(c.below, c.dir)
	}
	if _, err := os.Stat(c.pushed()); err == nil {
		return c.pushed()
	}
	return c.dir
}

// file reads a file next to the configuration.
func (c *configuration) file(name string) ([]byte, error) {
	c.files.RLock()
	defer c.files.RUnlock()
	dir := c.current()
	if dir == "" {
		return nil, fs.ErrNotExist
	}
	files, err := configdir.Trusted(dir)
	if err != nil {
		return nil, err
	}
	return fs.ReadFile(files, name)
}

// read reads the configuration and says its version: the same for the same files.
func (c *configuration) read() (*qconf.Cluster, string, error) {
	c.files.RLock()
	defer c.files.RUnlock()
	dir, base := c.current(), c.basis()
	if dir == "" {
		return c.withFound(c.whole(), "builtin")
	}
	cluster, version, err := readDirectory(dir, base)
	if err != nil {
		return nil, "", err
	}
	return c.withFound(cluster, version)
}

// basis returns the part of the configuration that is not in files.
func (c *configuration) basis() *qconf.Cluster {
	if c.base != nil {
		return c.base
	}
	return qconf.Builtin(runtime.NumCPU())
}

// whole returns the configuration for a host without configuration files.
func (c *configuration) whole() *qconf.Cluster {
	if c.builtin != nil {
		return c.builtin
	}
	return c.basis()
}

// write calls f, which changes the directory in use, and blocks readers during the call.
func (c *configuration) write(f func() error) error {
	c.files.Lock()
	defer c.files.Unlock()
	return f()
}

func readDirectory(dir string, base *qconf.Cluster) (*qconf.Cluster, string, error) {
	files, err := configdir.Trusted(dir)
	if err != nil {
		return nil, "", err
	}
	version, err := versionOf(files)
	if err != nil {
		return nil, "", fmt.Errorf("cannot read the configuration directory %s: %w", dir, err)
	}
	cluster, err := qconf.Load(files, base)
	if err != nil {
		return nil, "", qconf.Within(dir, err)
	}
	return cluster, version, nil
}

// versionOf returns a short name for the content of all files.
func versionOf(files fs.FS) (string, error) {
	sum := sha256.New()
	err := fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		data, err := textfile.ReadFS(files, path, textfile.MaxConfig)
		if err != nil {
			return err
		}
		fmt.Fprintf(sum, "%s\x00%d\x00", path, len(data)) //nolint:forbidigo // a checksum
		sum.Write(data)
		return nil
	})
	const digits = 12
	return hex.EncodeToString(sum.Sum(nil))[:digits], err
}

// Directories next to the pushed one: the next configuration; the previous one, complete until the
// agent uses the next one; and the one that the agent is removing.
const (
	nextDir   = pushedDir + ".new"
	formerDir = pushedDir + ".old"
	asideDir  = pushedDir + ".aside" // of exchange
	trashDir  = pushedDir + ".trash"
)

// install atomically replaces the configuration by the files that a master sends; without files, it
// returns to the configuration of --conf. use applies the new configuration and may refuse it.
//
// It writes the next configuration next to the one in use, reads it completely, and then swaps the
// two in one step. So each reader finds either the old or the new configuration, even after a crash
// at any moment.
func (c *configuration) install(files map[string]string, use func() error) error {
	if c.launcher != nil {
		return errors.New("with --front-user the configuration belongs to root: change it with qconf")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	root, err := os.OpenRoot(c.spool)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := clean(root); err != nil {
		return err
	}
	if len(files) > 0 {
		if err := c.prepare(root, files); err != nil {
			return errors.Join(err, root.RemoveAll(nextDir))
		}
	}
	failpoint.At("configuration-written")
	if err := c.write(func() error { return replace(root, len(files) > 0) }); err != nil {
		return errors.Join(err, root.RemoveAll(nextDir))
	}
	failpoint.At("configuration-replaced")
	if err := use(); err != nil {
		err = c.unnamed(err, c.pushed())
		if e := c.write(func() error { return undoReplace(root) }); e != nil {
			return errors.Join(err, e)
		}
		return errors.Join(err, use())
	}
	failpoint.At("configuration-used")
	return clean(root)
}

// prepare writes the next configuration, and reads it.
func (c *configuration) prepare(root *os.Root, files map[string]string) error {
	if err := writeFiles(root, nextDir, files); err != nil {
		return err
	}
	dir := filepath.Join(c.spool, nextDir)
	if _, _, err := readDirectory(dir, c.basis()); err != nil {
		return c.unnamed(err, dir)
	}
	return nil
}

// unnamed returns an error without the name of a directory that the sender of files does not know.
func (c *configuration) unnamed(err error, dir string) error {
	return errors.New(strings.ReplaceAll(err.Error(), dir+"/", ""))
}

// replace makes the next configuration, if there is one, the one in use, and the one in use the
// previous one.
func replace(root *os.Root, next bool) error {
	_, err := root.Stat(pushedDir)
	there := err == nil
	switch {
	case !there && !next:
		return nil
	case !there:
		err = root.Rename(nextDir, pushedDir)
	case !next:
		err = root.Rename(pushedDir, formerDir)
	default:
		if err = exchange(root, nextDir, pushedDir); err == nil {
			err = root.Rename(nextDir, formerDir)
		}
	}
	return errors.Join(err, syncDir(root))
}

// undoReplace undoes replace.
func undoReplace(root *os.Root) error {
	_, err := root.Stat(formerDir)
	former := err == nil
	_, err = root.Stat(pushedDir)
	switch there := err == nil; {
	case there && former:
		err = exchange(root, formerDir, pushedDir)
	case former:
		err = root.Rename(formerDir, pushedDir)
	case there:
		err = root.Rename(pushedDir, formerDir)
	}
	return errors.Join(err, syncDir(root), clean(root))
}

// exchange swaps two directories, in one step if the file system supports that (renameat2(2)). On
// other file systems, such as NFS, the directory in use is moved aside for a moment: after a crash
// restore finds it there.
func exchange(root *os.Root, name, used string) error {
	handle, err := root.Open(".")
	if err != nil {
		return err
	}
	defer handle.Close()
	fd := int(handle.Fd())
	err = unix.Renameat2(fd, name, fd, used, unix.RENAME_EXCHANGE)
	if !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOSYS) {
		return err
	}
	if err := root.Rename(used, asideDir); err != nil {
		return err
	}
	failpoint.At("configuration-aside")
	if err := root.Rename(name, used); err != nil {
		return errors.Join(err, root.Rename(asideDir, used))
	}
	return root.Rename(asideDir, name)
}

// clean removes directories that are not in use. It renames a complete configuration before it
// removes it, because a crash may leave a part of it.
func clean(root *os.Root) error {
	errs := []error{removeAll(root, trashDir)}
	for _, name := range []string{nextDir, formerDir, asideDir} {
		err := rename(root, name, trashDir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		failpoint.At("configuration-trashed")
		errs = append(errs, err, removeAll(root, trashDir))
	}
	return errors.Join(errs...)
}

// rename calls Root.Rename, and returns fs.ErrNotExist for a missing file also if the file system
// is read-only: the kernel would check for that first.
func rename(root *os.Root, from, to string) error {
	if _, err := root.Lstat(from); err != nil {
		return err
	}
	return root.Rename(from, to)
}

// removeAll does the same for Root.RemoveAll.
func removeAll(root *os.Root, name string) error {
	if _, err := root.Lstat(name); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return root.RemoveAll(name)
}

// syncDir brings the names of a directory to the disk.
func syncDir(root *os.Root) error {
	handle, err := root.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(handle.Sync(), handle.Close())
}

// restore cleans up after an interrupted installation: afterwards either the old or the new
// configuration is in use.
func (c *configuration) restore() error {
	root, err := os.OpenRoot(c.spool)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, name := range []string{formerDir, asideDir} {
		if _, err := root.Stat(pushedDir); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err := rename(root, name, pushedDir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return clean(root)
}

func writeFiles(root *os.Root, dir string, files map[string]string) error {
	for path, data := range files {
		hidden := slices.ContainsFunc(strings.Split(path, "/"), func(s string) bool { return strings.HasPrefix(s, ".") })
		if !fs.ValidPath(path) || hidden {
			return fmt.Errorf("%q is not a path of a file of a configuration directory", path)
		}
		name := filepath.Join(dir, path)
		if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := writeSynced(root, name, data); err != nil {
			return err
		}
	}
	return nil
}

func writeSynced(root *os.Root, name, data string) error {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(data)
	return errors.Join(err, f.Sync(), f.Close())
}

// watch calls changed whenever files of the directory have changed and then rested.
func (c *configuration) watch(ctx context.Context, log hclog.Logger, changed func()) {
	if c.dir == "" {
		return
	}
	w, err := fsnotify.NewWatcher()
	if err != nil {
		log.Warn("the configuration is not watched: send SIGHUP after a change", "error", err)
		return
	}
	defer w.Close()
	watchTree(w, c.dir, log)
	timer := time.NewTimer(quiet)
	timer.Stop()
	for {
		select {
		case event := <-w.Events:
			if event.Has(fsnotify.Chmod) && event.Op == fsnotify.Chmod {
				continue
			}
			if event.Has(fsnotify.Create) {
				watchTree(w, event.Name, log)
			}
			timer.Reset(quiet)
		case err := <-w.Errors:
			log.Warn("changes of the configuration may be missed: send SIGHUP after a change", "error", err)
			timer.Reset(quiet)
		case <-timer.C:
			changed()
		case <-ctx.Done():
			return
		}
	}
}

// watchTree watches a directory and those below it.
func watchTree(w *fsnotify.Watcher, dir string, log hclog.Logger) {
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		return w.Add(path)
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		log.Warn("a part of the configuration is not watched: send SIGHUP after a change", "error", err)
	}
}
