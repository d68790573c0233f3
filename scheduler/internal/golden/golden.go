// Package golden reads recorded cases of the real scheduler of Grid Engine 8.1.9 for tests: its
// input, and its decisions as qstat and sge_share_mon printed them. It is only for the tests of the
// packages below scheduler, and reads only the data that they need.
//
// A case is a directory: jobs.txt contains the commands, input the output of qconf at the end, and
// output a directory for each moment at which the state was printed.
package golden

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Case is a recorded case.
type Case struct {
	Steps     []*Step
	Users     []Object
	Projects  []Object
	UserSets  []Object
	PEs       []Object
	Complexes []Complex
	Tree      []Node // the root first
	conf      Object // at the end
	fsys      fs.FS
}

// Object holds the attributes of an object as qconf printed them.
type Object map[string]string

// Number returns a numeric attribute.
func (o Object) Number(name string) float64 {
	v, err := strconv.ParseFloat(o[name], 64)
	if err != nil {
		return 0
	}
	return v
}

// Find returns the index of the object with the name, or -1.
func Find(objects []Object, name string) int {
	if name == "" {
		return -1
	}
	return slices.IndexFunc(objects, func(o Object) bool { return o["name"] == name || o["pe_name"] == name })
}

// Complex is a line of complex(5), as far as the urgency needs it.
type Complex struct {
	Name, Shortcut string
	Text           bool
	Urgency        float64
}

// Node is a node of share_tree(5). Children are indexes.
type Node struct {
	Name     string
	Project  bool
	Shares   float64
	Children []int
}

// Job is a job as it was submitted and altered until a step.
type Job struct {
	ID              uint32
	Name            string
	User            string
	Project         string // -P
	Shares          float64
	OverrideTickets float64
	Priority        int
	Submitted       int64
	Deadline        int64
	PE              string
	Slots           [][2]int // -pe; the second is 0 for an open range
	Requests        [][2]string
	Tasks           int // -t 1-N; 0 for none
}

// Step is a moment at which the state was printed.
type Step struct {
	Name string
	Conf Object // sched_conf(5) at that moment
	Jobs []*Job // submitted until then
	Rows []*Row // of qstat, in its order
	// Share are the lines of sge_share_mon by path, for each of its outputs.
	Share []map[string]Object
	dir   string
}

// Row is a line of qstat, put together from -ext, -pri and -urg: the columns by
// their names in the header.
type Row struct {
	Job     *Job
	Task    string // ja-task-ID
	Running bool
	Ext     Object
	Pri     Object
	Urg     Object
}

// Read reads the case in a directory.
func Read(fsys fs.FS) (*Case, error) {
	c := &Case{fsys: fsys}
	var errs []error
	for _, f := range []struct {
		folder string
		to     *[]Object
	}{{"users", &c.Users}, {"projects", &c.Projects}, {"usersets", &c.UserSets}, {"pes", &c.PEs}} {
		names, err := fs.Glob(fsys, path.Join("input", f.folder, "*"))
		errs = append(errs, err)
		for _, name := range names {
			o, err := c.readObject(name)
			errs = append(errs, err)
			*f.to = append(*f.to, o)
		}
	}
	var err error
	c.conf, err = c.readObject("input/sched_conf")
	errs = append(errs, err, c.readComplexes(), c.readTree(), c.readScript())
	for _, s := range c.Steps {
		errs = append(errs, s.read(c))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("cannot read the case: %w", err)
	}
	return c, nil
}

// File returns the contents of another file of the case.
func (c *Case) File(name ...string) (string, error) {
	b, err := fs.ReadFile(c.fsys, path.Join(name...))
	return string(b), err
}

func (c *Case) readObject(name string) (Object, error) {
	text, err := c.File(name)
	o := Object{}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			o[key] = strings.TrimSpace(value)
		}
	}
	return o, err
}

func (c *Case) readComplexes() error {
	text, err := c.File("input", "complexes")
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) != 8 || strings.HasPrefix(line, "#") {
			continue
		}
		x := Complex{Name: f[0], Shortcut: f[1], Text: slices.Contains([]string{"STRING", "CSTRING", "RESTRING", "HOST"}, f[2])}
		if x.Urgency, err = strconv.ParseFloat(f[7], 64); err != nil {
			return err
		}
		c.Complexes = append(c.Complexes, x)
	}
	return err
}

func (c *Case) readTree() error {
	text, err := c.File("input", "sharetree")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if key == "id" {
			if value != strconv.Itoa(len(c.Tree)) {
				return fmt.Errorf("the node %q comes out of order", value)
			}
			c.Tree = append(c.Tree, Node{})
			continue
		}
		n := &c.Tree[len(c.Tree)-1]
		switch key {
		case "name":
			n.Name = value
		case "type":
			n.Project = value == "1"
		case "shares":
			n.Shares, err = strconv.ParseFloat(value, 64)
		case "childnodes":
			if value == "NONE" {
				continue
			}
			for id := range strings.SplitSeq(value, ",") {
				i, bad := strconv.Atoi(id)
				n.Children, err = append(n.Children, i), errors.Join(err, bad)
			}
		}
	}
	return err
}

// Number reads a value of a request (complex(5)), of the notations that occur.
func Number(s string) (float64, error) {
	switch strings.ToLower(s) {
	case "true":
		return 1, nil
	case "false":
		return 0, nil
	}
	factor := 1.0
	if i := strings.IndexByte("kKmMgG", s[len(s)-1]); i >= 0 {
		factor = []float64{1e3, 1 << 10, 1e6, 1 << 20, 1e9, 1 << 30}[i]
		s = s[:len(s)-1]
	}
	v, err := strconv.ParseFloat(s, 64)
	return v * factor, err
}

// parseTime reads the date and time of qstat, which ran in UTC.
func parseTime(date, clock string) (int64, error) {
	t, err := time.Parse("01/02/2006 15:04:05", date+" "+clock)
	return t.Unix(), err
}
