package drmaa

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/execd-project/execd/internal/lazyregexp"
	"github.com/execd-project/execd/internal/textfile"
	"github.com/execd-project/execd/internal/userfile"
	"github.com/execd-project/execd/submit"
)

// The names of attributes in drmaa.h.
const (
	remoteCommand = "drmaa_remote_command"
	jobState      = "drmaa_js_state"
	directory     = "drmaa_wd"
	category      = "drmaa_job_category"
	native        = "drmaa_native_specification"
	blockEmail    = "drmaa_block_email"
	startTime     = "drmaa_start_time"
	jobName       = "drmaa_job_name"
	inputPath     = "drmaa_input_path"
	outputPath    = "drmaa_output_path"
	errorPath     = "drmaa_error_path"
	joinFiles     = "drmaa_join_files"
	wallHard      = "drmaa_wct_hlimit"
	wallSoft      = "drmaa_wct_slimit"
	durationHard  = "drmaa_duration_hlimit"
	durationSoft  = "drmaa_duration_slimit"
	arguments     = "drmaa_v_argv"
	environment   = "drmaa_v_env"
	email         = "drmaa_v_email"
)

// Placeholders in paths.
const (
	indexPlace   = "$drmaa_incr_ph$"
	homePlace    = "$drmaa_hd_ph$"
	workingPlace = "$drmaa_wd_ph$"
)

// limits lists the attributes that correspond to resources of qsub -l, in seconds.
var limits = []struct{ attribute, resource string }{
	{wallHard, "h_rt"}, {wallSoft, "s_rt"}, {durationHard, "h_cpu"}, {durationSoft, "s_cpu"},
}

// template is a job template: the values of the attributes that are set.
type template map[string][]string

func (t template) value(name string) (string, bool) {
	v, ok := t[name]
	if !ok || len(v) == 0 {
		return "", false
	}
	return v[0], true
}

// choices lists the attributes with a fixed set of values.
var choices = map[string][]string{
	jobState: {"drmaa_active", "drmaa_hold"}, blockEmail: {"0", "1"}, joinFiles: {"y", "n"},
}

// check checks the value of an attribute before it is set.
func check(name string, values []string) *callError {
	value := ""
	if len(values) > 0 {
		value = values[0]
	}
	if allowed := choices[name]; allowed != nil && !slices.Contains(allowed, value) {
		return failure(invalidValue, "%s: invalid value %q: expected %s", name, value, strings.Join(allowed, " or "))
	}
	switch name {
	case inputPath, outputPath, errorPath:
		_, path, ok := strings.Cut(value, ":")
		switch {
		case !ok || path == "":
			return failure(invalidFormat, "%s: invalid value %q: expected [HOST]:PATH", name, value)
		case strings.ContainsAny(value, ",\n"):
			return failure(invalidValue, "%s: invalid value %q: qsub takes no path with a comma or a line break", name, value)
		}
	case jobName, remoteCommand:
		if value == "" {
			return failure(invalidValue, "%s: the value is empty", name)
		}
	case startTime:
		if _, err := parseStart(value, time.Now()); err != nil {
			return failure(invalidFormat, "%s: invalid value %q: %v", name, value, err)
		}
	case wallHard, wallSoft, durationHard, durationSoft:
		if _, err := seconds(value); err != nil {
			return failure(invalidFormat, "%s: invalid value %q: %v", name, value, err)
		}
	case environment:
		for _, v := range values {
			if n := strings.IndexByte(v, '='); n <= 0 {
				return failure(invalidFormat, "%s: invalid value %q: expected NAME=VALUE", name, v)
			}
		}
	case email:
		for _, v := range values {
			if v == "" || strings.ContainsAny(v, ", \n") {
				return failure(invalidFormat, "%s: invalid address %q", name, v)
			}
		}
	}
	return nil
}

// startForm matches [[[[CC]YY/]MM/]DD] hh:mm[:ss] [{-|+}UU:uu].
var startForm = lazyregexp.New(`^(?:(?:(\d{2}|\d{4})/)?(\d{2})/)?(?:(\d{2}) +)?(\d{1,2}):(\d{2})(?::(\d{2}))?(?: *([+-])(\d{2}):(\d{2}))?$`)

// parseStart parses a time of drmaa_start_time. If parts are omitted, it returns the next time that
// matches.
func parseStart(s string, now time.Time) (time.Time, error) {
	const form = "expected [[[[CC]YY/]MM/]DD] hh:mm[:ss] [{-|+}UU:uu]"
	m := startForm().FindStringSubmatch(strings.TrimSpace(s))
	if m == nil || m[2] != "" && m[3] == "" {
		return time.Time{}, errors.New(form)
	}
	n := func(i int) int { v, _ := strconv.Atoi(m[i]); return v } // startForm allows only digits here
	zone := now.Location()
	if m[7] != "" {
		offset := n(8)*3600 + n(9)*60
		if n(8) > 14 || n(9) > 59 {
			return time.Time{}, errors.New("the offset from UTC is not between -14:59 and +14:59")
		}
		if m[7] == "-" {
			offset = -offset
		}
		zone = time.FixedZone("", offset)
	}
	if n(4) > 23 || n(5) > 59 || n(6) > 61 {
		return time.Time{}, errors.New("there is no such time of day")
	}
	today := now.In(zone)
	year, month, day := today.Year(), int(today.Month()), today.Day()
	step := [3]int{0, 0, 1} // years, months, days to the next possible time
	if m[3] != "" {
		day, step = n(3), [3]int{0, 1, 0}
	}
	if m[2] != "" {
		month, step = n(2), [3]int{1, 0, 0}
	}
	switch len(m[1]) {
	case 2:
		year, step = year-year%100+n(1), [3]int{100, 0, 0}
	case 4:
		year, step = n(1), [3]int{}
	}
	for range 12 { // the next 31st may be months away, the next 29th of February years
		t := time.Date(year, time.Month(month), day, n(4), n(5), n(6), 0, zone)
		if t.Day() != day && n(6) < 60 || month < 1 || month > 12 {
			if step == [3]int{} {
				break
			}
		} else if step == [3]int{} || t.After(now) {
			return t, nil
		}
		year, month, day = year+step[0], month+step[1], day+step[2]
		if step[2] != 0 {
			next := time.Date(year, time.Month(month), day, 0, 0, 0, 0, zone)
			year, month, day = next.Year(), int(next.Month()), next.Day()
		}
		if month > 12 && step[1] != 0 {
			year, month = year+1, 1
		}
	}
	return time.Time{}, errors.New("there is no such day")
}

// seconds parses [[h:]m:]s.
func seconds(s string) (int, error) {
	parts := strings.Split(s, ":")
	if len(parts) > 3 {
		return 0, errors.New("expected [[h:]m:]s")
	}
	total := 0
	for _, p := range parts {
		v, err := strconv.ParseUint(p, 10, 31)
		if err != nil || total > 1<<31 {
			return 0, errors.New("expected [[h:]m:]s")
		}
		total = total*60 + int(v)
	}
	return total, nil
}

// surroundings describes the program that submits a template.
type surroundings struct {
	directory   string   // working directory of the program
	environment []string // of the program
	home        string
	now         time.Time
}

// indexed reports whether each job of a bulk needs its own submission: qsub replaces the index of a
// task only in paths of files.
func (t template) indexed() bool {
	wd, _ := t.value(directory)
	return strings.Contains(wd, indexPlace)
}

// commandLine returns the qsub arguments for a template, and the environment for -v NAME. index
// replaces the placeholder for the index of a bulk job in paths; it is empty for a single job.
func (t template) commandLine(s *surroundings, index string, array string) (args, env []string, e *callError) {
	command, ok := t.value(remoteCommand)
	if !ok {
		return nil, nil, failure(deniedByDRM, "%s is not set", remoteCommand)
	}
	// These precede all options of the template, as in the original.
	args = []string{"-b", "y", "-shell", "n", "-w", "e"}
	for _, name := range []string{category, native} {
		more, err := t.options(s, name)
		if err != nil {
			return nil, nil, failure(deniedByDRM, "%s: %v", name, err)
		}
		args = append(args, more...)
	}
	wd := ""
	if v, ok := t.value(directory); ok {
		wd = place(v, homePlace, s.home)
		if wd, e = indexedPath(directory, wd, index); e != nil {
			return nil, nil, e
		}
		if !filepath.IsAbs(wd) {
			wd = filepath.Join(s.home, wd)
		}
		args = append(args, "-wd", wd)
	}
	for _, p := range []struct{ name, option string }{{inputPath, "-i"}, {outputPath, "-o"}, {errorPath, "-e"}} {
		if v, ok := t.value(p.name); ok {
			file, e := path(p.name, v, wd, s.home, index)
			if e != nil {
				return nil, nil, e
			}
			args = append(args, p.option, file)
		}
	}
	if v, ok := t.value(joinFiles); ok {
		args = append(args, "-j", v)
	}
	if v, ok := t.value(jobName); ok {
		args = append(args, "-N", v)
	}
	if v, _ := t.value(jobState); v == "drmaa_hold" {
		args = append(args, "-h")
	}
	if v, ok := t.value(startTime); ok {
		at, err := parseStart(v, s.now)
		if err != nil {
			return nil, nil, failure(invalidFormat, "%s: invalid value %q: %v", startTime, v, err)
		}
		args = append(args, "-a", at.In(s.now.Location()).Format("200601021504.05"))
	}
	if list := t[email]; len(list) > 0 {
		args = append(args, "-M", strings.Join(list, ","))
	}
	if v, _ := t.value(blockEmail); v == "1" {
		args = append(args, "-m", "n")
	}
	for _, l := range limits {
		if v, ok := t.value(l.attribute); ok {
			n, err := seconds(v)
			if err != nil {
				return nil, nil, failure(invalidFormat, "%s: invalid value %q: %v", l.attribute, v, err)
			}
			args = append(args, "-l", l.resource+"="+strconv.Itoa(n))
		}
	}
	env = s.environment
	for _, v := range t[environment] {
		name, value, _ := strings.Cut(v, "=")
		if strings.ContainsAny(value, ",\"'\n") { // qsub would split or change the value
			env = append([]string{v}, env...) // the first occurrence counts
			v = name
		}
		args = append(args, "-v", v)
	}
	if array != "" {
		args = append(args, "-t", array)
	}
	if strings.HasPrefix(command, "-") {
		command = "./" + command
	}
	return append(append(args, command), t[arguments]...), env, nil
}

// place replaces a placeholder at the start of a path.
func place(path, placeholder, by string) string {
	if rest, ok := strings.CutPrefix(path, placeholder); ok {
		return by + "/" + strings.TrimPrefix(rest, "/")
	}
	return path
}

// path converts [HOST]:PATH for qsub -i, -o and -e. There is only one host: its name is ignored, as in the
// original.
func path(name, value, wd, home, index string) (string, *callError) {
	_, path, _ := strings.Cut(value, ":")
	path = place(path, homePlace, home)
	if wd == "" {
		wd = home
	}
	return indexedPath(name, place(path, workingPlace, wd), index)
}

// indexedPath replaces the placeholder for the index of a bulk job. A single job, whose index is empty, has none.
func indexedPath(name, path, index string) (string, *callError) {
	if index == "" && strings.Contains(path, indexPlace) {
		return "", failure(deniedByDRM, "%s: %s is only for bulk jobs", name, indexPlace)
	}
	return strings.ReplaceAll(path, indexPlace, index), nil
}

// ignored lists the options that a template cannot set, as in the original. The values of -w that
// only check the job are also ignored.
var ignored = []string{"-help", "-sync", "-t", "-verify", "-terse"}

// options returns the options of the native specification, or of a job category.
func (t template) options(s *surroundings, name string) ([]string, error) {
	line, ok := t.value(name)
	if !ok {
		return nil, nil
	}
	if name == category {
		if line, ok = s.category(line); !ok {
			return nil, errors.New("there is no such category in the files of qtask(5)")
		}
	}
	list, err := submit.SplitOptions(line)
	if err != nil {
		return nil, err
	}
	var args []string
	for _, o := range list {
		switch {
		case slices.Contains(ignored, o[0]), o[0] == "-w" && (o[1] == "w" || o[1] == "v"):
		case o[0] == "-cwd" && variable(s.environment, "SGE_DRMAA_ALLOW_CWD") == "":
		default:
			args = append(args, o...)
		}
	}
	return args, nil
}

// category looks up a job category in the files of qtask(5): first that of the cell, then that of the user.
// The user's line wins unless the cell's line begins with "!".
func (s *surroundings) category(name string) (options string, known bool) {
	fixed := false
	cell := variable(s.environment, "SGE_CELL")
	if cell == "" {
		cell = "default"
	}
	for _, file := range []string{filepath.Join(variable(s.environment, "SGE_ROOT"), cell, "common", "qtask"), filepath.Join(s.home, ".qtask")} {
		f, err := userfile.Open(file, 0)
		if err != nil {
			continue
		}
		text, err := textfile.ReadAll(f, textfile.MaxConfig)
		f.Close()
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
			word, final := strings.CutPrefix(word, "!")
			if word == name && !fixed && word != "" && word[0] != '#' {
				options, fixed, known = strings.TrimSpace(rest), final, true
			}
		}
	}
	return options, known
}

// variable returns the value of a variable of an environment.
func variable(environment []string, name string) string {
	for _, e := range environment {
		if value, ok := strings.CutPrefix(e, name+"="); ok {
			return value
		}
	}
	return ""
}

// newSurroundings returns the surroundings of a program with a working directory and an environment.
func newSurroundings(directory string, environment []string) *surroundings {
	s := &surroundings{directory: directory, environment: environment, home: variable(environment, "HOME"), now: time.Now()}
	if s.home == "" {
		s.home, _ = os.UserHomeDir()
	}
	if zone, err := time.LoadLocation(variable(environment, "TZ")); err == nil && variable(environment, "TZ") != "" {
		s.now = s.now.In(zone)
	}
	return s
}
