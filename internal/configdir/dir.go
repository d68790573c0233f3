package configdir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/execd-project/execd/qconf"
)

// Change is a change of a file.
type Change struct {
	Path   string // below the directory, with slashes: "sched_conf", "queues/all.q"
	Text   []byte
	Remove bool // Text is ignored; a missing file is not an error
}

// Dir is an open configuration directory.
type Dir struct {
	root *os.Root
	path string
}

// Open opens a directory that exists.
func Open(dir string) (*Dir, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot open the configuration directory %q: %w", dir, cause(err))
	}
	return &Dir{root: root, path: dir}, nil
}

// Close closes it.
func (d *Dir) Close() error { return d.root.Close() }

// FS returns the directory, as qconf.Load reads it.
func (d *Dir) FS() fs.FS { return d.root.FS() }

// The modes of new files and directories. Existing files keep their modes.
const (
	fileMode   = 0o644
	folderMode = 0o755
)

// Apply makes changes, in their order, and returns when all are on the disk. Each file is
// changed in one step, but not all of them in one: all new files are written before the
// first takes its place, so that a full disk changes nothing.
//
// current, which may be nil, is the configuration in effect. If the directory lacks the folder or
// file of a changed object, Apply first writes all objects of this kind from current: they come
// from its base (qconf.Load), and must not disappear because one object is added.
func (d *Dir) Apply(current *qconf.Cluster, changes ...Change) error {
	all, err := d.Complete(current, changes)
	if err != nil {
		return err
	}
	s, err := d.Stage(all)
	if err != nil {
		return err
	}
	return s.Commit()
}

// Staged are changes whose new files are on the disk under temporary names.
type Staged struct {
	dir  *Dir
	list []staged
}

// Stage writes the new files of changes, as Complete returns them, under temporary names that readers skip. It changes nothing else.
func (d *Dir) Stage(changes []Change) (*Staged, error) {
	for _, c := range changes {
		if err := check(c.Path); err != nil {
			return nil, fmt.Errorf("cannot change %s: %w", d.name(c.Path), lasting{err})
		}
	}
	all := &Staged{dir: d}
	for _, c := range changes {
		s, err := d.stage(c)
		if err != nil {
			all.Discard()
			return nil, fmt.Errorf("cannot write %s: %w", d.name(c.Path), cause(err))
		}
		all.list = append(all.list, s)
	}
	return all, nil
}

// Discard removes the temporary files.
func (s *Staged) Discard() {
	for _, one := range s.list {
		if one.temporary != "" {
			_ = s.dir.root.Remove(one.temporary)
		}
	}
}

// Commit gives the new files their names, removes the files that are to be removed, and returns when all is on the disk.
func (s *Staged) Commit() error {
	d := s.dir
	folders := []string{"."}
	for i, one := range s.list {
		if err := d.commit(one); err != nil {
			s.list = s.list[i:]
			s.Discard()
			return fmt.Errorf("cannot change %s: %w", d.name(one.change.Path), cause(err))
		}
		if _, err := d.root.Stat(path.Dir(one.change.Path)); err == nil {
			folders = append(folders, path.Dir(one.change.Path))
		}
	}
	slices.Sort(folders)
	for _, folder := range slices.Compact(folders) {
		if err := sync(d.root, folder); err != nil {
			return fmt.Errorf("cannot write %s to the disk: %w", d.name(folder), cause(err))
		}
	}
	return nil
}

// Kinds returns the names of the folders and files that a change of a file needs; Apply first
// writes the missing ones. The first name is the one of the file itself. Queues need the
// configuration, because SCRIPT_SHELL of execd_params is true in the built-in one only.
func Kinds(file string) []string {
	kind, _, _ := strings.Cut(file, "/")
	if kind == "queues" {
		return []string{kind, "conf"}
	}
	return []string{kind}
}

// Complete returns the changes that Apply makes for changes, so that Apply makes the same ones without the
// configuration in effect. It prepends the objects that the directory lacks, and converts changes of single resource
// quota sets into a change of the file with all sets, if there is one, and a change of all sets
// into changes of single ones if they are in a folder.
func (d *Dir) Complete(current *qconf.Cluster, changes []Change) ([]Change, error) {
	var all []Change
	have := map[string]bool{}
	for _, c := range changes {
		kind, name, single := strings.Cut(c.Path, "/")
		if kind == quotas && single {
			whole, err := d.inQuotaFile(name, c)
			if err != nil {
				return nil, err
			}
			if whole != nil {
				all = append(all, *whole)
				continue
			}
		}
		if kind == quotas && !single {
			each, folder, err := d.inQuotaFolder(c)
			if err != nil {
				return nil, err
			}
			if folder {
				all = append(all, each...)
				continue
			}
		}
		for _, kind := range Kinds(c.Path) {
			if _, err := d.root.Stat(kind); errors.Is(err, fs.ErrNotExist) && !have[kind] && current != nil {
				files := Files(current)
				for _, name := range sortedNames(files) {
					changed := func(c Change) bool { return c.Path == name }
					if strings.HasPrefix(name, kind+"/") && !slices.ContainsFunc(changes, changed) {
						all = append(all, Change{Path: name, Text: files[name]})
					}
				}
			}
			have[kind] = true
		}
		all = append(all, c)
	}
	return all, nil
}

// quotas is the name of the file or the folder of resource quota sets.
const quotas = "rqs"

// inQuotaFile converts a change of one resource quota set into a change of the file with all sets;
// nil if there is no such file.
func (d *Dir) inQuotaFile(name string, c Change) (*Change, error) {
	info, err := d.root.Stat(quotas)
	if err != nil || info.IsDir() {
		return nil, nil //nolint:nilerr // no file: other errors show when the folder is changed
	}
	text, err := d.root.ReadFile(quotas)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", d.name(quotas), cause(err))
	}
	sets, err := qconf.ParseResourceQuotas(d.name(quotas), text)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(sets, func(s *qconf.ResourceQuotaSet) bool { return s.Name == name })
	var changed []*qconf.ResourceQuotaSet
	if !c.Remove {
		if changed, err = qconf.ParseResourceQuotas(d.name(c.Path), c.Text); err != nil {
			return nil, err
		}
	}
	switch {
	case at < 0:
		sets = append(sets, changed...)
	default:
		sets = slices.Replace(sets, at, at+1, changed...)
	}
	return &Change{Path: quotas, Text: []byte(qconf.FormatResourceQuotas(sets, qconf.Wrapped))}, nil
}

// inQuotaFolder returns a change of all resource quota sets as changes of the files in their
// folder; folder is false if there is none.
func (d *Dir) inQuotaFolder(c Change) (each []Change, folder bool, err error) {
	files, err := fs.ReadDir(d.root.FS(), quotas)
	if err != nil {
		return nil, false, nil //nolint:nilerr // no folder: other errors show when the file is changed
	}
	var sets []*qconf.ResourceQuotaSet
	if !c.Remove {
		if sets, err = qconf.ParseResourceQuotas(d.name(c.Path), c.Text); err != nil {
			return nil, true, err
		}
	}
	there := map[string]bool{}
	for _, s := range sets {
		there[s.Name] = true
		text := qconf.FormatResourceQuotas([]*qconf.ResourceQuotaSet{s}, qconf.Wrapped)
		each = append(each, Change{Path: path.Join(quotas, s.Name), Text: []byte(text)})
	}
	for _, f := range files {
		if name := f.Name(); !there[name] && !strings.HasPrefix(name, ".") {
			each = append(each, Change{Path: path.Join(quotas, name), Remove: true})
		}
	}
	return each, true, nil
}

// Read returns the contents of a file, or nil if the file does not exist. For a folder of resource
// quota sets it returns all of them, in a form that Apply accepts.
func (d *Dir) Read(name string) ([]byte, error) {
	entries, err := fs.ReadDir(d.root.FS(), name)
	if name == quotas && err == nil {
		all := []byte{}
		for _, f := range entries {
			if strings.HasPrefix(f.Name(), ".") {
				continue
			}
			text, err := d.root.ReadFile(path.Join(name, f.Name()))
			if err != nil {
				return nil, fmt.Errorf("cannot read %s: %w", d.name(path.Join(name, f.Name())), cause(err))
			}
			all = append(append(all, text...), '\n')
		}
		return all, nil
	}
	text, err := d.root.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", d.name(name), cause(err))
	}
	return text, nil
}

// staged is a change whose new file has been written under a temporary name.
type staged struct {
	change    Change
	temporary string // empty for a removal
}

// lasting is an error about the name of a file.
type lasting struct{ error }

var errFolder = lasting{errors.New("it is a directory")}

// Lasting reports whether Stage fails with the same error each time, until somebody changes the directory.
func Lasting(err error) bool {
	_, ok := errors.AsType[lasting](err)
	return ok || errors.Is(err, syscall.ENAMETOOLONG) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.EISDIR)
}

func (d *Dir) stage(c Change) (staged, error) {
	if c.Remove {
		if info, err := d.root.Lstat(c.Path); err == nil && info.IsDir() {
			return staged{}, errFolder
		}
		return staged{change: c}, nil
	}
	folder := path.Dir(c.Path)
	if folder != "." {
		if err := d.root.Mkdir(folder, folderMode); err != nil && !errors.Is(err, fs.ErrExist) {
			return staged{}, err
		}
	}
	mode := fs.FileMode(fileMode)
	info, err := d.root.Stat(c.Path)
	switch {
	case err == nil && info.IsDir():
		return staged{}, errFolder
	case err == nil:
		mode = info.Mode().Perm()
	}
	temporary, err := write(d.root, folder, path.Base(c.Path), c.Text, mode)
	return staged{c, temporary}, err
}

func (d *Dir) commit(s staged) error {
	if !s.change.Remove {
		return d.root.Rename(s.temporary, s.change.Path)
	}
	if err := d.root.Remove(s.change.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// write writes a file that readers skip, since its name begins with a dot, to the disk.
func write(root *os.Root, folder, name string, text []byte, mode fs.FileMode) (string, error) {
	const tries = 1000 // files that others have left
	for i := range tries {
		temporary := path.Join(folder, fmt.Sprintf(".%s.%d.%d", name, os.Getpid(), i))
		f, err := root.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		_, err = f.Write(text)
		// The umask is ignored, because other users than the writer must be able to read the files.
		if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
			return "", errors.Join(err, root.Remove(temporary))
		}
		return temporary, nil
	}
	return "", fmt.Errorf("there are %d temporary files like .%s.%d.0 already", tries, name, os.Getpid())
}

// Sweep removes the temporary files of changes that an ended process has left.
func (d *Dir) Sweep(changes []Change) {
	for _, c := range changes {
		if check(c.Path) != nil {
			continue
		}
		folder := path.Dir(c.Path)
		entries, err := fs.ReadDir(d.root.FS(), folder)
		if err != nil {
			continue
		}
		for _, e := range entries {
			rest, ok := strings.CutPrefix(e.Name(), "."+path.Base(c.Path)+".")
			if pid, number, two := strings.Cut(rest, "."); ok && two && strings.Trim(pid+number, "0123456789") == "" && e.Type().IsRegular() {
				_ = d.root.Remove(path.Join(folder, e.Name()))
			}
		}
	}
}

// sync writes the entries of a folder to the disk.
func sync(root *os.Root, folder string) error {
	f, err := root.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// name returns a file as messages name it.
func (d *Dir) name(file string) string { return path.Join(d.path, file) }

// cause returns an error without the path, which is named already.
func cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	if e, ok := errors.AsType[*os.LinkError](err); ok {
		return e.Err
	}
	return err
}
