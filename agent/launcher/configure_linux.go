package launcher

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/execd-project/execd/internal/configdir"
	"github.com/execd-project/execd/internal/failpoint"
	"github.com/execd-project/execd/internal/submission"
	"github.com/execd-project/execd/internal/submission/claim"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/qconf"
)

// The configuration of a daemon with a master of its own, in the spool directory. All of it belongs to root, and the front
// reads it.
const (
	confDir     = "configuration"         // as qconf has changed it
	confBuiltin = "configuration.builtin" // for a host without configuration files, as of the start of the daemon
	confJournal = "configuration.journal" // a change that is being made
	confFailed  = "configuration.failed"  // a change that could not be made
)

// ConfigurationDir returns the directory with the configuration of a daemon with a master of its own: what qconf has
// changed, otherwise conf, which may be empty, otherwise the built-in configuration.
func ConfigurationDir(spool, conf string) string {
	if own := filepath.Join(spool, confDir); exists(own) || conf == "" && !exists(filepath.Join(spool, confBuiltin)) {
		return own
	}
	if conf != "" {
		return conf
	}
	return filepath.Join(spool, confBuiltin)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// BuildIn writes the configuration of a host without configuration files to the spool directory. A front that is running
// keeps the one that it has read.
func BuildIn(spool *jobdir.Spool, c *qconf.Cluster) error {
	path := filepath.Join(spool.Path(), confBuiltin)
	if lives, err := frontLives(spool); err != nil || lives && exists(path) {
		return err
	}
	return errors.Join(configdir.WriteCluster(path, c, true), removeTree(spool, confBuiltin+".old"))
}

// Limits of a change of the configuration.
const (
	mostChanges     = 4096
	mostChangedText = 4 << 20 // of one file; all of them have to fit into an order
	// mostUnconfirmed is the size of all files after a change that root has not confirmed, and that makes them larger. Package
	// qconf reads at most 64 MiB: root can add files to what a captured front has filled.
	mostUnconfirmed = 16 << 20
	perFile         = 256 // bytes that a file counts for, besides its name and text
	mostStatements  = 64
	// statementTime is how long the launcher remembers what root has confirmed.
	statementTime = time.Minute
)

// Configuration is root's configuration of a daemon with a master of its own. The front orders changes. Those that
// concern the launcher have to be confirmed by root: see docs/design/front-and-launcher.md.
type Configuration struct {
	Spool *jobdir.Spool
	Conf  string // --conf; empty for none
	Host  string
	// Use is called with a configuration that is now in effect.
	Use func(*Objects)
	// Check refuses a configuration with which a launcher could not start. Restart is called when the launcher has to start
	// again because of a change. They may be nil.
	Check   func(*qconf.Configuration) error
	Restart func()

	mu         sync.Mutex
	statements map[string]*statement // by key
	undo       *undo                 // of the last change; nil if it cannot be undone any more
	starting   string                // the key of a change that needs a start of the launcher; empty for none
}

// configureAnswer answers an order about the configuration.
type configureAnswer struct {
	// Starts says that the change takes effect when the launcher has started again. The launcher does so when qconf has said
	// to root that the change is made.
	Starts bool `json:"starts,omitempty"`
}

// statement is a change that root has confirmed.
type statement struct {
	base, digest string // see claim.Configure
	at           time.Time
}

// undo has the files before a change.
type undo struct {
	key     string // of the statement; empty for a change of a manager
	at      time.Time
	made    bool   // the change has made the directory
	sum     string // of the files after the change
	files   map[string][]byte
	folders []string
}

// configureBody orders a change of the configuration.
type configureBody struct {
	Step configureStep `json:"step"`
	// Key is the key with which root has confirmed the change; it is empty if root has not confirmed it.
	Key     string       `json:"key,omitempty"`
	Changes []fileChange `json:"changes,omitempty"`
}

// configureStep is a step of a change.
type configureStep string

const (
	stepChange configureStep = "change"
	stepUndo   configureStep = "undo" // the last change, which the front cannot use
	stepKeep   configureStep = "keep" // the last change: it cannot be undone any more
)

// fileChange is a configdir.Change.
type fileChange struct {
	Path   submission.Text `json:"path"`
	Text   []byte          `json:"text,omitempty"`
	Remove bool            `json:"remove,omitempty"`
}

func (b *configureBody) list() (list []configdir.Change) {
	for _, c := range b.Changes {
		list = append(list, configdir.Change{Path: string(c.Path), Text: c.Text, Remove: c.Remove})
	}
	return list
}

// checkChanges refuses changes of files that a configuration does not have.
func checkChanges(list []configdir.Change) error {
	if len(list) > mostChanges {
		return fmt.Errorf("the change has %d files, at most %d are possible", len(list), mostChanges)
	}
	seen, folders := map[string]bool{}, map[string]bool{}
	for _, c := range list {
		if kind, _, in := strings.Cut(c.Path, "/"); in {
			folders[kind] = true
		}
		switch err := configdir.Check(c); {
		case err != nil:
			return err
		case strings.ContainsFunc(c.Path, isControl):
			return fmt.Errorf("the name %.200q has a control character", c.Path)
		case seen[c.Path]:
			return fmt.Errorf("the change has the file %.200q twice", c.Path)
		case c.Remove && len(c.Text) > 0:
			return fmt.Errorf("the file %.200q is both changed and removed", c.Path)
		case len(c.Text) > mostChangedText:
			return fmt.Errorf("the file %.200q would have %d bytes, at most %d are possible", c.Path, len(c.Text), mostChangedText)
		case strings.ContainsFunc(string(c.Text), func(r rune) bool { return isControl(r) && r != '\n' && r != '\t' }):
			return fmt.Errorf("the file %.200q has a control character", c.Path)
		}
		seen[c.Path] = true
	}
	for folder := range folders {
		if seen[folder] {
			return fmt.Errorf("the change has both a file %s and files in a folder of this name", folder)
		}
	}
	return nil
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// configure carries out an order about the configuration. A text that the readers of package qconf cannot cope with does not
// end the launcher.
func (s *Server) configure(b *configureBody) (a *configureAnswer, err error) {
	defer func() {
		if what := recover(); what != nil {
			err = &refusal{fmt.Errorf("internal error: %v", what)}
		}
	}()
	c := s.Configuration
	if c == nil {
		return nil, &refusal{errors.New("the configuration of this daemon is not the launcher's")}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	a = &configureAnswer{}
	switch b.Step {
	case stepChange:
		a.Starts, err = c.change(b.Key, b.list())
		return a, err
	case stepUndo:
		return a, c.takeBack()
	case stepKeep:
		c.undo = nil
		debug.FreeOSMemory() // a configuration takes some megabytes while it is read, which the launcher does not need again
		return a, nil
	}
	return nil, &refusal{fmt.Errorf("unknown step %.20q of a change", string(b.Step))}
}

// UseObjects replaces the objects of root's configuration, after the orders to prepare jobs that are being carried out.
func (s *Server) UseObjects(o *Objects) {
	s.configuring.Lock()
	defer s.configuring.Unlock()
	s.Rules.Site.Objects, s.Rules.Tmpdirs = *o, o.Tmpdirs
}

func (c *Configuration) dir() string { return ConfigurationDir(c.Spool.Path(), c.Conf) }

func (c *Configuration) inSpool(name string) string { return filepath.Join(c.Spool.Path(), name) }

// load reads a configuration directory.
func (c *Configuration) load(dir string) (*qconf.Cluster, error) {
	files, err := configdir.Trusted(dir)
	if err != nil {
		return nil, err
	}
	cluster, err := c.loadFrom(files)
	if err != nil {
		return nil, qconf.Within(dir, err)
	}
	return cluster, nil
}

func (c *Configuration) loadFrom(files fs.FS) (*qconf.Cluster, error) {
	base, err := qconf.BuiltinOn(c.Host, runtime.NumCPU())
	if err != nil {
		return nil, err
	}
	return qconf.Load(files, base)
}

// change makes a change, or nothing of it. starts is as in configureAnswer.
func (c *Configuration) change(key string, list []configdir.Change) (starts bool, err error) {
	if err := checkChanges(list); err != nil {
		return false, &refusal{err}
	}
	dir := c.dir()
	if found := configdir.Untrusted(dir); len(found) > 0 {
		return false, found[0] // others could put links where the launcher writes
	}
	files, folders, err := contents(dir)
	if err != nil {
		return false, err
	}
	before, err := c.load(dir)
	if err != nil {
		return false, err
	}
	whole, err := complete(dir, before, list)
	if err == nil {
		err = checkChanges(whole)
	}
	if err != nil {
		return false, &refusal{err}
	}
	if configdir.InEffect(files, whole) { // of an earlier launcher that could not answer, or nothing
		delete(c.statements, key)
		return c.starting != "", nil
	}
	if key != "" {
		if err := c.redeem(key, list, files); err != nil {
			return false, &refusal{err}
		}
	}
	after, err := c.try(files, folders, whole)
	if err != nil {
		return false, &refusal{err}
	}
	what := needsStart(before, after, c.Host)
	switch {
	case key == "":
		err = errors.Join(checkByFront(before, after, c.Host), checkGrowth(files, whole))
		if err == nil && what != "" {
			err = fmt.Errorf("%s would change: %s", what, byRoot)
		}
	case what != "" && c.Check != nil:
		err = c.Check(after.Config(c.Host))
	}
	if err != nil {
		return false, &refusal{err}
	}
	return what != "", c.write(dir, key, what != "", &edit{files, folders, whole, after})
}

// edit is a change that is permitted: of which files and folders, what changes, and the result.
type edit struct {
	files   map[string][]byte
	folders []string
	changes []configdir.Change
	after   *qconf.Cluster
}

// write makes a change that is permitted. With starts it takes effect when the launcher has started again.
func (c *Configuration) write(dir, key string, starts bool, e *edit) error {
	u := &undo{key: key, at: time.Now(), files: e.files, folders: e.folders}
	if dir == c.inSpool(confBuiltin) {
		if err := configdir.Write(c.inSpool(confDir), e.files, e.folders, false); err != nil {
			return err
		}
		dir, u.made = c.inSpool(confDir), true
	}
	c.undo = nil
	if err := c.apply(dir, e.changes); err != nil {
		if _, unchanged := errors.AsType[stageError](err); unchanged {
			return err
		}
		return errors.Join(err, c.revert(dir, u))
	}
	if now, _, err := contents(dir); err == nil {
		u.sum = configdir.Sum(now)
		c.undo = u
	}
	if starts {
		c.startLater(key)
	} else {
		c.use(e.after)
	}
	return nil
}

// complete returns the changes that a change needs.
func complete(dir string, current *qconf.Cluster, list []configdir.Change) ([]configdir.Change, error) {
	d, err := configdir.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Complete(current, list)
}

// contents returns the files and folders of a configuration directory.
func contents(dir string) (files map[string][]byte, folders []string, err error) {
	fsys, err := configdir.Trusted(dir)
	if err != nil {
		return nil, nil, err
	}
	return configdir.Contents(fsys)
}

// redeem refuses a change that root has not confirmed. Each statement is good for one order.
func (c *Configuration) redeem(key string, list []configdir.Change, files map[string][]byte) error {
	s := c.statements[key]
	delete(c.statements, key)
	switch {
	case s == nil || time.Since(s.at) > statementTime:
		return errors.New("root has not confirmed the change, or too long ago")
	case s.base != configdir.Sum(files):
		return errors.New("the configuration has changed since root has confirmed the change: repeat the command")
	case s.digest != configdir.Digest(key, list):
		return errors.New("root has confirmed another change: repeat the command")
	}
	return nil
}

// try returns the configuration after changes, which Complete has returned.
func (c *Configuration) try(files map[string][]byte, folders []string, list []configdir.Change) (*qconf.Cluster, error) {
	return c.loadFrom(configdir.Memory(changed(files, list), folders))
}

// changed returns files after changes.
func changed(files map[string][]byte, list []configdir.Change) map[string][]byte {
	next := map[string][]byte{}
	maps.Copy(next, files)
	for _, x := range list {
		if x.Remove {
			delete(next, x.Path)
		} else {
			next[x.Path] = x.Text
		}
	}
	return next
}

// checkGrowth refuses a change that root has not confirmed, if it makes a large configuration larger.
func checkGrowth(files map[string][]byte, list []configdir.Change) error {
	size := func(files map[string][]byte) (sum int) {
		for path, text := range files {
			sum += len(path) + len(text) + perFile
		}
		return sum
	}
	if is := size(changed(files, list)); is > mostUnconfirmed && is > size(files) {
		return fmt.Errorf("the configuration would have %d bytes, more than %d: %s", is, mostUnconfirmed, byRoot)
	}
	return nil
}

// removeTree removes a directory of the launcher in the spool directory.
func removeTree(spool *jobdir.Spool, name string) error {
	root, err := os.OpenRoot(spool.Path())
	if err != nil {
		return err
	}
	defer root.Close()
	return root.RemoveAll(name)
}

// revert makes the files of a directory those before a change that could not be made as a whole, because of a full disk. If
// that fails, too, the next launcher completes the change.
func (c *Configuration) revert(dir string, u *undo) error {
	err := func() error {
		files, folders, err := contents(dir)
		if err != nil {
			return err
		}
		j := &journal{Dir: dir}
		list, added := back(u, files, folders)
		j.note(list, added)
		return j.carryOut(ok, func() error { return c.Spool.Dir().Remove(confJournal) })
	}()
	if err != nil {
		return fmt.Errorf("cannot undo a part of the change, which the launcher completes when it is started again: %w", err)
	}
	return nil
}

// note adds changes.
func (j *journal) note(list []configdir.Change, folders []string) {
	for _, x := range list {
		j.Changes = append(j.Changes, fileChange{submission.Text(x.Path), x.Text, x.Remove})
	}
	j.Folders = folders
}

// journal is a change that is being made. If the launcher ends meanwhile, the next one completes the change.
type journal struct {
	Dir     string       `json:"dir"`
	Changes []fileChange `json:"changes"`
	Folders []string     `json:"folders,omitempty"` // that the change removes, with all that is in them
}

// apply changes the files of a directory. It makes all changes, also if the launcher ends meanwhile. What cannot be written is
// refused before the next launcher would have to write it.
func (c *Configuration) apply(dir string, list []configdir.Change, folders ...string) error {
	j := &journal{Dir: dir}
	j.note(list, folders)
	text, err := json.Marshal(j)
	if err != nil {
		return err
	}
	return j.carryOut(func() error {
		if err := c.Spool.Dir().WriteDurably(confJournal, text); err != nil {
			return err
		}
		failpoint.At("configure-journaled")
		return nil
	}, func() error {
		failpoint.At("configure-written")
		return c.Spool.Dir().Remove(confJournal)
	})
}

// stageError says that the new files of a change cannot be written under their temporary names. Nothing has been changed.
type stageError struct{ error }

func (e stageError) Unwrap() error { return e.error }

// carryOut makes the changes of a journal. It may be repeated. before runs when the new files are on the disk under temporary
// names, and after when everything is changed.
func (j *journal) carryOut(before, after func() error) error {
	d, err := configdir.Open(j.Dir)
	if err != nil {
		return err
	}
	defer d.Close()
	staged, err := d.Stage((&configureBody{Changes: j.Changes}).list())
	if err != nil {
		return stageError{err}
	}
	if err := before(); err != nil {
		staged.Discard()
		return err
	}
	if err := staged.Commit(); err != nil {
		return err
	}
	root, err := os.OpenRoot(j.Dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, folder := range j.Folders {
		if err := root.RemoveAll(folder); err != nil {
			return err
		}
	}
	return after()
}

// ok does nothing, as a step of a change that needs none.
func ok() error { return nil }

// CompleteConfiguration completes a change of the configuration during which an earlier launcher has ended. If the change can
// never be made, and nothing of it is, it gives the journal another name, and returns a notice for the administrator.
func CompleteConfiguration(spool *jobdir.Spool) (notice string, err error) {
	text, err := spool.Dir().ReadFile(confJournal)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	var j journal
	if err == nil {
		err = decode(text, &j)
	}
	if err == nil {
		if d, err := configdir.Open(j.Dir); err == nil { // otherwise carryOut fails
			d.Sweep((&configureBody{Changes: j.Changes}).list())
			d.Close()
		}
		err = j.carryOut(ok, func() error { return spool.Dir().Remove(confJournal) })
	}
	if err != nil && j.impossible(err) {
		notice = fmt.Sprintf("a change of the configuration by qconf was not made, and is in %s: %v", filepath.Join(spool.Path(), confFailed), err)
		err = setAside(spool)
	}
	if err != nil {
		return "", fmt.Errorf("cannot complete a change of the configuration by qconf: %w", err)
	}
	return notice, nil
}

// impossible reports whether an error of carryOut will be the same each time, and no change of the journal is in effect. A part
// of a change could have other programs than the whole, so that root has to look at it.
func (j *journal) impossible(err error) bool {
	_, stage := errors.AsType[stageError](err)
	if !stage || !configdir.Lasting(err) {
		return false
	}
	files, _, err := contents(j.Dir)
	return err == nil && !slices.ContainsFunc((&configureBody{Changes: j.Changes}).list(), func(x configdir.Change) bool {
		return configdir.InEffect(files, []configdir.Change{x})
	})
}

// setAside gives the journal another name.
func setAside(spool *jobdir.Spool) error {
	root, err := os.OpenRoot(spool.Path())
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.Rename(confJournal, confFailed); err != nil {
		return err
	}
	return spool.Dir().Sync() // the names
}

// takeBack undoes the last change, which the front cannot use.
func (c *Configuration) takeBack() error {
	u := c.undo
	c.undo = nil
	if u == nil || time.Since(u.at) > statementTime {
		return &refusal{errors.New("there is no change to undo, or root has been told that it is made")}
	}
	files, folders, err := contents(c.dir())
	switch {
	case err != nil:
		return err
	case configdir.Sum(files) != u.sum:
		return &refusal{errors.New("the configuration has changed since the change that is to be undone")}
	}
	if u.made {
		if err := removeTree(c.Spool, confDir); err != nil {
			return err
		}
	} else {
		list, added := back(u, files, folders)
		if err := c.apply(c.dir(), list, added...); err != nil {
			return err
		}
	}
	if u.key == c.starting {
		c.starting = "" // the files are those that the launcher was started with
	}
	cluster, err := c.load(c.dir())
	if err != nil {
		return err
	}
	c.use(cluster)
	return nil
}

// back returns the changes that make the files of a directory those before a change, and the folders that were not there.
func back(u *undo, files map[string][]byte, folders []string) (list []configdir.Change, added []string) {
	for path := range files {
		if _, was := u.files[path]; !was {
			list = append(list, configdir.Change{Path: path, Remove: true})
		}
	}
	for path, text := range u.files {
		if now, there := files[path]; !there || string(now) != string(text) {
			list = append(list, configdir.Change{Path: path, Text: text})
		}
	}
	list = slices.DeleteFunc(list, func(x configdir.Change) bool { return configdir.Check(x) != nil })
	slices.SortFunc(list, func(a, b configdir.Change) int { return strings.Compare(a.Path, b.Path) })
	return list, slices.DeleteFunc(slices.Clone(folders), func(f string) bool { return slices.Contains(u.folders, f) })
}

func (c *Configuration) use(cluster *qconf.Cluster) {
	if c.Use != nil {
		c.Use(ObjectsOf(cluster, c.Host))
	}
}

// state answers a message of root about a change.
func (c *Configuration) state(uid uint32, q *claim.Configure) (*claim.Place, error) {
	if uid != 0 {
		return nil, errors.New("only root can confirm changes of the configuration")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch q.Step {
	case claim.StepRead:
		return &claim.Place{Dir: c.dir(), Host: c.Host, Processors: runtime.NumCPU()}, nil
	case claim.StepConfirm:
		if !submission.ValidKey(q.Key) || !submission.ValidDigest(q.Digest) || !submission.ValidDigest(q.Base) {
			return nil, errClaim
		}
		for key, s := range c.statements {
			if time.Since(s.at) > statementTime {
				delete(c.statements, key)
			}
		}
		switch {
		case c.statements[q.Key] != nil:
			return nil, errors.New("the key of the change is in use")
		case len(c.statements) >= mostStatements:
			return nil, fmt.Errorf("%d changes are waiting already: repeat the command later", mostStatements)
		case c.statements == nil:
			c.statements = map[string]*statement{}
		}
		c.statements[q.Key] = &statement{q.Base, q.Digest, time.Now()}
		return nil, nil
	case claim.StepSettle:
		// From now on the front can neither make nor undo the change.
		delete(c.statements, q.Key)
		if c.undo != nil && c.undo.key == q.Key {
			c.undo = nil
		}
		return &claim.Place{Dir: c.dir(), Host: c.Host, Processors: runtime.NumCPU()}, nil
	}
	return nil, fmt.Errorf("unknown step %.20q of a change", string(q.Step))
}
