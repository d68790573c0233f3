package replay

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/execd-project/execd/internal/textfile"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler/calendar"
	"github.com/execd-project/execd/simulate/script"
)

// input holds the files of a case besides its script.
type input struct {
	files files
	load  map[string]map[string]string // load values by host
	hosts []string                     // hosts that report load, in order
	usage []pastUsage
}

// cluster reads the current configuration.
func (in *input) cluster() (*qconf.Cluster, error) {
	return qconf.LoadWith(in.files, qconf.Options{
		Year: func(text string) error { _, err := calendar.Parse(text, ""); return err },
		Week: func(text string) error { _, err := calendar.Parse("", text); return err },
		// Valid objects are used even if others are invalid.
		Dangling: true,
	})
}

// readInput reads the directory input, and restores the state before the script.
func readInput(fsys fs.FS, lines []script.Line) (*input, error) {
	sub, err := fs.Sub(fsys, "input")
	if err != nil {
		return nil, err
	}
	in := &input{load: map[string]map[string]string{}}
	if in.files, err = readFiles(sub, loadValues, initialUsage); err != nil {
		return nil, err
	}
	in.admit(lines)
	cluster, err := in.cluster()
	if err != nil {
		return nil, inFolder(err)
	}
	for _, host := range hostsOf(cluster) {
		in.hosts = append(in.hosts, host)
		in.load[host] = map[string]string{}
	}
	return in, errors.Join(in.readLoad(sub), in.readUsage(sub), in.rewind(lines))
}

// admit creates the user sets that a case may omit: for advance reservations and for deadline jobs.
// They contain all users who do this in the script without an error.
func (in *input) admit(lines []script.Line) {
	for set, test := range map[string]struct{ command, option, refusal string }{
		qconf.ARUsers:       {"qrsub", "", "must be manager or in userset"},
		qconf.DeadlineUsers: {"qsub", " -dl ", "is not a deadline initiation user"},
	} {
		name := "usersets/" + set
		if in.files[name] != nil {
			continue
		}
		var users []string
		for i := range lines {
			l := &lines[i]
			if l.Kind == script.Command && strings.HasPrefix(l.Command, test.command+" ") && strings.Contains(l.Command+" ", test.option) &&
				!strings.Contains(strings.Join(l.Answer, "\n"), test.refusal) && !slices.Contains(users, l.User) {
				users = append(users, l.User)
			}
		}
		if len(users) > 0 {
			in.files[name] = []byte("name " + set + "\ntype ACL\nfshare 0\noticket 0\nentries " + strings.Join(users, ",") + "\n")
		}
	}
}

// inFolder adds the directory to errors of files.
func inFolder(err error) error {
	var all []error
	for _, e := range qconf.Errors(err) {
		there := *e
		if there.File != "" {
			there.File = path.Join("input", there.File)
		}
		all = append(all, &there)
	}
	if len(all) == 0 {
		return err
	}
	return errors.Join(all...)
}

// environments returns the parallel environments in the order in which queues name them, the order
// in which they were probably created.
func environments(c *qconf.Cluster) []string {
	var names []string
	for _, name := range c.QueueNames() {
		q, err := c.Queue(name)
		if err != nil {
			continue
		}
		for _, v := range q.Variants() {
			for _, pe := range v.PEList {
				if !slices.Contains(names, pe) {
					names = append(names, pe)
				}
			}
		}
	}
	return names
}

// hostsOf returns the hosts on which queues may be, sorted by name.
func hostsOf(c *qconf.Cluster) []string {
	seen := map[string]bool{}
	hosts := slices.Clone(c.HostNames())
	for _, name := range c.QueueNames() {
		if q, err := c.Queue(name); err == nil {
			hosts = append(hosts, c.HostGroups().Resolve(q.Hosts)...)
		}
	}
	slices.Sort(hosts)
	return slices.DeleteFunc(hosts, func(h string) bool {
		known := seen[strings.ToLower(h)]
		seen[strings.ToLower(h)] = true
		return known
	})
}

// Files of a case that are not part of the configuration.
const (
	loadValues   = "load_values"
	initialUsage = "initial_usage"
)

func (in *input) readLoad(fsys fs.FS) error {
	const file = loadValues
	text, err := textfile.ReadFS(fsys, file, textfile.MaxScript)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var errs []error
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		f := strings.SplitN(line, ":", 3)
		if len(f) != 3 {
			errs = append(errs, fmt.Errorf("input/%s:%d: %s: expected HOST:ATTRIBUTE:VALUE", file, number, textfile.Shorten(strconv.Quote(line))))
			continue
		}
		if err := in.setLoad(f[0], f[1], f[2]); err != nil {
			errs = append(errs, fmt.Errorf("input/%s:%d: %w", file, number, err))
		}
	}
	return errors.Join(errs...)
}

// setLoad changes a load value of a host.
func (in *input) setLoad(host, attribute, value string) error {
	if in.load[host] == nil {
		if host != qconf.GlobalHost {
			return fmt.Errorf("%q: there is no such host", host)
		}
		in.load[host] = map[string]string{}
	}
	in.load[host][attribute] = value
	return nil
}

func (in *input) readUsage(fsys fs.FS) error {
	text, err := textfile.ReadFS(fsys, initialUsage, textfile.MaxScript)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		in.usage, err = readUsage(string(text))
	}
	if err != nil {
		return fmt.Errorf("input/initial_usage: %w", err)
	}
	return nil
}

// rewind sets the scheduler parameters that the script changes to their defaults, which are the
// most likely values before the script.
func (in *input) rewind(lines []script.Line) error {
	changes := map[string]string{}
	for i := range lines {
		if lines[i].Kind != script.Command || lines[i].Command != modifyScheduler {
			continue
		}
		settings, err := parameters(lines[i].Remark)
		if err != nil {
			return fmt.Errorf("jobs.txt:%d: %w", lines[i].Number, err)
		}
		for _, s := range settings {
			changes[s.Name] = defaultOf(s.Name)
		}
	}
	if len(changes) == 0 {
		return nil
	}
	return in.changeScheduler(changes)
}

const modifyScheduler = "qconf -Msconf"

// parameters reads "NAME VALUE, NAME VALUE".
func parameters(remark string) ([]qconf.Setting, error) {
	var all []qconf.Setting
	for part := range strings.SplitSeq(remark, ", ") {
		name, value, ok := strings.Cut(strings.TrimSpace(part), " ")
		if !ok || defaultOf(name) == "" {
			return nil, fmt.Errorf("%q: expected a parameter of sched_conf(5) and its value", part)
		}
		all = append(all, qconf.Setting{Name: name, Value: strings.TrimSpace(value)})
	}
	return all, nil
}

// defaultOf returns the default of a scheduler parameter; empty if there is no such parameter.
func defaultOf(name string) string {
	c, err := qconf.ParseSchedulerConfig("", nil)
	if err != nil {
		return ""
	}
	value, _ := c.Value(name)
	return value
}

// changeScheduler changes parameters of sched_conf.
func (in *input) changeScheduler(values map[string]string) error {
	const file = "sched_conf"
	c, err := qconf.ParseSchedulerConfig(file, in.files[file])
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if c, err = c.With(name, values[name]); err != nil {
			return err
		}
	}
	in.files[file] = []byte(c.Format(qconf.SingleLine))
	return nil
}
