package golden

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// before holds the original values, those of a new cluster, of the parameters of sched_conf(5) that
// a script changes.
var before = Object{"share_override_tickets": "TRUE", "policy_hierarchy": "OFS"}

var (
	submission   = regexp.MustCompile(`^(\w+): qsub (.*)$`)
	submitted    = regexp.MustCompile(`^\s+-> Your job(?:-array)? (\d+)`)
	alteration   = regexp.MustCompile(`^root: qalter (-p|-ot) (-?\d+) (\w+)$`)
	modification = regexp.MustCompile(`^root: qconf -Msconf\s+\((.*)\)$`)
	capture      = regexp.MustCompile(`^# capture output/(\S+)$`)
)

// readScript reads jobs.txt.
func (c *Case) readScript() error {
	text, err := c.File("jobs.txt")
	if err != nil {
		return err
	}
	conf := maps.Clone(c.conf)
	for line := range strings.Lines(text) {
		if m := modification.FindStringSubmatch(strings.TrimRight(line, "\n")); m != nil {
			for change := range strings.SplitSeq(m[1], ", ") {
				name, _, _ := strings.Cut(change, " ")
				conf[name] = before[name]
			}
		}
	}
	var jobs []*Job
	var asked *Job
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if m := submission.FindStringSubmatch(line); m != nil {
			if asked, err = parseJob(m[1], m[2]); err != nil {
				return fmt.Errorf("%q: %w", line, err)
			}
		} else if m := submitted.FindStringSubmatch(line); m != nil {
			id, err := strconv.ParseUint(m[1], 10, 32)
			if err != nil || asked == nil {
				return fmt.Errorf("%q answers no submission", line)
			}
			asked.ID = uint32(id)
			jobs = append(slices.Clip(jobs), asked)
			asked = nil
		} else if m := alteration.FindStringSubmatch(line); m != nil {
			i := slices.IndexFunc(jobs, func(j *Job) bool { return j.Name == m[3] })
			n, err := strconv.Atoi(m[2])
			if i < 0 || err != nil {
				return fmt.Errorf("%q alters no job", line)
			}
			if m[1] == "-p" {
				jobs[i].Priority = n
			} else {
				jobs[i].OverrideTickets = float64(n)
			}
		} else if m := modification.FindStringSubmatch(line); m != nil {
			conf = maps.Clone(conf)
			for change := range strings.SplitSeq(m[1], ", ") {
				name, value, _ := strings.Cut(change, " ")
				conf[name] = value
			}
		} else if m := capture.FindStringSubmatch(line); m != nil {
			c.Steps = append(c.Steps, &Step{Name: m[1], Conf: conf, Jobs: jobs, dir: path.Join("output", m[1])})
		}
	}
	if len(c.Steps) == 0 {
		return errors.New("jobs.txt captures nothing")
	}
	return nil
}

// parseJob reads the options of qsub that occur.
func parseJob(user, line string) (*Job, error) {
	j := &Job{User: user}
	w := strings.Fields(line)
	var err error
	soft := false
	for i := 0; i < len(w) && err == nil; i++ {
		value := func() string {
			if i++; i < len(w) {
				return strings.Trim(w[i], "'")
			}
			err = errors.New("an option lacks its value")
			return ""
		}
		switch w[i] {
		case "-b", "-q":
			value()
		case "-soft":
			soft = true
		case "-N":
			j.Name = value()
		case "-P":
			j.Project = value()
		case "-js":
			j.Shares, err = strconv.ParseFloat(value(), 64)
		case "-p":
			j.Priority, err = strconv.Atoi(value())
		case "-dl":
			var t time.Time
			t, err = time.Parse("200601021504.05", value())
			j.Deadline = t.Unix()
		case "-t":
			_, err = fmt.Sscanf(value(), "1-%d", &j.Tasks)
		case "-pe":
			j.PE = value()
			j.Slots, err = parseSlots(value())
		case "-l":
			for r := range strings.SplitSeq(value(), ",") {
				name, amount, _ := strings.Cut(r, "=")
				if !soft {
					j.Requests = append(j.Requests, [2]string{name, amount})
				}
			}
		default:
			if strings.HasPrefix(w[i], "-") {
				err = fmt.Errorf("the option %q is not known here", w[i])
			}
			return j, err
		}
	}
	return j, err
}

func parseSlots(s string) ([][2]int, error) {
	var all [][2]int
	for part := range strings.SplitSeq(s, ",") {
		low, high, isRange := strings.Cut(part, "-")
		var r [2]int
		var err error
		if r[0], err = strconv.Atoi(low); err != nil {
			return nil, err
		}
		r[1] = r[0]
		if isRange {
			if r[1] = 0; high != "" {
				if r[1], err = strconv.Atoi(high); err != nil {
					return nil, err
				}
			}
		}
		all = append(all, r)
	}
	return all, nil
}
