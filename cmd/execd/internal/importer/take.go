package importer

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing/fstest"

	"github.com/execd-project/execd/internal/configdir"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler/calendar"
)

// Result is a new configuration directory, before it is written.
type Result struct {
	Files    map[string][]byte // by path
	Folders  []string          // directories without files
	Left     []string          // everything that was skipped, one line each
	Warnings []string
}

// take builds a valid configuration from the objects read. It removes invalid parts, as little as
// possible, and reports them. If partial is set, names may refer to objects of kinds that were not
// read at all.
func (s *source) take(partial bool) (*Result, error) {
	options := qconf.Options{
		Year: func(text string) error { _, err := calendar.Parse(text, ""); return err },
		Week: func(text string) error { _, err := calendar.Parse("", text); return err },
	}
	if !s.whole {
		options.Base = qconf.Builtin(runtime.NumCPU())
	}
	// Each round removes something, so the loop terminates.
	for {
		found := qconf.Check(s.fs(), options)
		wrong := found.Errors
		if !partial && len(wrong) == 0 { // refused objects do not exist
			wrong = found.Missing
		}
		if len(wrong) == 0 {
			return s.result(options, found.Warnings)
		}
		type spot struct {
			file string
			line int
		}
		done := map[spot]bool{}
		for _, e := range wrong {
			o := s.objects[e.File]
			switch {
			case done[spot{e.File, 0}], done[spot{e.File, e.Line}]: // other errors at this place may no longer apply
				continue
			case o == nil:
				return nil, e
			}
			before := string(o.text())
			if s.repair(o, e); s.objects[e.File] == o && string(o.text()) == before {
				s.leaveWhole(o, e)
			}
			done[spot{e.File, e.Line}] = true
			done[spot{e.File, 0}] = s.objects[e.File] == nil
		}
	}
}

// repair removes the part that an error refers to.
func (s *source) repair(o *object, e *qconf.Error) {
	at := o.origin(e.Line)
	whole := e.Line == 0 || e.Line > len(o.lines) || o.path == "sharetree" || strings.TrimSpace(o.lines[e.Line-1]) == ""
	list := o.path != "complexes" && !strings.HasPrefix(o.path, "rqs")
	switch {
	case whole:
		s.leaveWhole(o, e)
	case list && e.Value == none && o.emptied[e.Line]: // already reported
		o.dropNone(e.Line)
	case list && o.dropItem(e.Line, e.Value):
		s.left = append(s.left, finding{at, e.Attribute + " " + e.Value, e.Problem})
	default:
		what := cmp.Or(e.Attribute, strings.Fields(o.lines[e.Line-1])[0])
		o.drop(e.Line)
		s.left = append(s.left, finding{at, what, e.Problem})
	}
}

// leaveWhole removes a whole object.
func (s *source) leaveWhole(o *object, e *qconf.Error) {
	delete(s.objects, o.path)
	why := "all of " + o.path + ": " + strings.TrimPrefix(e.Attribute+": ", ": ") + e.Problem
	s.left = append(s.left, finding{o.origin(e.Line), "", why})
}

// fs returns the remaining objects as a file system.
func (s *source) fs() fstest.MapFS {
	files := fstest.MapFS{}
	for path, o := range s.objects {
		files[path] = &fstest.MapFile{Data: o.text()}
	}
	for _, folder := range s.empty() {
		files[folder] = &fstest.MapFile{Mode: fs.ModeDir | 0o755}
	}
	return files
}

// empty returns the directories without objects. They show that a kind was searched for and has no
// objects, so that the built-in ones do not apply.
func (s *source) empty() []string {
	have := map[string]bool{}
	for path := range s.objects {
		folder, _, _ := strings.Cut(path, "/")
		have[folder] = true
	}
	return slices.DeleteFunc(configdir.Folders(), func(folder string) bool {
		return have[folder] || !s.whole && !s.folders[folder]
	})
}

// result formats every object that was read.
func (s *source) result(options qconf.Options, warnings []*qconf.Error) (*Result, error) {
	options.Dangling = true
	cluster, err := qconf.LoadWith(s.fs(), options)
	if err != nil {
		return nil, fmt.Errorf("cannot read the remaining configuration: %w", err)
	}
	if len(s.objects) == 0 {
		return nil, errors.New("there is nothing to import")
	}
	r := &Result{Files: map[string][]byte{}, Folders: s.empty()}
	all := configdir.Files(cluster)
	lower := map[string]string{} // host names are compared in lower case
	for path := range all {
		lower[strings.ToLower(path)] = path
	}
	for path, o := range s.objects {
		at := lower[strings.ToLower(path)]
		switch {
		case strings.HasPrefix(path, "rqs"):
			r.Files["rqs"] = all["rqs"]
		case at == "" && slices.ContainsFunc(kinds, func(k kind) bool { return k.names && k.name == path }): // nobody is left
		case at == "":
			return nil, fmt.Errorf("%s: cannot find it in the files under the name %s", o.origin(0), path)
		default:
			r.Files[path] = all[at]
		}
	}
	if r.Files["rqs"] != nil {
		r.Folders = slices.DeleteFunc(r.Folders, func(name string) bool { return name == "rqs" })
	}
	for _, f := range s.left {
		r.Left = append(r.Left, f.String())
	}
	slices.Sort(r.Left)
	for _, w := range warnings {
		if o := s.objects[w.File]; o != nil {
			w.File, w.Line = o.origin(w.Line).name, o.origin(w.Line).line
		}
		r.Warnings = append(r.Warnings, w.Error())
	}
	return r, nil
}

// count returns the number of imported files per directory, as text.
func (r *Result) count() string {
	numbers := map[string]int{}
	for path, text := range r.Files {
		folder, _, _ := strings.Cut(path, "/")
		numbers[folder]++
		if path == "rqs" {
			numbers[folder] = strings.Count(string(text), "\n}") // each set ends with this line
		}
	}
	var words []string
	for _, name := range slices.Sorted(maps.Keys(numbers)) {
		words = append(words, fmt.Sprintf("%s %d", name, numbers[name]))
	}
	return strings.Join(words, ", ")
}
