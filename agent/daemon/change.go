package daemon

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/execd-project/execd/internal/configdir"
	"github.com/execd-project/execd/internal/failpoint"
)

// change changes files of the configuration, by their paths below its directory; nil removes a
// file. It makes all changes or none: use loads the result and may refuse it. change first writes
// the built-in configuration to files if there are none.
func (c *configuration) change(files map[string][]byte, use func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	files = c.withoutFound(files)
	dir := c.current()
	made := dir == ""
	if made {
		dir = c.pushed()
		if err := configdir.WriteCluster(dir, c.whole(), false); err != nil {
			return err
		}
	}
	if found := configdir.Untrusted(dir); len(found) > 0 {
		return found[0] // others could put links where we write
	}
	d, err := configdir.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	previous := map[string][]byte{}
	added := []string{pushedDir} // removed again if the change is refused
	if !made {
		added = lacking(d, files)
	}
	for path := range files {
		if previous[path], err = d.Read(path); err != nil {
			return err
		}
	}
	if err = c.write(func() error { return d.Apply(c.base, changes(files)...) }); err == nil {
		err = use()
	}
	if err == nil {
		return nil
	}
	err = errors.New(strings.ReplaceAll(err.Error(), dir+"/", ""))
	return errors.Join(err, c.write(func() error { return c.undo(d, previous, added, made) }), use())
}

// order makes the launcher change the files of root's configuration, and uses the result. If it cannot be used, the launcher
// undoes the change. key is that of the statement with which root has confirmed the change to the launcher; it is empty for
// a change of a manager, which the launcher refuses if it concerns anything that is root's. If the launcher has to start again
// for the change, so has this process, which then uses it.
func (c *configuration) order(key string, files map[string][]byte, use func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := changes(c.withoutFound(files))
	starts := false
	err := c.write(func() (err error) {
		starts, err = c.launcher.Configure(key, list)
		return err
	})
	if err != nil {
		return err
	}
	if starts {
		c.replace()
		return nil
	}
	failpoint.At("configuration-ordered")
	err = use()
	if err == nil {
		_ = c.launcher.KeepConfiguration() // otherwise the launcher forgets it after a while
		return nil
	}
	err = errors.New(strings.ReplaceAll(err.Error(), c.current()+"/", ""))
	return errors.Join(err, c.write(c.launcher.UndoConfiguration), use())
}

// undo undoes a change that was refused.
func (c *configuration) undo(d *configdir.Dir, previous map[string][]byte, added []string, made bool) error {
	dir := c.spool
	if !made {
		if err := d.Apply(nil, changes(previous)...); err != nil {
			return err
		}
		dir = c.current()
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, name := range added {
		if err := root.RemoveAll(name); err != nil {
			return err
		}
	}
	return nil
}

// lacking returns the folders that the directory does not have of those that files lie in: a
// change puts more into them than what it names (configdir.Dir.Apply).
func lacking(d *configdir.Dir, files map[string][]byte) []string {
	var list []string
	for path := range files {
		if !strings.Contains(path, "/") {
			continue
		}
		for _, kind := range configdir.Kinds(path) {
			if _, err := fs.Stat(d.FS(), kind); errors.Is(err, fs.ErrNotExist) {
				list = append(list, kind)
			}
		}
	}
	return list
}

// changes are in the order of their paths; a nil text is a removal.
func changes(files map[string][]byte) []configdir.Change {
	var list []configdir.Change
	for _, path := range slices.Sorted(maps.Keys(files)) {
		list = append(list, configdir.Change{Path: path, Text: files[path], Remove: files[path] == nil})
	}
	return list
}
