package gridengine

import (
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/execd-project/execd/agent"
	"github.com/execd-project/execd/agent/gridengine/cull"
	"github.com/execd-project/execd/agent/gridengine/interactive"
	"github.com/execd-project/execd/agent/gridengine/message"
	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/limits/binding"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/quantity"
	"github.com/execd-project/execd/submit"
)

// surroundings holds the properties of this host that a job needs.
type surroundings struct {
	host             string // as qmaster spells it
	same             func(a, b string) bool
	config           *qconf.Configuration
	adminUser        string // whose procedures are trusted; empty for none
	sgeRoot, sgeCell string
	binaryPath, arch string
	// execd is the path of our executable, which runs interactive jobs; shellOf is the
	// login shell of a user.
	execd   string
	shellOf func(user string) string
	// gpuComplex is Options.GPUComplex.
	gpuComplex string
	security   Security
	queues     *queues // of jobs that were translated before; nil for none
}

// idOf returns a job as package agent numbers it: the task of a job that is not an array job is 0.
func idOf(j *message.Delivery) job.ID {
	id := job.ID{Job: int(j.Job)}
	if j.Type&message.TypeArray != 0 && len(j.Tasks) > 0 {
		id.Task = int(j.Tasks[0].Number)
	}
	return id
}

// startOf returns a job that qmaster has delivered, as package agent takes it.
func startOf(j *message.Delivery, slave bool, s *surroundings) (*agent.Start, error) {
	if len(j.Tasks) != 1 || len(j.Tasks[0].Granted) == 0 {
		return nil, fmt.Errorf("job %d has %d tasks, expected one with a queue", j.Job, len(j.Tasks))
	}
	task := &j.Tasks[0]
	request, err := requestOf(j, s)
	if err != nil {
		return nil, fmt.Errorf("job %d: %w", j.Job, err)
	}
	start := &agent.Start{
		ID: idOf(j), Owner: j.Owner, Group: j.Group, Department: j.Department, Request: request,
		Submitted: time.UnixMicro(int64(j.Submitted)), Restarted: job.Restart(min(task.Restarted, uint32(job.RestartedFromCkpt))),
		CheckpointPID: int(task.PID), PE: task.PEName, Slave: slave, Tickets: task.Tickets, Reservation: int(j.Reservation),
	}
	var here *message.Grant
	order := &launch.Assignment{
		Request: request, Host: s.host, Config: s.config, Restarted: start.Restarted, CheckpointPID: start.CheckpointPID,
		Submitted: start.Submitted, SGERoot: s.sgeRoot, SGECell: s.sgeCell, AdminUser: s.adminUser, BinaryPath: s.binaryPath, Arch: s.arch,
	}
	for i := range task.Granted {
		g := &task.Granted[i]
		queue, _, _ := strings.Cut(g.Queue, "@")
		host := g.Host
		if s.same(host, s.host) {
			host = s.host
			if order.Slots += int(g.Slots); here == nil {
				here = g
			}
		}
		order.TotalSlots += int(g.Slots)
		start.Grants = append(start.Grants, agent.Grant{Queue: queue, Host: host, Slots: int(g.Slots)})
		order.Hosts = append(order.Hosts, jobdir.PEHost{Host: host, Slots: int(g.Slots), Queue: queue + "@" + host})
	}
	if here == nil || here.Settings == nil {
		return nil, fmt.Errorf("job %d: none of its queue instances is on this host, %s", j.Job, s.host)
	}
	if order.Queue, err = s.queues.of(here.Settings, s.host); err != nil {
		return nil, &agent.Error{Code: agent.Unavailable, Err: fmt.Errorf("queue %s: %w", here.Queue, err)}
	}
	order.ProcedureLimits = queueLimitsOf(&order.Queue, j)
	limitsOf(&order.Queue, j, task)
	if task.PE != nil {
		if order.PE, err = peOf(task.PE); err != nil {
			return nil, &agent.Error{Code: agent.Unavailable, Err: fmt.Errorf("parallel environment %s: %w", task.PE.Name, err)}
		}
		start.MasterForksSlaves, start.DaemonForksSlaves = task.PE.MasterForksSlaves, task.PE.DaemonForksSlaves
	}
	if j.Ckpt != nil && j.Ckpt.Name != "" {
		if order.Ckpt, err = ckptOf(j.Ckpt); err != nil {
			return nil, &agent.Error{Code: agent.Unavailable, Err: fmt.Errorf("checkpointing environment %s: %w", j.Ckpt.Name, err)}
		}
	}
	if order.Elements, order.Amounts, err = grantedOf(task, s); err != nil {
		return nil, fmt.Errorf("job %d: %w", j.Job, err)
	}
	if j.SchedulerBinds {
		order.GrantedBinding = grantedBindingOf(j, task, s)
	}
	if order.Elements[s.gpuComplex] == nil {
		if order.GPUCount, err = gpusOf(j.Hard, s.gpuComplex, order.Slots, slave); err != nil {
			return nil, fmt.Errorf("job %d: %w", j.Job, err)
		}
	}
	order.GPUComplex = s.gpuComplex
	request.Resources = resourcesOf(j.Hard, order.Slots)
	submitEnvironment(order, j)
	order.Relayed, order.KeepTaskID = j.Type&interactiveTypes != 0, j.KeepsTaskID
	start.SubmitEnv, start.SubmitDir = order.SubmitEnv, order.SubmitDir
	start.Order = order
	return start, nil
}

// resourcesOf returns the requests that concern the directories of a job on this host. A request for
// scratch space counts once, or for each slot, as sge_qmaster has booked it (complex(5)).
func resourcesOf(requests []message.Resource, slots int) (list []submit.ResourceRequest) {
	for _, r := range requests {
		value := r.Text
		switch r.Name {
		case qconf.ScratchName:
			if r.Consumable == message.ConsumableYes {
				value = strconv.FormatFloat(r.Value*float64(slots), 'f', 0, 64)
			}
		case qconf.PrivateTmpName:
		default:
			continue
		}
		list = append(list, submit.ResourceRequest{Name: r.Name, Value: value})
	}
	return list
}

// gpusOf returns how many GPUs of this host sge_qmaster has booked for a job: what it requests of the
// consumable for each slot, and of one that is "consumable JOB" once, on the host of the master task
// (complex(5)).
func gpusOf(requests []message.Resource, consumable string, slots int, slave bool) (int, error) {
	i := slices.IndexFunc(requests, func(r message.Resource) bool { return consumable != "" && r.Name == consumable })
	if i < 0 || requests[i].Consumable == 0 {
		return 0, nil
	}
	const most = 1 << 16
	n := requests[i].Value
	if n != math.Trunc(n) || n < 0 || n > most {
		return 0, fmt.Errorf("it requests %s=%s, expected a number of GPUs", consumable, requests[i].Text)
	}
	switch requests[i].Consumable {
	case message.ConsumableYes:
		return int(n) * slots, nil
	case message.ConsumableJob:
		if slave {
			return 0, nil
		}
		return int(n), nil
	}
	return 0, fmt.Errorf("complex %s counts neither for each slot nor for each job (consumable is %d), and GPUs cannot be chosen for it: set it to YES or JOB", consumable, requests[i].Consumable)
}

// submitPrefix begins the names of variables of the submission, which jobs see as SGE_O_.
const submitPrefix = "__SGE_PREFIX__O_"

// submitEnvironment extracts the variables of the submission that the client has passed on.
func submitEnvironment(o *launch.Assignment, j *message.Delivery) {
	for _, v := range j.Environment {
		name, ok := strings.CutPrefix(v.Name, submitPrefix)
		switch {
		case ok && name == "WORKDIR":
			o.SubmitDir = v.Value
		case ok:
			o.SubmitEnv = append(o.SubmitEnv, name+"="+v.Value)
		}
	}
}

// requestOf returns the request of the user.
func requestOf(j *message.Delivery, s *surroundings) (*submit.Request, error) {
	r := &submit.Request{
		Command: j.ScriptFile, Binary: j.Type&message.TypeBinary != 0, NoShell: j.Type&message.TypeNoShell != 0,
		Name: j.Name, Account: j.Account, Project: j.Project, Priority: int(j.Priority) - message.PriorityZero,
		Shell: pathsOf(j.Shell), Input: pathsOf(j.Stdin), Output: pathsOf(j.Stdout), Error: pathsOf(j.Stderr), Join: j.MergeStderr,
		WorkingDir: translatePath(j.Cwd, j.PathAliases, j.Host, s), Notify: j.Notify,
		Rerun: tristate(j.Restart, job.Default, job.Yes, job.No), PTY: tristate(j.PTY, job.No, job.Yes, job.Default),
		Checkpoint: j.CkptName, CheckpointInterval: time.Duration(j.CkptSeconds) * time.Second,
		MailOptions: job.MailOptions(j.MailOptions), Reservation: int(j.Reservation),
	}
	if r.Name == "" {
		r.Name = path.Base(j.ScriptFile)
	}
	if !r.Binary {
		r.Script = []byte(j.Script)
	}
	for _, a := range j.Args {
		r.Args = append(r.Args, a.Text)
	}
	for _, v := range j.Environment {
		if strings.ContainsAny(v.Name, "=\n") || v.Name == "" {
			return nil, fmt.Errorf("%q is not a name of an environment variable", v.Name)
		}
		if !strings.HasPrefix(v.Name, submitPrefix) {
			r.Env = append(r.Env, submit.Variable{Name: v.Name, Value: v.Value})
		}
	}
	for _, v := range j.Context {
		r.Context = append(r.Context, submit.Variable{Name: v.Name, Value: v.Value})
	}
	for _, m := range j.Mail {
		address := m.User
		if m.Host != "" {
			address += "@" + m.Host
		}
		r.Mail = append(r.Mail, address)
	}
	if j.Type&message.TypeArray != 0 && len(j.Structure) > 0 {
		a := j.Structure[0]
		r.Array = &submit.Array{First: int(a.Min), Last: int(a.Max), Step: max(int(a.Step), 1)}
	}
	if j.CkptName != "" {
		for _, b := range []struct {
			bit    uint32
			letter string
		}{{8, "n"}, {1, "m"}, {2, "s"}, {4, "x"}, {16, "r"}} {
			if j.CkptAttr&b.bit != 0 {
				r.CheckpointWhen += b.letter
			}
		}
	}
	r.Binding = bindingOf(j.Binding)
	return r, interactiveOf(r, j, s)
}

// interactiveTypes are the types of jobs with a client that stays.
const interactiveTypes = message.TypeQsh | message.TypeQlogin | message.TypeQrsh | message.TypeQrshLogin

// interactiveOf makes an interactive job run the program that connects it with its client.
func interactiveOf(r *submit.Request, j *message.Delivery, s *surroundings) error {
	if j.Type&interactiveTypes == 0 {
		return nil
	}
	login := j.Type&(message.TypeQlogin|message.TypeQrshLogin) != 0
	kind, method := "rsh_daemon", s.config.RshDaemon
	switch {
	case j.Type&message.TypeQsh != 0:
		return errors.New("it is a job of qsh, which is not supported: use qrsh or qlogin")
	case j.Type&message.TypeQlogin != 0:
		kind, method = "qlogin_daemon", s.config.QloginDaemon
	case login:
		kind, method = "rlogin_daemon", s.config.RloginDaemon
	}
	if !strings.EqualFold(method, builtin) {
		return fmt.Errorf("%s of the configuration is %q, expected builtin: no other is supported", kind, method)
	}
	name, value, err := s.security.certificateVariable(j.Certificate)
	if err != nil {
		return err
	}
	if name != "" {
		r.Env = append(r.Env, submit.Variable{Name: name, Value: value})
	}
	pty := j.PTY == 1 || login && j.PTY != 0
	words := interactive.Command(s.execd, s.host, s.shellOf(j.Owner), pty, login)
	r.Command, r.Args, r.Binary, r.NoShell, r.Script, r.PTY = words[0], words[1:], true, true, nil, job.No
	if r.Name == "" || r.Name == "." {
		r.Name = "QLOGIN"
	}
	return nil
}

// builtin is the method of interactive jobs that needs no other daemon.
const builtin = "builtin"

// tristate returns the value with index n, or the last value if n is out of range.
func tristate(n uint32, values ...job.Tristate) job.Tristate {
	return values[min(int(n), len(values)-1)]
}

func pathsOf(list []message.Path) []submit.HostPath {
	var all []submit.HostPath
	for _, p := range list {
		all = append(all, submit.HostPath{Host: p.Host, Path: p.Path})
	}
	return all
}

// translatePath maps a path of the submit host to one of this host (sge_aliases(5)):
// the first line that fits counts.
func translatePath(dir string, aliases []message.Alias, submitHost string, s *surroundings) string {
	on := func(pattern, host string) bool { return pattern == "*" || host != "" && s.same(pattern, host) }
	for _, a := range aliases {
		rest, ok := strings.CutPrefix(dir, strings.TrimSuffix(a.Origin, "/"))
		if ok && a.Origin != "" && (rest == "" || rest[0] == '/') && (on(a.SubmitHost, submitHost) || submitHost == "") && on(a.ExecHost, s.host) {
			return strings.TrimSuffix(a.Translation, "/") + rest
		}
	}
	return dir
}

// bindingOf returns a request for cores; nil if there is none, or if it is invalid, because it is
// only a hint.
func bindingOf(list []message.Binding) *submit.Binding {
	if len(list) == 0 {
		return nil
	}
	b := list[0]
	strategy, automatic := strings.CutSuffix(b.Strategy, "_automatic")
	instances := map[uint32]string{1: "pe ", 2: "env ", 3: "set "}
	text := instances[b.Type] + strategy
	switch submit.BindingStrategy(strategy) {
	case submit.Linear:
		text += ":" + strconv.Itoa(int(b.Amount))
	case submit.Striding:
		text += fmt.Sprintf(":%d:%d", b.Amount, b.StepSize)
	case submit.Explicit:
		text = instances[b.Type] + b.Explicit
	default:
		return nil
	}
	if !automatic && submit.BindingStrategy(strategy) != submit.Explicit {
		text += fmt.Sprintf(":%d,%d", b.SocketOffset, b.CoreOffset)
	}
	parsed, err := submit.ParseBinding(text)
	if err != nil {
		return nil
	}
	return &parsed
}

// object makes the text of an object of qconf(1) from attributes and their values.
type object struct {
	text strings.Builder
	err  error
}

// set adds an attribute; one without a value has its default.
func (o *object) set(name, value string) {
	switch {
	case value == "":
	case strings.ContainsAny(value, "\n\r\x00") || strings.HasSuffix(value, "\\"):
		o.err = fmt.Errorf("%s is %q, expected one line", name, value)
	default:
		o.text.WriteString(name + " " + value + "\n")
	}
}

// procedure returns a command of the site. Because the cell's qconf has accepted it, it may also be a
// name to look up in PATH, and contain a dollar sign before words that are not variables.
func (o *object) procedure(name, value string) string {
	if strings.EqualFold(value, "none") {
		return ""
	}
	if strings.ContainsAny(value, "\n\r\x00") {
		o.err = fmt.Errorf("%s is %q, expected one line", name, value)
	}
	return value
}

// queueOf returns the settings of a queue instance that a job carries.
func queueOf(q *message.Queue, host string) (qconf.QueueInstance, error) {
	o := &object{}
	for _, a := range [][2]string{
		{"qname", q.Name},
		{"slots", strconv.Itoa(int(q.Slots))},
		{"priority", q.Priority},
		{"tmpdir", q.Tmpdir},
		{"shell", q.Shell},
		{"shell_start_mode", q.ShellStartMode},
		{"starter_method", q.StarterMethod},
		{"suspend_method", q.SuspendMethod},
		{"resume_method", q.ResumeMethod},
		{"terminate_method", q.TerminateMethod},
		{"processors", q.Processors},
		{"min_cpu_interval", q.MinCPUInterval},
		{"notify", q.Notify},
		{"s_rt", q.SoftRT},
		{"h_rt", q.HardRT},
		{"s_cpu", q.SoftCPU},
		{"h_cpu", q.HardCPU},
		{"s_fsize", q.SoftFsize},
		{"h_fsize", q.HardFsize},
		{"s_data", q.SoftData},
		{"h_data", q.HardData},
		{"s_stack", q.SoftStack},
		{"h_stack", q.HardStack},
		{"s_core", q.SoftCore},
		{"h_core", q.HardCore},
		{"s_rss", q.SoftRSS},
		{"h_rss", q.HardRSS},
		{"s_vmem", q.SoftVmem},
		{"h_vmem", q.HardVmem},
	} {
		o.set(a[0], a[1])
	}
	if o.err != nil {
		return qconf.QueueInstance{}, o.err
	}
	parsed, err := qconf.ParseQueue("queue of the job", []byte(o.text.String()))
	if err != nil {
		return qconf.QueueInstance{}, err
	}
	instance, err := parsed.Instance(host, nil)
	if err != nil {
		return instance, err
	}
	instance.Prolog, instance.Epilog = o.procedure("prolog", q.Prolog), o.procedure("epilog", q.Epilog)
	return instance, o.err
}

// queueLimitsOf returns the limits of a queue as far as they are known: qmaster lowers them to the
// requests of the job, and does not send the original values.
func queueLimitsOf(q *qconf.QueueInstance, j *message.Delivery) *job.Limits {
	l := q.Limits
	for _, r := range j.Hard {
		resource, hard, ok := job.ResourceNamed(r.Name)
		if !ok {
			continue
		}
		// A soft limit is never above the hard one.
		l[resource].Soft = quantity.Infinity
		if hard {
			l[resource].Hard = quantity.Infinity
		}
	}
	return &l
}

// limitsOf applies qmaster's additional limits: requests for the whole job instead of each slot,
// and the end of an advance reservation.
func limitsOf(q *qconf.QueueInstance, j *message.Delivery, task *message.Task) {
	for _, r := range j.Hard {
		resource, hard, ok := job.ResourceNamed(r.Name)
		if !ok || r.Consumable != message.ConsumableJob {
			continue
		}
		if hard {
			q.Limits[resource].HardPerJob = true
		} else {
			q.Limits[resource].SoftPerJob = true
		}
	}
	if w := task.Wallclock; w != 0 && w != cull.Unlimited {
		q.Limits[job.RT].Hard = min(q.Limits[job.RT].Hard, uint64(w.Seconds()))
	}
}

// grantedBindingOf returns the processors that the scheduler has chosen on this host.
func grantedBindingOf(j *message.Delivery, task *message.Task, s *surroundings) *launch.GrantedBinding {
	b := &launch.GrantedBinding{}
	for _, r := range task.Resources {
		if r.Type == message.GrantedBinding && (r.Host == "" || s.same(r.Host, s.host)) {
			for _, tree := range r.Binding {
				b.Trees = append(b.Trees, tree.Text)
			}
		}
	}
	if len(j.Binding) > 0 {
		switch j.Binding[0].Instance {
		case message.BindingEnv:
			b.Instance = binding.Env
		case message.BindingPE:
			b.Instance = binding.PE
		}
	}
	return b
}

// mostGranted bounds how often a job may have an id of a resource map on a host.
const mostGranted = 1 << 16

// grantedOf returns the granted resources of the job on this host: ids of resource maps, and
// amounts of other resources. The original takes the last of several hosts.
func grantedOf(task *message.Task, s *surroundings) (elements map[string][]string, amounts map[string]float64, err error) {
	for _, r := range task.Resources {
		if r.Host != "" && !s.same(r.Host, s.host) {
			continue
		}
		if strings.ContainsAny(r.Name, "=\n\x00") || r.Name == "" {
			return nil, nil, fmt.Errorf("%q is not a name of a resource", r.Name)
		}
		switch r.Type {
		case message.GrantedMap:
			if elements == nil {
				elements = map[string][]string{}
			}
			for _, id := range r.Map {
				if strings.ContainsAny(id.ID, " \t\n\x00") || id.Amount > mostGranted {
					return nil, nil, fmt.Errorf("%q, %d times, is not an id of the resource map %s", id.ID, id.Amount, r.Name)
				}
				elements[r.Name] = append(elements[r.Name], slices.Repeat([]string{id.ID}, int(id.Amount))...)
			}
		case message.GrantedAmount:
			if amounts == nil {
				amounts = map[string]float64{}
			}
			amounts[r.Name] = r.Amount
		}
	}
	return elements, amounts, nil
}

func peOf(p *message.PE) (*qconf.ParallelEnvironment, error) {
	o := &object{}
	o.set("pe_name", p.Name)
	o.set("slots", strconv.Itoa(int(p.Slots)))
	o.set("allocation_rule", p.AllocationRule)
	o.set("control_slaves", strings.ToUpper(strconv.FormatBool(p.ControlSlaves)))
	o.set("job_is_first_task", strings.ToUpper(strconv.FormatBool(p.JobIsFirstTask)))
	o.set("accounting_summary", strings.ToUpper(strconv.FormatBool(p.Summary)))
	if o.err != nil {
		return nil, o.err
	}
	pe, err := qconf.ParsePE("parallel environment of the job", []byte(o.text.String()))
	if err != nil {
		return nil, err
	}
	pe.Start, pe.Stop = o.procedure("start_proc_args", p.Start), o.procedure("stop_proc_args", p.Stop)
	return pe, o.err
}

func ckptOf(c *message.Ckpt) (*qconf.Checkpoint, error) {
	o := &object{}
	for _, a := range [][2]string{
		{"ckpt_name", c.Name},
		{"interface", strings.ToLower(c.Interface)},
		{"ckpt_command", c.Command},
		{"migr_command", c.MigrCommand},
		{"restart_command", c.RestCommand},
		{"clean_command", c.CleanUp},
		{"ckpt_dir", c.Dir},
		{"signal", c.Signal},
		{"when", c.When},
	} {
		o.set(a[0], a[1])
	}
	if o.err != nil {
		return nil, o.err
	}
	return qconf.ParseCheckpoint("checkpointing environment of the job", []byte(o.text.String()))
}

// configurationFiles converts configurations into files of a configuration directory. It leaves out
// parameters that do not concern an execution host, so that mistakes and unknown values in them do
// no harm. usable reports whether an execution host knows a parameter and can use its value.
func configurationFiles(list []message.Configuration, usable func(name, value string) bool) (map[string]string, error) {
	files := map[string]string{}
	for _, c := range list {
		o, seen := &object{}, map[string]bool{}
		for _, e := range c.Entries {
			if !slices.Contains(foreign, e.Name) && !seen[e.Name] && usable(e.Name, e.Value) {
				o.set(e.Name, e.Value)
			}
			seen[e.Name] = true // the first of several counts
		}
		if o.err != nil {
			return nil, fmt.Errorf("configuration %s: %w", c.Name, o.err)
		}
		if strings.ContainsAny(c.Name, "/\x00") || c.Name == "" || strings.HasPrefix(c.Name, ".") {
			return nil, fmt.Errorf("%q is not a name of a configuration", c.Name)
		}
		files["conf/"+c.Name] = o.text.String()
	}
	return files, nil
}

// foreign are parameters of sge_conf(5) that name objects or programs which only qmaster has.
var foreign = []string{
	"user_lists", "xuser_lists", "projects", "xprojects", "auto_user_default_project", "jsv_url", "jsv_allowed_mod", "libjvm_path", "additional_jvm_args",
}
