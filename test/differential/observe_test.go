package differential

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/execd-project/execd/test/gridengine"
)

// An observation holds all results of one case in one cell: field names with their values,
// normalised so that equal behaviour gives equal values.
type observation map[string]string

// observe collects the results that are still available after all phases.
func (d *driver) observe() error {
	for i := range d.cases {
		o := d.observation(i)
		for key, value := range d.notes[d.jobs[i]] {
			o["note/"+key] = value
		}
	}
	return errors.Join(d.observeAccounting(), d.observeProbes(), d.observeHome())
}

func (d *driver) observation(i int) observation {
	if d.seen[i] == nil {
		d.seen[i] = observation{"job number": strconv.Itoa(d.jobs[i])}
	}
	return d.seen[i]
}

// indexOf returns the index of a job's case, or -1.
func (d *driver) indexOf(job int) int { return slices.Index(d.jobs, job) }

// observeAccounting adds the accounting records, by task and number.
func (d *driver) observeAccounting() error {
	records, err := d.cell.Records()
	if err != nil {
		return err
	}
	count := map[[2]int]int{}
	for _, r := range records {
		i := d.indexOf(r.Job())
		if i < 0 {
			return fmt.Errorf("accounting of a job that was never submitted: %v", r)
		}
		task := [2]int{r.Job(), r.Task()}
		count[task]++
		prefix := fmt.Sprintf("acct/%d.%d/", r.Task(), count[task])
		for name, value := range r {
			d.observation(i)[prefix+name] = d.cases[i].measurement(prefix+name, value)
		}
		// For times: whether they exist, and whether they are consistent.
		start, _ := strconv.Atoi(r["start_time"])
		end, _ := strconv.Atoi(r["end_time"])
		wall, _ := strconv.ParseFloat(r["ru_wallclock"], 64)
		for _, name := range []string{"qsub_time", "start_time", "end_time"} {
			d.observation(i)[prefix+name] = fmt.Sprintf("set: %v", r[name] != "0")
		}
		d.observation(i)[prefix+"times fit"] = fmt.Sprint(end >= start && math.Abs(float64(end-start)-wall) <= 1)
	}
	return nil
}

// measurement hides the measurements of a case with an act function: the test itself determines how
// long such a job runs and how often it checks for its flag.
func (c jobCase) measurement(field, value string) string {
	if c.act == nil {
		return value
	}
	for _, m := range measures {
		if m.field.MatchString(field) {
			_, err := strconv.ParseFloat(value, 64)
			return fmt.Sprintf("number: %v", err == nil)
		}
	}
	return value
}

// observeProbes adds the reports of the probe: seen/JOB.TASK.LABEL.COUNT.json.
func (d *driver) observeProbes() error {
	names, err := filepath.Glob(d.cell.Path(seenDir) + "/*.json")
	if err != nil {
		return err
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		var report any
		if err := json.Unmarshal(text, &report); err != nil {
			return fmt.Errorf("cannot read the report %q: %w", name, err)
		}
		number, rest, _ := strings.Cut(strings.TrimSuffix(filepath.Base(name), ".json"), ".")
		if repeated.MatchString(rest) {
			continue
		}
		job, _ := strconv.Atoi(number)
		i := d.indexOf(job)
		if i < 0 {
			return fmt.Errorf("report %q belongs to no job", name)
		}
		flatten(d.observation(i), "seen/"+rest, report)
	}
	return nil
}

var (
	// repeated matches the second and later runs of a terminate method: on a busy machine the master repeats
	// its order to end a job.
	repeated    = regexp.MustCompile(`^\d+\.terminate\.([2-9]|\d\d)`)
	groupsOfJob = regexp.MustCompile(`\b30\d\d\d\b`)
	// methodPID matches the process ID with which the tool "method" is started, as an argument and
	// in the shell command line.
	methodPID  = regexp.MustCompile(`(/method \w+) \d+`)
	methodArgv = regexp.MustCompile(`/1\.(suspend|resume|terminate|migrate)\.\d+/Processes/1/Argv/3$`)
)

// flatten adds a JSON value under a path. Variables have names instead of numbers, and the
// additional group ID, which changes from job to job, loses its number.
func flatten(o observation, path string, value any) {
	switch v := value.(type) {
	case map[string]any:
		for key, value := range v {
			flatten(o, path+"/"+key, value)
		}
	case []any:
		if strings.HasSuffix(path, "/Environ") {
			for _, e := range v {
				name, text, _ := strings.Cut(e.(string), "=")
				for _, twice := o[path+"/"+name]; twice; _, twice = o[path+"/"+name] {
					name += " again"
				}
				o[path+"/"+name] = text
			}
			return
		}
		for i, value := range v {
			flatten(o, fmt.Sprintf("%s/%d", path, i), value)
		}
	default:
		text := fmt.Sprint(v)
		if strings.HasSuffix(path, "/Groups") {
			text = groupsOfJob.ReplaceAllString(text, "GID")
		}
		text = methodPID.ReplaceAllString(text, "$1 PID")
		if methodArgv.MatchString(path) && isNumber(text) {
			text = "PID"
		}
		o[path] = text
	}
}

// observeActive adds the files of the active_jobs directories that still exist.
func (d *driver) observeActive(p phase) {
	for i, c := range d.cases {
		if c.phase != p || p != phaseMain {
			continue
		}
		dirs, _ := filepath.Glob(filepath.Join(d.cell.SpoolDir(), "active_jobs", strconv.Itoa(d.jobs[i])+".*"))
		for _, dir := range dirs {
			prefix := "active/" + strings.TrimPrefix(filepath.Ext(dir), ".") + "/"
			entries, err := os.ReadDir(dir)
			if err != nil {
				d.observation(i)[prefix+"error"] = err.Error()
			}
			for _, e := range entries {
				addFile(d.observation(i), prefix+e.Name(), filepath.Join(dir, e.Name()))
				if text, err := os.ReadFile(filepath.Join(dir, e.Name())); err == nil {
					d.cases[i].addActive(d.observation(i), prefix+e.Name(), e.Name(), string(text))
				}
			}
		}
	}
}

// trace returns the shepherd's trace file, if it was kept.
func (d *driver) trace(i int) string {
	names, _ := filepath.Glob(filepath.Join(filepath.Dir(d.cell.ActiveDir(d.jobs[i], 0)), strconv.Itoa(d.jobs[i])+".*", "trace"))
	var b strings.Builder
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			text = []byte(err.Error())
		}
		b.Write(text)
	}
	return b.String()
}

// messageHead matches the prefix of a message in the files error and trace. Open Cluster Scheduler writes dates
// in the form of ISO 8601.
var messageHead = regexp.MustCompile(`(?m)^(\d\d/\d\d/\d{4} \d\d:\d\d:\d\d|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+) \[\d+:\d+\]: `)

// addActive adds the content of a file in the active_jobs directory.
func (c jobCase) addActive(o observation, field, name, text string) {
	switch name {
	case "config", "usage":
		for line := range strings.Lines(text) {
			key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
			switch key {
			case "add_grp_id", "ckpt_osjobid", "submission_time", "start_time", "end_time":
				value = "number: " + strconv.FormatBool(isNumber(value))
			}
			o[field+"/"+key] = c.measurement(field+"/"+key, value)
		}
	case "pid", "job_pid", "addgrpid":
		// One number and the end of the line.
		o[field+"/content"] = fmt.Sprintf("number: %v", isNumber(strings.TrimSuffix(text, "\n")) && strings.HasSuffix(text, "\n"))
	case "trace":
		// Text for people, which is not compared.
	case "error":
		o[field+"/content"] = messageHead.ReplaceAllString(text, "")
	default:
		o[field+"/content"] = text
	}
}

func isNumber(s string) bool {
	_, err := strconv.ParseUint(s, 10, 32)
	return err == nil
}

// addFile adds a file's type, mode and owner.
func addFile(o observation, field, path string) {
	info, err := os.Lstat(path)
	if err != nil {
		o[field] = err.Error()
		return
	}
	o[field] = gridengine.Owner(info)
}

var (
	inOutDir  = regexp.MustCompile(`^(c\d{3})(?:/|$)`)
	jobOfFile = regexp.MustCompile(`\.(?:o|e|po|pe)?(\d+)(?:x|\.\d+)?$`)
)

// observeHome adds the files that the jobs left in their owner's home directory.
func (d *driver) observeHome() error {
	home := d.cell.Path("/home/alice")
	return filepath.WalkDir(home, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(home, path)
		i := -1
		if m := inOutDir.FindStringSubmatch(name); m != nil {
			i = slices.IndexFunc(d.cases, func(c jobCase) bool { return c.slug == m[1] })
		} else if m := jobOfFile.FindStringSubmatch(name); m != nil {
			job, _ := strconv.Atoi(m[1])
			i = d.indexOf(job)
		}
		if i < 0 {
			if name == "." || regexp.MustCompile(`^c\d{3}\.sh$`).MatchString(name) {
				return nil
			}
			return fmt.Errorf("the file %q in alice's home belongs to no job", name)
		}
		field := "home/" + name
		addFile(d.observation(i), field, path)
		if e.Type().IsRegular() && !strings.HasPrefix(e.Name(), "core") {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			d.observation(i)[field+"/content"] = gotOnce(string(text))
		}
		return nil
	})
}

// gotOnce removes repeated signals from a job's output: the original signals the process group and
// then each process, so that most signals arrive twice, but a slow shell sees them as one.
func gotOnce(text string) string {
	var b strings.Builder
	last := ""
	for line := range strings.Lines(text) {
		if line != last || !strings.HasPrefix(line, "got ") {
			b.WriteString(line)
		}
		last = line
	}
	return b.String()
}
