package replay

import (
	"bufio"
	"bytes"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/execd-project/execd/internal/lazyregexp"
	"github.com/execd-project/execd/internal/textfile"
)

// evidence holds the facts that the output of a case contains about its clock, and about events
// before its first line. Times are seconds since 1970.
type evidence struct {
	submitted map[int]int64 // by job
	started   map[int]int64 // by job: the start of its first task
	ended     map[int]int64 // by job: the end, for jobs that really ran
	runs      []int64       // scheduling runs that have started a task, ascending
	captured  map[string]int64
	samples   map[string][]int64  // by step: the times of sge_share_mon calls
	stamp     int64               // the time to which the ages in initial_usage refer; 0 if unknown
	resources map[string][]string // by step: the resources of qstat -F and qhost -F
	instances map[string][]string // by step: the queue instances of qconf -sq
	files     map[string][]string
}

// dated matches a row of qstat with a date: number, state, and the date.
var dated = lazyregexp.New(`^\s*(\d+) \S+ .* (\w+)\s+(\d\d/\d\d/\d{4} \d\d:\d\d:\d\d)\s`)

const dateFormat = "01/02/2006 15:04:05"

// readEvidence reads the facts in the output. It ignores output that it does not understand.
func readEvidence(fsys fs.FS, zone *time.Location) *evidence {
	e := &evidence{
		submitted: map[int]int64{}, started: map[int]int64{}, ended: map[int]int64{}, captured: map[string]int64{},
		samples: map[string][]int64{}, files: map[string][]string{},
		resources: map[string][]string{}, instances: map[string][]string{},
	}
	steps, err := fs.ReadDir(fsys, "output")
	if err != nil {
		return e
	}
	for _, step := range steps {
		if !step.IsDir() {
			continue
		}
		files, err := fs.ReadDir(fsys, path.Join("output", step.Name()))
		if err != nil {
			continue
		}
		for _, f := range files {
			text, err := textfile.ReadFS(fsys, path.Join("output", step.Name(), f.Name()), textfile.MaxScript)
			if err != nil {
				continue
			}
			e.files[step.Name()] = append(e.files[step.Name()], f.Name())
			e.read(step.Name(), f.Name(), text, zone)
		}
	}
	for _, at := range e.started {
		e.runs = append(e.runs, at)
	}
	slices.Sort(e.runs)
	e.runs = slices.Compact(e.runs)
	return e
}

func (e *evidence) read(step, file string, text []byte, zone *time.Location) {
	switch {
	case file == "qstat.txt" || file == "qstat-gt.txt" || file == "qstat-gd.txt":
		for s := bufio.NewScanner(bytes.NewReader(text)); s.Scan(); {
			e.readRow(s.Text(), zone)
		}
	case strings.HasPrefix(file, "epoch"):
		if at, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil {
			e.captured[step] = at
		}
	case strings.HasPrefix(file, "qhost-F") || strings.HasPrefix(file, "qstat-F"):
		e.readResources(step, text)
	case strings.HasPrefix(file, "qinstance"):
		e.readInstances(step, text)
	case file == "times.txt":
		e.readTimes(step, text, zone)
	case file == "sge_share_mon.txt":
		e.readShares(step, text)
	}
}

func (e *evidence) readRow(line string, zone *time.Location) {
	m := dated().FindStringSubmatch(line)
	if m == nil {
		return
	}
	id, err := strconv.Atoi(m[1])
	at, bad := time.ParseInLocation(dateFormat, m[3], zone)
	if err != nil || bad != nil {
		return
	}
	if strings.Contains(m[2], "q") {
		e.submitted[id] = at.Unix()
	} else if known, ok := e.started[id]; !ok || at.Unix() < known {
		e.started[id] = at.Unix()
	}
}

var (
	jobNumberLine = lazyregexp.New(`^job_number:\s+(\d+)$`)
	secondsLine   = lazyregexp.New(`^(submission_time|end_time):\s+(\d{9,12})$`)
	submitLine    = lazyregexp.New(`^submission_time:\s+(.+)$`)
	stampLine     = lazyregexp.New(`^stamp base T=(\d{1,12})$`)
	epochLine     = lazyregexp.New(`^(\d{9,12})$`)
)

// readTimes reads times of submission in the format of qstat -j or in seconds, the ends of jobs,
// and the times of captures.
func (e *evidence) readTimes(step string, text []byte, zone *time.Location) {
	job := 0
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if m := jobNumberLine().FindStringSubmatch(line); m != nil {
			job, _ = strconv.Atoi(m[1])
		} else if m := secondsLine().FindStringSubmatch(line); m != nil && job > 0 {
			times := map[string]map[int]int64{"submission_time": e.submitted, "end_time": e.ended}[m[1]]
			times[job], _ = strconv.ParseInt(m[2], 10, 64)
		} else if m := submitLine().FindStringSubmatch(line); m != nil {
			if at, err := time.ParseInLocation(time.ANSIC, m[1], zone); err == nil && job > 0 {
				e.submitted[job] = at.Unix()
			}
		} else if m := stampLine().FindStringSubmatch(line); m != nil {
			e.stamp, _ = strconv.ParseInt(m[1], 10, 64)
		} else if m := epochLine().FindStringSubmatch(line); m != nil {
			if at, err := strconv.ParseInt(m[1], 10, 64); err == nil {
				e.samples[step] = append(e.samples[step], at)
			}
		}
	}
}

// shareOfAll matches the row of the root of the share tree.
var shareOfAll = lazyregexp.New(`^(\d{9,12})\t\d+\t/\t`)

// readShares reads the times of sge_share_mon calls.
func (e *evidence) readShares(step string, text []byte) {
	e.samples[step] = nil // more exact than times.txt
	for line := range strings.Lines(string(text)) {
		if m := shareOfAll().FindStringSubmatch(line); m != nil {
			if at, err := strconv.ParseInt(m[1], 10, 64); err == nil {
				e.samples[step] = append(e.samples[step], at)
			}
		}
	}
}

var resourceItem = lazyregexp.New(`\s[ghq][lLcf]:([\w.-]+)=`)

func (e *evidence) readResources(step string, text []byte) {
	for _, m := range resourceItem().FindAllSubmatch(text, -1) {
		if name := string(m[1]); !slices.Contains(e.resources[step], name) {
			e.resources[step] = append(e.resources[step], name)
		}
	}
}

func (e *evidence) readInstances(step string, text []byte) {
	queue := ""
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) == 2 && f[0] == "qname" {
			queue = f[1]
		}
		if len(f) == 2 && f[0] == "hostname" && !slices.Contains(e.instances[step], queue+"@"+f[1]) {
			e.instances[step] = append(e.instances[step], queue+"@"+f[1])
		}
	}
}

// readDisabled returns the queue instances that were disabled at a capture.
func readDisabled(fsys fs.FS, step string) []string {
	text, err := textfile.ReadFS(fsys, path.Join("output", step, "qstat-f.txt"), textfile.MaxScript)
	if err != nil {
		return nil
	}
	var names []string
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) == 6 && line[0] != ' ' && strings.Contains(f[0], "@") && strings.Contains(f[5], "d") {
			names = append(names, f[0])
		}
	}
	return names
}
