package golden

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// read reads the outputs of a step.
func (s *Step) read(c *Case) error {
	for _, t := range []struct {
		file  string
		under func(*Row) *Object
	}{
		{"qstat-ext.txt", func(r *Row) *Object { return &r.Ext }},
		{"qstat-pri.txt", func(r *Row) *Object { return &r.Pri }},
		{"qstat-urg.txt", func(r *Row) *Object { return &r.Urg }},
	} {
		text, err := c.File(s.dir, t.file)
		if err != nil {
			return err
		}
		lines := strings.Split(strings.TrimSpace(text), "\n")
		for _, line := range lines[min(2, len(lines)):] {
			row, columns, err := s.parse(lines[0], line)
			if err != nil {
				return fmt.Errorf("%s of %q: %w", t.file, s.Name, err)
			}
			if t.file == "qstat-ext.txt" {
				s.Rows = append(s.Rows, row)
			}
			// The files were not printed at the same instant, and running jobs may
			// have changed places.
			i := slices.IndexFunc(s.Rows, func(r *Row) bool { return r.Job == row.Job && r.Task == row.Task && r.Running == row.Running })
			if i < 0 {
				return fmt.Errorf("%s of %q: %q is in no other file", t.file, s.Name, line)
			}
			*t.under(s.Rows[i]) = columns
		}
	}
	text, err := c.File(s.dir, "sge_share_mon.txt")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var names []string
	for line := range strings.Lines(text) {
		f := strings.Split(strings.TrimRight(line, "\n"), "\t")
		switch {
		case f[0] == "curr_time":
			names = f
			s.Share = append(s.Share, map[string]Object{})
		case len(f) >= len(names)-1 && len(names) > 0:
			o := Object{}
			for i, name := range names {
				o[name] = f[i]
			}
			s.Share[len(s.Share)-1][o["node_name"]] = o
		}
	}
	return nil
}

// parse reads a line of qstat. It recognises the columns by their content, because names may be
// longer than their columns.
func (s *Step) parse(header, line string) (*Row, Object, error) {
	header = strings.Replace(header, "submit/start at", "submit/start_at", 1)
	names, words := strings.Fields(header), strings.Fields(line)
	o := Object{}
	row := &Row{}
	take := func(n int) (string, bool) {
		if n > len(words) {
			return "", false
		}
		v := strings.Join(words[:n], " ")
		words = words[n:]
		return v, true
	}
	for _, name := range names {
		n := 1
		switch name {
		case "submit/start_at":
			n = 2
		case "deadline":
			if n = 2; row.Job.Deadline == 0 {
				continue
			}
		case "cpu", "mem", "io", "queue":
			if !row.Running {
				continue
			}
		case "ja-task-ID":
			if len(words) == 0 {
				continue
			}
		}
		v, ok := take(n)
		if !ok {
			return nil, nil, fmt.Errorf("%q lacks its %s", line, name)
		}
		o[name] = v
		switch name {
		case "job-ID":
			id, err := strconv.ParseUint(v, 10, 32)
			for _, j := range s.Jobs {
				if j.ID == uint32(id) {
					row.Job = j
				}
			}
			if err != nil || row.Job == nil {
				return nil, nil, fmt.Errorf("%q is a job that was not submitted", line)
			}
		case "state":
			row.Running = v == "r" || v == "t"
		case "submit/start_at":
			at, err := parseTime(dateAndClock(v))
			if err != nil {
				return nil, nil, err
			}
			// Of a job that runs the time of its start is printed.
			if !row.Running || row.Job.Submitted == 0 {
				row.Job.Submitted = at
			}
		case "ja-task-ID":
			row.Task = v
		}
	}
	if len(words) != 0 {
		return nil, nil, fmt.Errorf("%q has more columns than its header", line)
	}
	return row, o, nil
}

func dateAndClock(s string) (date, clock string) {
	date, clock, _ = strings.Cut(s, " ")
	return date, clock
}
