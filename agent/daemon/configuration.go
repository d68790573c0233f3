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

	"github.com/execd-project/execd/confdir"
	"github.com/execd-project/execd/qconf"
)

// quiet is how long no file of the configuration may have changed before it is read
// again: editors and copies write in several steps.
const quiet = time.Second

// pushedDir is where in the spool area a configuration is kept that a master has
// pushed.
const pushedDir = "configuration"

// configuration is where the agent's configuration comes from: a directory that a
// master has pushed, else the one of --conf, else what is built in.
type configuration struct {
	dir   string         // --conf; empty for none
	spool string         // spool area
	base  *qconf.Cluster // what is not in files; nil is qconf.Builtin

	mu sync.Mutex // serialises installations
}

// pushed is the directory of what a master has pushed.
func (c *configuration) pushed() string { return filepath.Join(c.spool, pushedDir) }

// current is the directory in use; empty for what is built in.
func (c *configuration) current() string {
	if _, err := os.Stat(c.pushed()); err == nil {
		return c.pushed()
	}
	return c.dir
}

// file reads a file that lies beside the configuration.
func (c *configuration) file(name string) ([]byte, error) {
	dir := c.current()
	if dir == "" {
		return nil, fs.ErrNotExist
	}
	files, err := confdir.Trusted(dir)
	if err != nil {
		return nil, err
	}
	return fs.ReadFile(files, name)
}

// read reads the configuration and says its version: the same for the same files.
func (c *configuration) read() (*qconf.Cluster, string, error) {
	dir := c.current()
	base := c.base
	if base == nil {
		base = qconf.Builtin(runtime.NumCPU())
	}
	if dir == "" {
		return base, "builtin", nil
	}
	return readDirectory(dir, base)
}

func readDirectory(dir string, base *qconf.Cluster) (*qconf.Cluster, string, error) {
	files, err := confdir.Trusted(dir)
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

// versionOf is a short name for the content of all files.
func versionOf(files fs.FS) (string, error) {
	sum := sha256.New()
	err := fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		data, err := fs.ReadFile(files, path)
		if err != nil {
			return err
		}
		fmt.Fprintf(sum, "%s\x00%d\x00", path, len(data))
		sum.Write(data)
		return nil
	})
	const digits = 12
	return hex.EncodeToString(sum.Sum(nil))[:digits], err
}

// install replaces the configuration by files that a master sends, all or nothing; none
// at all goes back to the one of --conf. use has the new one read, and may refuse it.
func (c *configuration) install(files map[string]string, use func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	root, err := os.OpenRoot(c.spool)
	if err != nil {
		return err
	}
	defer root.Close()
	const next, former = pushedDir + ".new", pushedDir + ".old"
	if err := errors.Join(root.RemoveAll(next), root.RemoveAll(former)); err != nil {
		return err
	}
	if len(files) > 0 {
		if err := writeFiles(root, next, files); err != nil {
			return errors.Join(err, root.RemoveAll(next))
		}
	}
	// A crash between the two leaves the former one aside, from where restore gets it.
	if err := root.Rename(pushedDir, former); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(files) > 0 {
		if err := root.Rename(next, pushedDir); err != nil {
			return errors.Join(err, restore(root))
		}
	}
	if err := use(); err != nil {
		err = errors.New(strings.ReplaceAll(err.Error(), c.pushed()+"/", ""))
		if e := errors.Join(root.RemoveAll(pushedDir), restore(root)); e != nil {
			return errors.Join(err, e)
		}
		return errors.Join(err, use())
	}
	return root.RemoveAll(former)
}

// restore undoes an installation that was broken off.
func (c *configuration) restore() error {
	root, err := os.OpenRoot(c.spool)
	if err != nil {
		return err
	}
	defer root.Close()
	return restore(root)
}

func restore(root *os.Root) error {
	const former = pushedDir + ".old"
	if _, err := root.Stat(former); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if _, err := root.Stat(pushedDir); err == nil {
		return root.RemoveAll(former)
	}
	return root.Rename(former, pushedDir)
}

func writeFiles(root *os.Root, dir string, files map[string]string) error {
	for path, data := range files {
		hidden := slices.ContainsFunc(strings.Split(path, "/"), func(s string) bool { return strings.HasPrefix(s, ".") })
		if !fs.ValidPath(path) || hidden {
			return fmt.Errorf("%q is no path of a file of a configuration directory", path)
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
			log.Warn("watching the configuration", "error", err)
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
