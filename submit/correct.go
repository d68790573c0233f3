package submit

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/execd-project/execd/job"
)

// Correction is a change that a job submission verifier makes to a parameter or to a variable of
// the job's environment. An empty value removes a parameter.
type Correction struct {
	Parameter
	Variable bool // Name is the name of a variable
	Remove   bool // removes the variable
}

// readOnly are the parameters that describe the submission (jsv(1)).
var readOnly = map[string]bool{
	"VERSION": true, "CONTEXT": true, "CLIENT": true, "USER": true, "GROUP": true, "JOB_ID": true,
	"CMDNAME": true, "b": true,
}

// mostArguments is the largest number of arguments that a verifier can give a command.
const mostArguments = 1 << 17

// byOption maps parameters to the options whose notation their values have.
var byOption = map[string]string{
	"a": "-a", "A": "-A", "ar": "-ar", "ckpt": "-ckpt", "c_interval": "-c", "c_occasion": "-c", "cwd": "-wd", "dl": "-dl", "e": "-e",
	"hold_jid": "-hold_jid", "hold_jid_ad": "-hold_jid_ad", "i": "-i", "j": "-j", "js": "-js", "m": "-m", "M": "-M", "masterq": "-masterq",
	"N": "-N", "o": "-o", "P": "-P", "p": "-p", "R": "-R", "r": "-r", "S": "-S", "shell": "-shell", "tc": "-tc", "w": "-w",
}

// Correct applies the changes of a verifier. unknown lists the names of unknown parameters, which
// the original ignores. After an error the request must not be used.
func (r *Request) Correct(changes []Correction) (unknown []string, err error) {
	b := builder{in: &Input{Master: true, Cwd: "/"}, req: *r}
	b.mail.add(r.Mail, mailHost)
	for option, list := range r.pathLists() {
		b.addPaths(option, *list)
	}
	var env *variables       // nil until a variable changes
	var together []Parameter // parts of -pe, -t and -binding
	for _, c := range changes {
		if c.Variable && env == nil {
			env = variablesOf(r.Env)
		}
		switch name := c.Name; {
		case c.Variable && c.Remove:
			env.remove(name)
		case c.Variable:
			if err := checkVariable(name); err != nil {
				return nil, err
			}
			env.set(name, Variable{name, c.Value})
		case name == "N" && c.Value == "":
			return nil, errors.New("JSV tries to delete " + strconv.Quote(name))
		case readOnly[name]:
			return nil, errors.New("JSV tries to modify read-only parameter " + strconv.Quote(name))
		case strings.HasPrefix(name, "CMDARG"):
			if err := b.correctArguments(name, c.Value); err != nil {
				return nil, err
			}
		case strings.HasPrefix(name, "pe_"), strings.HasPrefix(name, "t_"), strings.HasPrefix(name, "binding_"):
			together = append(together, c.Parameter)
		default:
			known, err := b.correct(c.Parameter)
			if err != nil {
				return nil, err
			}
			if !known {
				unknown = append(unknown, name)
			}
		}
	}
	if err := b.correctTogether(r, together); err != nil {
		return nil, err
	}
	b.collectByHost()
	if env != nil {
		b.req.Env = env.all()
	}
	*r = b.req
	return unknown, nil
}

// correctArguments changes CMDARGS, the number of arguments, or CMDARGn, the argument with number n
// from 0. New arguments are empty.
func (b *builder) correctArguments(name, value string) error {
	text := strings.TrimPrefix(name, "CMDARG")
	isNumber := text != "S"
	if !isNumber {
		text = value
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n >= mostArguments {
		return errors.New("JSV sets " + name + " to " + strconv.Quote(value) + ", expected a number of arguments below " + strconv.Itoa(mostArguments))
	}
	args := slices.Clone(b.req.Args)
	if isNumber {
		n++
	}
	for len(args) < n {
		args = append(args, "")
	}
	if isNumber {
		args[n-1] = value
	} else {
		args = args[:n]
	}
	b.req.Args = args
	return nil
}

// correct changes a parameter. An empty value removes the request.
func (b *builder) correct(p Parameter) (known bool, err error) {
	r := &b.req
	empty := p.Value == ""
	switch p.Name {
	case "ac":
		var context variables
		for _, item := range splitList(p.Value, ",") {
			name, value, _ := strings.Cut(item, "=")
			if err := checkVariable(name); err != nil {
				return true, err
			}
			context.set(name, Variable{name, value})
		}
		r.Context = context.all()
		return true, nil
	case "l_hard", "l_soft":
		soft := p.Name == "l_soft"
		r.Resources = r.resources(!soft)
		if empty {
			return true, nil
		}
		list, err := parseResources(p.Value, soft, true)
		r.Resources = append(r.Resources, list...)
		return true, err
	case "q_hard", "q_soft":
		soft := p.Name == "q_soft"
		r.Queues = r.queues(!soft)
		for _, q := range splitList(p.Value, ",") {
			r.Queues = append(r.Queues, QueueRequest{q, soft})
		}
		return true, nil
	case "h":
		r.Hold = p.Value == "u"
		if !r.Hold && p.Value != "" && p.Value != "n" {
			return true, errors.New("JSV sets the hold " + strconv.Quote(p.Value) + ", expected u or n")
		}
		return true, nil
	case "notify":
		r.Notify, err = yesNo(p.Value)
		return true, err
	case "display":
		return true, nil
	}
	option, ok := byOption[p.Name]
	if !ok {
		return false, nil
	}
	b.forget(p.Name)
	if empty {
		return true, nil
	}
	o := lookup(Qsub, option)
	return true, o.apply(b, setting{option: o, values: []string{p.Value}, where: "JSV"})
}

// forget removes the request of a parameter.
func (b *builder) forget(name string) {
	r := &b.req
	switch name {
	case "a":
		r.Start = DateTime{}
	case "A":
		r.Account = ""
	case "ar":
		r.Reservation = 0
	case "ckpt":
		r.Checkpoint = ""
	case "c_interval":
		r.CheckpointInterval = 0
	case "c_occasion":
		r.CheckpointWhen = ""
	case "cwd":
		r.WorkingDir = ""
	case "dl":
		r.Deadline = DateTime{}
	case "hold_jid":
		r.PrecedingJobs = nil
	case "hold_jid_ad":
		r.PrecedingTasks = nil
	case "e", "i", "o", "S":
		delete(b.paths, byOption[name])
	case "j":
		r.Join = false
	case "js":
		r.JobShare = 0
	case "m":
		r.MailOptions = 0
	case "M":
		b.mail = byHost[string]{}
	case "masterq":
		r.MasterQueues = nil
	case "P":
		r.Project = ""
	case "p":
		r.Priority = 0
	case "R":
		r.Reserve = false
	case "r":
		r.Rerun = job.Default
	case "shell":
		r.NoShell = false
	case "tc":
		r.TaskLimit = 0
	case "w":
		r.Validation = ValidateNone
	}
}

// correctTogether changes parameters that are parts of one option, by building the option's value.
func (b *builder) correctTogether(was *Request, changes []Parameter) error {
	if len(changes) == 0 {
		return nil
	}
	parts := map[string]string{}
	for _, p := range was.Parameters(Submitter{}) {
		parts[p.Name] = p.Value
	}
	changed := func(prefix string) (is bool) {
		for _, c := range changes {
			if strings.HasPrefix(c.Name, prefix) {
				parts[c.Name], is = c.Value, true
			}
		}
		return is
	}
	set := func(option string, values ...string) error {
		o := lookup(Qsub, option)
		return o.apply(b, setting{option: o, values: values, where: "JSV"})
	}
	if changed("pe_") {
		b.req.PE = nil
		if parts["pe_name"] != "" {
			if err := set("-pe", parts["pe_name"], parts["pe_min"]+"-"+parts["pe_max"]); err != nil {
				return err
			}
		}
	}
	if changed("t_") {
		b.req.Array = nil
		if parts["t_min"] != "" {
			step := parts["t_step"]
			if step == "" {
				step = "1"
			}
			if err := set("-t", parts["t_min"]+"-"+parts["t_max"]+":"+step); err != nil {
				return err
			}
		}
	}
	if changed("binding_") {
		b.req.Binding = nil
		if parts["binding_strategy"] != "" {
			return set("-binding", parts["binding_type"], bindingText(parts))
		}
	}
	return nil
}

// bindingText returns the value of -binding that the parameters describe.
func bindingText(parts map[string]string) string {
	text := parts["binding_strategy"]
	if text == string(Explicit) {
		n, _ := strconv.Atoi(parts["binding_exp_n"]) // the parser reports a missing or invalid number
		for i := range min(n, maxBinding) {
			text += ":" + parts["binding_exp_socket"+strconv.Itoa(i)] + "," + parts["binding_exp_core"+strconv.Itoa(i)]
		}
		return text
	}
	for _, name := range []string{"binding_amount", "binding_step"} {
		if parts[name] != "" {
			text += ":" + parts[name]
		}
	}
	if parts["binding_socket"] != "" {
		text += ":" + parts["binding_socket"] + "," + parts["binding_core"]
	}
	return text
}
