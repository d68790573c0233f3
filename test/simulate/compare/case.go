package compare

import (
	"errors"
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/execd-project/execd/simulate/script"
)

// A Case is what must be known of a case besides what was printed.
type Case struct {
	waitingWeight float64 // weight_waiting_time
	deadlines     bool    // a job was submitted with -dl
	decay         bool    // usage decays
	held          bool    // the queues were disabled while jobs were submitted
	conf          map[string]string
	// load holds the load values of a host for load_formula.
	load map[string]string
	// seq holds the lines seq_no of the queues.
	seq map[string]string
	// groups are the members of the host groups.
	groups map[string][]string
}

// ReadCase reads a case.
func ReadCase(fsys fs.FS) (*Case, error) {
	c := &Case{load: map[string]string{}, seq: map[string]string{}, groups: map[string][]string{}}
	var err error
	if c.conf, err = object(fsys, "input/sched_conf"); err != nil {
		return nil, err
	}
	c.waitingWeight = number(c.conf["weight_waiting_time"])
	c.decay = number(c.conf["halftime"]) != 0 || !strings.EqualFold(c.conf["halflife_decay_list"], "none")
	text, err := fs.ReadFile(fsys, "jobs.txt")
	if err != nil {
		return nil, err
	}
	lines, err := script.Parse(string(text))
	if err != nil {
		return nil, err
	}
	for _, l := range lines {
		c.deadlines = c.deadlines || strings.Contains(l.Command, " -dl ")
		c.held = c.held || strings.HasPrefix(l.Command, "qmod -e '*'")
	}
	return c, errors.Join(c.readQueues(fsys), c.readGroups(fsys), c.readLoad(fsys))
}

func number(s string) float64 {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0
	}
	return f
}

// object reads what qconf printed of an object.
func object(fsys fs.FS, name string) (map[string]string, error) {
	text, err := fs.ReadFile(fsys, name)
	attributes := map[string]string{}
	for line := range strings.Lines(strings.ReplaceAll(string(text), "\\\n", "")) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			attributes[key] = strings.TrimSpace(value)
		}
	}
	return attributes, err
}

func (c *Case) readQueues(fsys fs.FS) error {
	names, err := fs.Glob(fsys, "input/queues/*")
	for _, name := range names {
		o, bad := object(fsys, name)
		c.seq[path.Base(name)], err = o["seq_no"], errors.Join(err, bad)
	}
	return err
}

func (c *Case) readGroups(fsys fs.FS) error {
	names, err := fs.Glob(fsys, "input/hostgroups/*")
	for _, name := range names {
		o, bad := object(fsys, name)
		c.groups[path.Base(name)], err = strings.Fields(o["hostlist"]), errors.Join(err, bad)
	}
	return err
}

var formulaName = regexp.MustCompile(`[A-Za-z_]\w*`)

// readLoad notes the load values that load_formula names, scaled.
func (c *Case) readLoad(fsys fs.FS) error {
	text, err := fs.ReadFile(fsys, "input/load_values")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	values := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if f := strings.SplitN(strings.TrimSpace(line), ":", 3); len(f) == 3 {
			values[f[0]+":"+f[1]] = f[2]
		}
	}
	hosts, err := fs.Glob(fsys, "input/hosts/*")
	for _, name := range hosts {
		o, bad := object(fsys, name)
		err = errors.Join(err, bad)
		host := path.Base(name)
		for _, attribute := range formulaName.FindAllString(c.conf["load_formula"], -1) {
			v := number(values[host+":"+attribute])
			if _, known := values[host+":"+attribute]; !known {
				c.load[host] += " missing"
				continue
			}
			for s := range strings.SplitSeq(o["load_scaling"], ",") {
				if name, factor, ok := strings.Cut(s, "="); ok && name == attribute {
					v *= number(factor)
				}
			}
			c.load[host] += " " + strconv.FormatFloat(v, 'g', 6, 64)
		}
	}
	return err
}

// class names the queue instances that tie with an instance.
func (c *Case) class(instance string) string {
	queue, host, _ := strings.Cut(instance, "@")
	return c.load[host] + " / " + c.seqNo(queue, host)
}

// seqNo returns the seq_no of a queue on a host.
func (c *Case) seqNo(queue, host string) string {
	def, rest, _ := strings.Cut(c.seq[queue], ",[")
	for part := range strings.SplitSeq(rest, ",[") {
		who, value, _ := strings.Cut(strings.TrimSuffix(part, "]"), "=")
		if who == host || strings.HasPrefix(who, "@") && c.inGroup(who, host, 0) {
			return value
		}
	}
	return def
}

// inGroup reports whether a host is in a group. Groups are nested at most as deep as
// there are groups.
func (c *Case) inGroup(group, host string, depth int) bool {
	if depth > len(c.groups) {
		return false
	}
	for _, member := range c.groups[group] {
		if member == host || strings.HasPrefix(member, "@") && c.inGroup(member, host, depth+1) {
			return true
		}
	}
	return false
}
