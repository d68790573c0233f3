package compare

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A Difference is something that two recordings disagree about.
type Difference struct {
	Case, Step, File string
	Job              string // or what it is about: a queue instance, a host, a rule
	Field            string
	Want, Got        string
}

// Absent stands for what one of the recordings lacks.
const Absent = "(absent)"

// String names everything there is to name.
func (d Difference) String() string {
	what := d.Job
	if what == "" {
		what = "all"
	}
	return fmt.Sprintf("%s/%s/%s: %s: %s: want %q, got %q", d.Case, d.Step, d.File, what, d.Field, d.Want, d.Got)
}

// Steps lists the captures below a folder output.
func Steps(fsys fs.FS) ([]string, error) {
	entries, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return nil, err
	}
	var steps []string
	for _, e := range entries {
		if e.IsDir() {
			steps = append(steps, e.Name())
		}
	}
	return steps, nil
}

// Dir compares what is in the folder output of the case in dir with what is in got.
func Dir(dir, got string) ([]Difference, error) {
	return Outputs(dir, filepath.Join(dir, "output"), got)
}

// Outputs compares two recordings of the case in dir, folders with a folder for
// each step. Steps that only got has do not count.
func Outputs(dir, wanted, got string) ([]Difference, error) {
	c, err := ReadCase(os.DirFS(dir))
	if err != nil {
		return nil, fmt.Errorf("cannot compare the case %s: %w", dir, err)
	}
	want := os.DirFS(wanted)
	steps, err := Steps(want)
	if err != nil {
		return nil, err
	}
	if len(steps) == 0 {
		return nil, fmt.Errorf("the case %s has no output in %s", dir, wanted)
	}
	var all []Difference
	for _, step := range steps {
		w, err := fs.Sub(want, step)
		if err != nil {
			return nil, err
		}
		diffs, err := c.Step(w, os.DirFS(filepath.Join(got, step)))
		if err != nil {
			return nil, fmt.Errorf("cannot compare step %s of %s: %w", step, dir, err)
		}
		for _, d := range diffs {
			d.Case, d.Step = filepath.Base(dir), step
			all = append(all, d)
		}
	}
	return all, nil
}

// step is a comparison of two captures.
type step struct {
	c     *Case
	file  string
	diffs []Difference
	// rename leads from the instances of got to those of want, where they tie.
	rename map[string]string
	// unlisted are the rows that only one of the recordings has: every table lacks
	// them, and once is enough to say so.
	unlisted map[string]bool
}

func (s *step) differ(job, field, want, got string) {
	if field == "listed" {
		if s.unlisted[job] {
			return
		}
		s.unlisted[job] = true
	}
	d := Difference{File: s.file, Job: job, Field: field, Want: want, Got: got}
	// Several files have the same columns, and once is enough to say it.
	if !slices.ContainsFunc(s.diffs, func(other Difference) bool { other.File = d.File; return other == d }) {
		s.diffs = append(s.diffs, d)
	}
}

// comparers are the files of a capture that can be compared, by name, in the order
// in which that is done. Others, such as notes of when a capture was made, are not
// looked at.
var comparers = []struct {
	pattern string
	compare func(s *step, want, got string) error
}{
	{"qstat.txt", (*step).table},
	{"qstat-gt.txt", (*step).slots},
	{"qstat-pri.txt", (*step).table},
	{"qstat-ext.txt", (*step).table},
	{"qstat-urg.txt", (*step).table},
	{"qstat-gd.txt", (*step).table},
	{"qstat-f.txt", (*step).queues},
	{"qstat-F*.txt", (*step).queues},
	{"qstat-explain-*.txt", (*step).queues},
	{"slots-used.txt", (*step).used},
	{"schedinfo.txt", (*step).reasons},
	{"qquota*.txt", (*step).lines},
	{"qinstance*.txt", (*step).lines},
	{"qhost-F*.txt", (*step).hosts},
	{"qrstat*.txt", (*step).lines},
	{"sge_share_mon.txt", (*step).shares},
	{"schedule-*.txt", (*step).schedule},
}

// Step compares two captures. Every file of want that can be compared must be in
// got, but got may have more.
func (c *Case) Step(want, got fs.FS) ([]Difference, error) {
	s := &step{c: c, unlisted: map[string]bool{}}
	var err error
	if s.rename, err = c.tieBijection(want, got); err != nil {
		return nil, err
	}
	for _, f := range comparers {
		names, err := fs.Glob(want, f.pattern)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			s.file = name
			w, err := fs.ReadFile(want, name)
			if err != nil {
				return nil, err
			}
			g, err := fs.ReadFile(got, name)
			if errors.Is(err, fs.ErrNotExist) {
				s.differ("", "file", "(present)", Absent)
				continue
			}
			if err != nil {
				return nil, err
			}
			if err := f.compare(s, string(w), string(g)); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return s.diffs, nil
}

// sets compares two sets of lines that are about the same thing. close tells
// whether lines that are not equal may still be taken for the same.
func (s *step) sets(about string, want, got []string, same func(a, b string) bool) {
	got = slices.Clone(got)
	var missing []string
	for _, w := range want {
		i := slices.Index(got, w)
		if i < 0 && same != nil {
			i = slices.IndexFunc(got, func(g string) bool { return same(w, g) })
		}
		if i < 0 {
			missing = append(missing, w)
			continue
		}
		got = slices.Delete(got, i, i+1)
	}
	for _, w := range missing {
		s.differ(about, "line", w, Absent)
	}
	for _, g := range got {
		s.differ(about, "line", Absent, g)
	}
}

// words replaces runs of blanks by one.
func words(line string) string { return strings.Join(strings.Fields(line), " ") }

// sortedKeys returns the keys of a map, or of two.
func sortedKeys[K cmp.Ordered, V any](maps ...map[K]V) []K {
	var keys []K
	for _, m := range maps {
		for k := range m {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}
