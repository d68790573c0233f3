package importer

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/execd-project/execd/internal/textfile"
	"github.com/execd-project/execd/internal/userfile"
)

// source holds the objects that were read.
type source struct {
	objects map[string]*object // by path
	// whole is set if all kinds were searched for: a missing kind then has no objects.
	whole   bool
	folders map[string]bool // directories of kinds that exist, with or without objects
	left    []finding
	size    int      // total size of the files read, in bytes
	foreign *foreign // nil if only this user and root can have written the files
}

// finding describes something that is not imported.
type finding struct {
	origin
	what, why string
}

func (f finding) String() string {
	text := f.origin.String() + ": "
	if f.what != "" {
		text += f.what + ": "
	}
	return text + "not imported: " + f.why
}

func newSource() *source {
	return &source{objects: map[string]*object{}, folders: map[string]bool{}}
}

func (s *source) leave(name, what, why string) {
	s.left = append(s.left, finding{origin{name: name}, what, why})
}

// add adds an object, without lines that are not configuration.
func (s *source) add(k *kind, o *object) error {
	if other := s.objects[o.path]; other != nil {
		return fmt.Errorf("%s and %s are the same object, %s", other.origin(0), o.origin(0), o.path)
	}
	o.strip(k)
	s.objects[o.path] = o
	kind, _, _ := strings.Cut(o.path, "/")
	s.folders[kind] = true
	return nil
}

// readPath reads a file or a directory named on the command line.
func (s *source) readPath(name string) error {
	info, err := os.Stat(name)
	if err != nil {
		return fmt.Errorf("cannot read %q: %w", name, reason(err))
	}
	if info.IsDir() {
		return s.readDir(name)
	}
	text, err := s.readNamed(name)
	if err != nil {
		return fmt.Errorf("cannot read %q: %w", name, reason(err))
	}
	return s.identified(name, text)
}

// identified adds a file whose kind is known only from its content.
func (s *source) identified(name string, text []byte) error {
	at, ok := identify(string(text))
	if !ok {
		s.leave(name, "", "it is not output of qconf -s...")
		return nil
	}
	folder, _, _ := strings.Cut(at, "/")
	k, _ := find(folder)
	return s.add(k, newObject(at, name, string(text)))
}

// readDir reads a directory with qconf output, a backup, a master's spool directory, or a cell.
func (s *source) readDir(dir string) error {
	leave, err := s.enter(dir)
	if err != nil {
		return err
	}
	defer leave()
	if _, err := os.Stat(filepath.Join(dir, "common", "bootstrap")); err == nil {
		return s.readCell(dir)
	}
	entries, err := s.entries(dir)
	if err != nil {
		return fmt.Errorf("cannot read %q: %w", dir, reason(err))
	}
	for _, e := range entries {
		name, file := e.Name(), filepath.Join(dir, e.Name())
		if skipped(name) {
			continue
		}
		k, known := find(name)
		why, other := elsewhere[name]
		var err error
		switch {
		case known:
			// Only whole cells are backed up or spooled by a master.
			s.whole = s.whole || name == "cqueues"
			err = s.readKind(k, file)
		case name == "configuration": // in the directory common
			err = s.readObject(&kinds[1], "conf/global", file)
		case other && why != "":
			if list := s.contents(file); list != "" {
				s.leave(file, list, why)
			}
		case !other && !isDir(file):
			err = s.readOther(file)
		case !other:
			s.leave(file, "", "it is not a folder of a configuration, a backup or a master's spool directory")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readOther reads a file whose name does not show its kind.
func (s *source) readOther(file string) error {
	text, err := s.read(file)
	switch {
	case errors.As(err, new(*userfile.KindError)):
		s.leave(file, "", "it is not a regular file")
		return nil
	case errors.As(err, new(*textfile.SizeError)):
		s.leave(file, "", reason(err).Error())
		return nil
	case err != nil:
		return fmt.Errorf("cannot read %q: %w", file, reason(err))
	}
	return s.identified(file, text)
}

func isDir(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.IsDir()
}

// maxSource is the maximum size of all files together, in bytes.
const maxSource = 64 << 20

// read reads a regular file in a directory.
func (s *source) read(file string) ([]byte, error) {
	if s.foreign == nil {
		return s.counted(userfile.Read(file, textfile.MaxConfig))
	}
	f, err := s.foreign.open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return s.counted(textfile.ReadAll(f, textfile.MaxConfig))
}

// entries returns the entries of a directory.
func (s *source) entries(dir string) ([]fs.DirEntry, error) {
	if s.foreign == nil {
		return os.ReadDir(dir)
	}
	return s.foreign.entries(dir)
}

// enter prepares for reading a directory, until leave is called. If another user may have placed files
// there, root reads them with the rights of that user.
func (s *source) enter(dir string) (leave func(), err error) {
	if s.foreign != nil {
		return func() {}, nil
	}
	if s.foreign, err = foreignOf(dir); err != nil {
		return nil, fmt.Errorf("cannot read %q: %w", dir, err)
	}
	return func() {
		s.foreign.close()
		s.foreign = nil
	}, nil
}

// readNamed reads a file named by the user, which may be a pipe.
func (s *source) readNamed(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return s.counted(textfile.ReadAll(f, textfile.MaxConfig))
}

func (s *source) counted(text []byte, err error) ([]byte, error) {
	if s.size += len(text); err == nil && s.size > maxSource {
		err = fmt.Errorf("all files together have more than %d MiB, which is the limit", maxSource>>20)
	}
	return text, err
}

// contents returns the names in a directory, or the words of a file.
func (s *source) contents(file string) string {
	if entries, err := s.entries(file); err == nil {
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return strings.Join(names, " ")
	}
	text, err := s.read(file)
	if err != nil {
		return reason(err).Error()
	}
	var words []string
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "#") {
			words = append(words, strings.Fields(line)...)
		}
	}
	return strings.Join(words, " ")
}

// readCell reads $SGE_ROOT/$SGE_CELL: the directory common, and the spool directory named there.
func (s *source) readCell(cell string) error {
	common := filepath.Join(cell, "common")
	text, err := s.read(filepath.Join(common, "bootstrap"))
	if err != nil {
		return fmt.Errorf("cannot read the file bootstrap of the cell: %w", err)
	}
	settings := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) > 1 {
			settings[words[0]] = words[1]
		}
	}
	if method := settings["spooling_method"]; method != "classic" {
		return fmt.Errorf("the master of the cell %q stores its objects with the spooling method %q, not in files: use --live while it runs, or the output of save_sge_config.sh", cell, method)
	}
	spool := settings["qmaster_spool_dir"]
	if _, after, ok := strings.Cut(settings["spooling_params"], ";"); ok {
		spool = after
	}
	if spool == "" {
		return fmt.Errorf("cannot find the spool directory of the master: %q does not name it", filepath.Join(common, "bootstrap"))
	}
	s.whole = true
	return errors.Join(s.readDir(common), s.readDir(spool))
}

func skipped(name string) bool { return strings.HasPrefix(name, ".") || strings.HasSuffix(name, "~") }

// readKind reads all objects of a kind.
func (s *source) readKind(k *kind, file string) error {
	info, err := os.Stat(file)
	if err != nil {
		return fmt.Errorf("cannot read %q: %w", file, reason(err))
	}
	if !info.IsDir() {
		if !k.single && k.name != "rqs" {
			s.leave(file, "", "it is a file, expected a folder")
			return nil
		}
		return s.readObject(k, k.name, file)
	}
	leave, err := s.enter(file)
	if err != nil {
		return err
	}
	defer leave()
	s.folders[k.name] = true
	entries, err := s.entries(file)
	if err != nil {
		return fmt.Errorf("cannot read %q: %w", file, reason(err))
	}
	if k.names {
		return s.add(k, listed(k, file, entries))
	}
	var parts []*object
	for _, e := range entries {
		if skipped(e.Name()) || e.Name() == k.skip {
			continue
		}
		at := path.Join(k.name, e.Name())
		if !k.single {
			if err := s.readObject(k, at, filepath.Join(file, e.Name())); err != nil {
				return err
			}
			continue
		}
		text, err := s.read(filepath.Join(file, e.Name()))
		if err != nil {
			return fmt.Errorf("cannot read %q: %w", filepath.Join(file, e.Name()), reason(err))
		}
		parts = append(parts, newObject(at, filepath.Join(file, e.Name()), string(text)))
	}
	if k.single && len(parts) > 0 {
		return s.add(k, complexes(parts))
	}
	return nil
}

func (s *source) readObject(k *kind, at, file string) error {
	text, err := s.read(file)
	if errors.As(err, new(*userfile.KindError)) {
		s.leave(file, "", "it is not a regular file")
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot read %q: %w", file, reason(err))
	}
	if len(strings.TrimSpace(string(text))) == 0 && k.single {
		return nil // written by save_sge_config.sh if there are no objects
	}
	o := newObject(at, file, string(text))
	if k.name == "rqs" {
		frame(o)
	}
	return s.add(k, o)
}

// frame adds the braces around a resource quota set, which classic spooling omits.
func frame(o *object) {
	if firstLine(string(o.text()), "#") == "{" || firstLine(string(o.text()), "#") == "" {
		return
	}
	o.lines = slices.Concat([]string{"{"}, o.lines, []string{"}"})
	o.added = 1
}

// listed builds a list of names from a directory with a file for each name.
func listed(k *kind, folder string, entries []fs.DirEntry) *object {
	var names []string
	for _, e := range entries {
		if !skipped(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return newObject(k.name, folder, strings.Join(names, "\n"))
}

// complexes combines the files of classic spooling, each with one complex, into one file.
func complexes(parts []*object) *object {
	whole := &object{path: "complexes"}
	for _, p := range parts {
		values := map[string]string{}
		for i := range p.lines {
			if name, _, ok := strings.Cut(strings.TrimSpace(p.lines[i]), " "); ok {
				values[name] = p.value(i + 1)
			}
		}
		var row []string
		for _, name := range []string{"name", "shortcut", "type", "relop", "requestable", "consumable", "default", "urgency"} {
			row = append(row, values[name])
		}
		whole.lines = append(whole.lines, strings.Join(row, " "))
		whole.from = append(whole.from, origin{name: p.from[0].name})
	}
	return whole
}

// reason returns an error without the path, which the message already contains.
func reason(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}
