package launcher

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/job"
)

// Objects are the objects of root's configuration that the launcher needs. They travel as JSON: see PutObjects.
type Objects struct {
	// Commands are the procedures, methods and commands of queues, hosts, parallel and checkpointing
	// environments, in the forms of the configuration. Shells and Tmpdirs are those of queues.
	Commands []string `json:"commands,omitempty"`
	Shells   []string `json:"shells,omitempty"`
	Tmpdirs  []string `json:"tmpdirs,omitempty"`
	// Queues are the queue instances of this host. Default holds the settings of queues that root's configuration does
	// not have.
	Queues  []Queue `json:"queues,omitempty"`
	Default Queue   `json:"default"`
	PEs     []PE    `json:"pes,omitempty"`
	Ckpts   []Ckpt  `json:"ckpts,omitempty"`
	// Elements are the IDs in the resource maps of this host, by the names of their complexes.
	Elements map[string][]string `json:"things,omitempty"`
	Mailer   string              `json:"mailer,omitempty"` // "[user@]path [arguments]" of sge_conf(5); empty for none
	// Access are the access lists of the cluster and of this host: users have to be admitted by each.
	Access []Access `json:"access,omitempty"`
}

// Queue holds the procedures of a queue instance of root's configuration, the limits of those that run as other users
// than the owner of a job, and the nice value of its jobs.
type Queue struct {
	Name          string     `json:"name"`
	Prolog        string     `json:"prolog,omitempty"` // of the queue, or else of the host
	Epilog        string     `json:"epilog,omitempty"`
	StarterMethod string     `json:"starter_method,omitempty"`
	Limits        job.Limits `json:"limits"`
	Priority      int        `json:"priority,omitempty"`
}

// sameProcedures reports whether two queues have the same procedures.
func (q *Queue) sameProcedures(other *Queue) bool {
	return q.Prolog == other.Prolog && q.Epilog == other.Epilog && q.StarterMethod == other.StarterMethod
}

// checkQueue refuses a job without the procedures that root's configuration has for its queue, or with others. If a
// queue has procedures of its own, the job's queue has to be in root's configuration: otherwise the front could leave
// these procedures out by another queue.
func (r *Rules) checkQueue(d *job.Description) error {
	want := r.Site.queue(d.Queue)
	if want == nil {
		want = &r.Site.Default
		if slices.ContainsFunc(r.Site.Queues, func(q Queue) bool { return !q.sameProcedures(want) }) {
			return fmt.Errorf("the queue %s is not in root's configuration, which has queues with a prolog, epilog or starter_method: "+remedy, d.Queue)
		}
	}
	for _, c := range []struct{ what, is, want string }{
		{"prolog", d.Prolog, want.Prolog}, {"epilog", d.Epilog, want.Epilog}, {"starter_method", d.StarterMethod, want.StarterMethod},
	} {
		if c.is != c.want {
			return fmt.Errorf("%s %q is not that of root's configuration for the queue %s, %q: "+remedy, c.what, c.is, d.Queue, c.want)
		}
	}
	if d.PE == nil {
		return nil
	}
	i := slices.IndexFunc(r.Site.PEs, func(p PE) bool { return p.Name == d.PE.Name })
	if i < 0 {
		return nil // see checkCommands
	}
	if pe := r.Site.PEs[i]; d.PE.Start != pe.Start || d.PE.Stop != pe.Stop {
		return fmt.Errorf("start_proc_args %q and stop_proc_args %q are not those of root's configuration for the parallel environment %s, %q and %q: "+remedy,
			d.PE.Start, d.PE.Stop, pe.Name, pe.Start, pe.Stop)
	}
	return nil
}

// checkElements refuses elements of resource maps that this host does not have, if the job has a procedure of another user:
// the procedure gets them as variables, and may use them as parts of paths. gpus are those of the job, if the launcher
// knows them, and gpuMap is the complex that they are from.
func (r *Rules) checkElements(d *job.Description, gpuMap string, gpus []string) error {
	if len(otherUsers(d)) == 0 {
		return nil
	}
	for _, v := range d.Environment {
		name, value, _ := strings.Cut(v, "=")
		resource, ok := strings.CutPrefix(name, launch.ElementPrefix)
		if !ok {
			continue
		}
		for word := range strings.FieldsSeq(value) {
			amount := strings.Trim(word, "0123456789.") == "" && strings.Count(word, ".") == 1
			if !amount && !slices.Contains(r.Site.Elements[resource], word) && (resource != gpuMap || !slices.Contains(gpus, word)) {
				return fmt.Errorf("the job has a procedure of another user and the element %.200q of %s, which is not in the resource map of this host in root's configuration: "+remedy, word, resource)
			}
		}
	}
	return nil
}

// PE holds the procedures of a parallel environment of root's configuration.
type PE struct {
	Name  string `json:"name"`
	Start string `json:"start,omitempty"`
	Stop  string `json:"stop,omitempty"`
}

// Ckpt is a checkpointing environment of root's configuration.
type Ckpt struct {
	Name string `json:"name"`
	Dir  string `json:"dir,omitempty"`
}

// procedure is a procedure of the site that a job has.
type procedure struct{ what, command string }

// otherUsers returns the procedures of a job that run as other users than the owner.
func otherUsers(d *job.Description) []procedure {
	list := []procedure{{"prolog", d.Prolog}, {"epilog", d.Epilog}}
	if d.PE != nil {
		list = append(list, procedure{"start_proc_args", d.PE.Start}, procedure{"stop_proc_args", d.PE.Stop})
	}
	return slices.DeleteFunc(list, func(p procedure) bool {
		user, _ := job.Procedure(p.command)
		return user == "" || user == d.Owner
	})
}

// remedy tells the administrator how to permit a procedure that the launcher has refused.
const remedy = "with --front-user, write it into the directory of --conf and start the daemon again; root may use qconf of execd standalone instead"

// checkProcedures refuses procedures of other users than the owner, except those that root's configuration has for
// the queue and the parallel environment of the job, and those that the host's file permits (execd-procedures(5)).
func (r *Rules) checkProcedures(d *job.Description) error {
	list := otherUsers(d)
	if len(list) == 0 {
		return nil
	}
	var rest []procedure // that the file of permitted procedures does not have
	for _, p := range list {
		ok, err := r.permitted(p.command)
		if err != nil {
			return err
		}
		if !ok {
			rest = append(rest, p)
		}
	}
	if err := r.checkConfigured(d, rest); err != nil {
		return err
	}
	if c := d.Ckpt; c != nil && !slices.Contains(r.Site.Ckpts, Ckpt{c.Name, c.Dir}) {
		return fmt.Errorf("%s %q runs as another user, and the checkpointing environment %s with ckpt_dir %q is not in root's configuration: "+remedy, list[0].what, list[0].command, c.Name, c.Dir)
	}
	// The commands refuse such names. A submission of an accomplice of the front was not checked by a command.
	for _, n := range []procedure{{"job name", d.Name}, {"account", d.Account}} {
		if strings.Contains(n.command, "/") {
			return fmt.Errorf("%s %q runs as another user, and the %s %.200q has a /", list[0].what, list[0].command, n.what, n.command)
		}
	}
	return nil
}

// checkConfigured refuses procedures that are not those of root's configuration for the queue and the parallel environment
// of a job.
func (r *Rules) checkConfigured(d *job.Description, list []procedure) error {
	if len(list) == 0 {
		return nil
	}
	var own Queue
	if q := r.Site.queue(d.Queue); q != nil {
		own = *q
	} else {
		return fmt.Errorf("%s %q runs as another user, and the queue %s is not in root's configuration: "+remedy, list[0].what, list[0].command, d.Queue)
	}
	var pe PE
	if d.PE != nil {
		i := slices.IndexFunc(r.Site.PEs, func(p PE) bool { return p.Name == d.PE.Name })
		if i < 0 {
			return fmt.Errorf("%s %q runs as another user, and the parallel environment %s is not in root's configuration: "+remedy, list[0].what, list[0].command, d.PE.Name)
		}
		pe = r.Site.PEs[i]
	}
	want := map[string]string{"prolog": own.Prolog, "epilog": own.Epilog, "start_proc_args": pe.Start, "stop_proc_args": pe.Stop}
	for _, p := range list {
		if p.command != want[p.what] {
			return fmt.Errorf("%s %q runs as another user than the owner and is not that of root's configuration: "+remedy, p.what, p.command)
		}
	}
	return nil
}

// queue returns a queue of root's configuration; nil if it has none of this name.
func (s *Site) queue(name string) *Queue {
	i := slices.IndexFunc(s.Queues, func(q Queue) bool { return q.Name == name })
	if i < 0 {
		return nil
	}
	return &s.Queues[i]
}

// checkWords refuses names that no object of a configuration has. Procedures of other users get these names as
// arguments and variables, and may be shell scripts.
func checkWords(p *launch.Plan) error {
	d := p.Description
	words := []procedure{{"queue", d.Queue}, {"processors", d.Processors}, {"host", d.Host}}
	if d.PE != nil {
		words = append(words, procedure{"parallel environment", d.PE.Name})
	}
	if d.Ckpt != nil {
		words = append(words, procedure{"checkpointing environment", d.Ckpt.Name})
	}
	for _, h := range p.Hosts {
		// A procedure may pass the name of a host to ssh(1).
		words = append(words, procedure{"host in pe_hostfile", h.Host}, procedure{"queue in pe_hostfile", h.Queue}, procedure{"processors in pe_hostfile", h.Processors})
	}
	for _, v := range d.Environment {
		if name, value, _ := strings.Cut(v, "="); launch.IsElement(name) {
			words = append(words, procedure{"variable", name}, procedure{name, strings.ReplaceAll(value, " ", "")})
		}
	}
	for _, w := range words {
		// An element of a resource map may be a path, and a part of an option: see checkElements.
		name := !launch.IsElement(w.what) && (strings.Contains(w.command, "/") || strings.HasPrefix(w.command, "-") || strings.ContainsFunc(w.command, isPattern))
		if name || strings.ContainsFunc(w.command, isSpecial) {
			return fmt.Errorf("%s %.200q contains a character that is not allowed in names", w.what, w.command)
		}
	}
	if d.Ckpt != nil && strings.ContainsRune(d.Ckpt.Dir, '\n') {
		return errors.New("ckpt_dir has more than one line")
	}
	return nil
}

// isPattern reports whether a character makes a shell replace a word by the names of files or by a home directory.
func isPattern(r rune) bool { return strings.ContainsRune("*?[]~", r) }

// isSpecial reports whether a character is a blank, a control character or special for a shell.
func isSpecial(r rune) bool {
	return r <= ' ' || r == 0x7f || strings.ContainsRune("$`\"'\\;&|<>()", r)
}
