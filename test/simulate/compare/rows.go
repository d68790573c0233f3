package compare

import (
	"fmt"
	"regexp"
	"strings"
)

// A row is a line of a table of qstat.
type row struct {
	key     string // which job or task, and whether it is pending
	columns map[string]string
	pending bool
	text    string
}

// pendingMark stands behind the number of a job that waits, in its key.
const pendingMark = " (pending)"

func isPending(key string) bool { return strings.Contains(key, pendingMark) }

func (r *row) String() string {
	return words(strings.Join([]string{r.columns["state"], r.columns["queue"], r.columns["ja-task-ID"]}, " "))
}

var (
	date = regexp.MustCompile(`^\d\d/\d\d/\d{4}$`)
	id   = regexp.MustCompile(`^\d+$`)
)

// header splits the first line of a table into the names of the columns.
func header(line string) []string {
	return strings.Fields(strings.Replace(line, "submit/start at", "submit/start_at", 1))
}

// queueHeader are the columns of a job below its queue instance (qstat -f).
var queueHeader = header("job-ID prior name user state submit/start at slots ja-task-ID")

// parseRow reads a line of a table. It recognises columns by their content, because a value that is too
// long for its column shifts the following ones.
func parseRow(names []string, line string) (*row, error) {
	rest := strings.Fields(line)
	r := &row{columns: map[string]string{}, text: strings.TrimSuffix(line, "\n")}
	for _, name := range names {
		n := 1
		switch name {
		case "submit/start_at":
			n = 2
		case "deadline":
			if len(rest) == 0 || !date.MatchString(rest[0]) {
				continue
			}
			n = 2
		case "cpu", "mem", "io", "queue", "master":
			if r.pending {
				continue
			}
		case "ja-task-ID":
			if len(rest) == 0 {
				continue
			}
		}
		if len(rest) < n {
			return nil, fmt.Errorf("%q lacks its %s", line, name)
		}
		r.columns[name] = strings.Join(rest[:n], " ")
		rest = rest[n:]
		if name == "state" {
			// A job that has been started has neither letter.
			r.pending = strings.ContainsAny(r.columns[name], "qw")
		}
	}
	if len(rest) > 0 {
		return nil, fmt.Errorf("%q has more columns than its table", line)
	}
	r.key = r.columns["job-ID"]
	if r.pending {
		r.key += pendingMark
	} else if task := r.columns["ja-task-ID"]; task != "" {
		r.key += "." + task
	}
	return r, nil
}

// numbering numbers the keys of rows about the same job.
type numbering map[string]int

func (n numbering) number(r *row) {
	if n[r.key]++; n[r.key] > 1 {
		r.key = fmt.Sprintf("%s #%d", r.key, n[r.key])
	}
}

// parseTable reads a table of qstat. Of rows about the same job, which holds of
// arrays with tasks in several states, the keys are numbered.
func parseTable(text string) ([]*row, error) {
	var names []string
	var rows []*row
	seen := numbering{}
	for line := range strings.Lines(text) {
		switch f := strings.Fields(line); {
		case len(f) == 0, strings.HasPrefix(line, "---"):
		case f[0] == "job-ID":
			names = header(line)
		default:
			r, err := parseRow(names, line)
			if err != nil {
				return nil, err
			}
			seen.number(r)
			rows = append(rows, r)
		}
	}
	return rows, nil
}

// parseSlots reads the table of qstat -g t, which has a line for each slot: how
// often each line occurs, by task and queue instance. Below the first line of a
// task on an instance further ones are about the same task.
func parseSlots(text string) (map[string]map[string]int, error) {
	var names []string
	var last *row
	slots := map[string]map[string]int{}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		switch {
		case len(f) == 0, strings.HasPrefix(line, "---"):
			continue
		case f[0] == "job-ID":
			names = header(line)
			continue
		case id.MatchString(f[0]):
			r, err := parseRow(names, line)
			if err != nil {
				return nil, err
			}
			last = r
		case last == nil || len(f) < 2:
			return nil, fmt.Errorf("%q belongs to no job", line)
		default:
			last = &row{key: last.key, columns: map[string]string{"queue": f[0], "master": f[1]}}
		}
		if slots[last.key] == nil {
			slots[last.key] = map[string]int{}
		}
		slots[last.key][words(last.columns["master"]+" "+last.columns["queue"])]++
	}
	return slots, nil
}
