package qconf

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/execd-project/execd/job"
)

// Queue is a cluster queue of queue_conf(5): the settings of its instances,
// one on each host of its host list.
type Queue struct {
	Text
	Name  string   // qname
	Hosts []string // hostlist: host names and @groups, in the order of the file

	defaults QueueInstance
	special  []overrides // the attributes that differ between hosts
}

// QueueInstance is a queue on one host: every parameter of queue_conf(5) as it
// holds there. Slices are shared with the queue.
type QueueInstance struct {
	Queue string // qname
	Host  string // as it was given to Instance
	// Builtin says that no site has configured the queue: it is that of Builtin.
	Builtin bool

	SeqNo             int           // seq_no
	LoadThresholds    []Setting     // load_thresholds
	SuspendThresholds []Setting     // suspend_thresholds
	NSuspend          int           // jobs that are suspended in each SuspendInterval
	SuspendInterval   time.Duration // Forever for INFINITY
	Priority          int           // nice value of the jobs, -20 to 20
	MinCPUInterval    time.Duration // shortest time between two checkpoints, Forever for INFINITY
	Processors        string        // ranges like 1-4,8; empty for UNDEFINED
	Batch             bool          // qtype has BATCH
	Interactive       bool          // qtype has INTERACTIVE
	CkptList          []string      // names of checkpointing environments
	PEList            []string      // names of parallel environments
	Rerun             bool          // jobs are restarted unless they request otherwise (-r n)
	Slots             int           // 0 to 9999999

	Tmpdir         string             // parent of the jobs' TMPDIR, absolute
	Shell          string             // absolute
	Prolog, Epilog string             // "[user@]path args", empty for NONE: see Configuration.PrologFor
	ShellStartMode job.ShellStartMode // never RawExec, which qconf refuses
	StarterMethod  string             // "path args", empty for NONE

	// The methods are signal names or numbers (job.ParseSignal), or "path args";
	// empty for NONE, which is SIGSTOP, SIGCONT and SIGKILL.
	SuspendMethod, ResumeMethod, TerminateMethod string
	Notify                                       time.Duration // between notification and signal

	OwnerList             []string // users who may disable and suspend it
	UserLists, XUserLists []string // access lists
	Subordinates          Subordination
	ComplexValues         []Setting
	Projects, XProjects   []string
	Calendar              string // empty for NONE
	InitialState          InitialState

	// Limits are the values for one slot. Those of execd_params are unset.
	Limits job.Limits
}

// InitialState is initial_state of queue_conf(5).
type InitialState string

// The initial states of queue_conf(5).
const (
	InitialDefault  InitialState = "default" // the state that it had
	InitialEnabled  InitialState = "enabled"
	InitialDisabled InitialState = "disabled"
)

// queueParts holds the values that the table of a queue fills: those that all instances share, and
// those of one instance.
type queueParts struct {
	hosts []string
	QueueInstance
}

var queueTable = table[queueParts]{
	object: "queue",
	manual: "queue_conf(5)",
	layout: layout{column: 22},
	rows:   queueRows(),
}

// queueRows are the parameters of queue_conf(5) with the defaults of its
// template, in the order of qconf -sq.
func queueRows() []attribute[queueParts] {
	type inst = *queueParts
	rows := []attribute[queueParts]{
		{name: "qname", required: true, kind: name(func(q inst) *string { return &q.Queue })},
		row("hostlist", none, hosts(func(q inst) *[]string { return &q.hosts })),
		row("seq_no", "0", number(0, math.MaxInt32, func(q inst) *int { return &q.SeqNo })),
		row("load_thresholds", "np_load_avg=1.75", settings(func(q inst) *[]Setting { return &q.LoadThresholds })),
		row("suspend_thresholds", none, settings(func(q inst) *[]Setting { return &q.SuspendThresholds })),
		row("nsuspend", "1", number(0, math.MaxInt32, func(q inst) *int { return &q.NSuspend })),
		row("suspend_interval", "00:05:00", durationOrForever(func(q inst) *time.Duration { return &q.SuspendInterval })),
		row("priority", "0", number(-20, 20, func(q inst) *int { return &q.Priority })),
		row("min_cpu_interval", "00:05:00", durationOrForever(func(q inst) *time.Duration { return &q.MinCPUInterval })),
		row("processors", "UNDEFINED", kind[queueParts]{breaks: betweenItems, read: readProcessors}),
		row("qtype", "BATCH INTERACTIVE", kind[queueParts]{breaks: betweenItems, read: readQtype}),
		row("ckpt_list", none, names(func(q inst) *[]string { return &q.CkptList })),
		row("pe_list", none, names(func(q inst) *[]string { return &q.PEList })),
		row("rerun", "FALSE", boolean(func(q inst) *bool { return &q.Rerun })),
		row("slots", "1", number(0, maxSlots, func(q inst) *int { return &q.Slots })),
		row("tmpdir", "/tmp", path(func(q inst) *string { return &q.Tmpdir })),
		row("shell", "/bin/csh", path(func(q inst) *string { return &q.Shell })),
		row("prolog", none, userCommand(procedureVariables, func(q inst) *string { return &q.Prolog })),
		row("epilog", none, userCommand(procedureVariables, func(q inst) *string { return &q.Epilog })),
		row("shell_start_mode", string(job.PosixCompliant), startMode(func(q inst) *job.ShellStartMode { return &q.ShellStartMode })),
		row("starter_method", none, command(methodVariables, func(q inst) *string { return &q.StarterMethod })),
		row("suspend_method", none, method(func(q inst) *string { return &q.SuspendMethod })),
		row("resume_method", none, method(func(q inst) *string { return &q.ResumeMethod })),
		row("terminate_method", none, method(func(q inst) *string { return &q.TerminateMethod })),
		// INFINITY, which the original takes, would be a job that never ends.
		row("notify", "00:00:60", duration(0, func(q inst) *time.Duration { return &q.Notify })),
		row("owner_list", none, names(func(q inst) *[]string { return &q.OwnerList })),
		row("user_lists", none, names(func(q inst) *[]string { return &q.UserLists })),
		row("xuser_lists", none, names(func(q inst) *[]string { return &q.XUserLists })),
		row("subordinate_list", none, subordinates(func(q inst) *Subordination { return &q.Subordinates })),
		row("complex_values", none, settings(func(q inst) *[]Setting { return &q.ComplexValues })),
		row("projects", none, names(func(q inst) *[]string { return &q.Projects })),
		row("xprojects", none, names(func(q inst) *[]string { return &q.XProjects })),
		row("calendar", none, optionalName(func(q inst) *string { return &q.Calendar })),
		row("initial_state", string(InitialDefault), keyword(func(q inst) *InitialState { return &q.InitialState },
			InitialDefault, InitialEnabled, InitialDisabled)),
	}
	for r := job.RT; r <= job.Vmem; r++ {
		for _, hard := range []bool{false, true} {
			prefix := "s_"
			if hard {
				prefix = "h_"
			}
			rows = append(rows, row(prefix+r.String(), "INFINITY", limit(r, hard, func(q inst) *job.Limits { return &q.Limits })))
		}
	}
	for i := range rows {
		// "enhanced queue configuration specifier syntax" (queue_conf(5),
		// hostlist) is for all parameters but the two that make the queue.
		rows[i].perHost = i >= 2
	}
	return rows
}

// startMode returns the kind of shell_start_mode, which refuses raw_exec, as the original does.
func startMode[T any](field func(*T) *job.ShellStartMode) kind[T] {
	return keyword(field, job.PosixCompliant, job.UnixBehavior, job.ScriptFromStdin)
}

// ParseQueue reads a queue in the notation of queue_conf(5). file is only used
// in errors, which are all *Error, joined.
func ParseQueue(file string, data []byte) (*Queue, error) {
	return whole(newQueue(queueTable.parse(file, data)))
}

// With returns the queue with one attribute changed, or the reason why it
// cannot have that value.
func (q *Queue) With(attribute, value string) (*Queue, error) {
	return whole(newQueue(queueTable.with(q.Text, attribute, value)))
}

func newQueue(text Text, parts queueParts, err error) (*Queue, error) {
	q := &Queue{Text: text, Name: parts.Queue, Hosts: parts.hosts, defaults: parts.QueueInstance}
	for _, r := range paramLimits {
		q.defaults.Limits[r] = job.Unlimited()[r]
	}
	for _, e := range q.entries {
		if len(e.parts) > 1 {
			q.special = append(q.special, newOverrides(e))
		}
	}
	return q, err
}

// Instance returns the settings of the queue on a host, whether or not the host is in its host
// list. For each parameter, the setting of the host takes precedence over the setting of a host
// group that contains it, and that over the default (queue_conf(5), hostlist).
//
// If no setting names the host, and more than one of its groups has a setting, the configuration is
// ambiguous, even if the values agree, as in Grid Engine. Instance then returns one *Error per
// parameter that wraps ErrAmbiguous, joined, and an instance with the default of these parameters.
func (q *Queue) Instance(host string, groups *HostGroups) (QueueInstance, error) {
	parts := queueParts{QueueInstance: q.defaults}
	parts.Host = host
	var errs []error
	for _, o := range q.special {
		setting, err := o.on(host, groups)
		if err != nil {
			errs = append(errs, q.errorAt(o.name, o.text, err.Error(), ErrAmbiguous))
			continue
		}
		if setting == "" {
			continue
		}
		if _, err := queueTable.rows[queueTable.index(o.name)].read(&parts, setting); err != nil {
			errs = append(errs, q.errorAt(o.name, setting, err.Error(), err))
		}
	}
	return parts.QueueInstance, errors.Join(errs...)
}

// readProcessors reads processors: UNDEFINED, or numbers and ranges of
// processors.
func readProcessors(q *queueParts, s string) (string, error) {
	q.Processors = ""
	if isWord(s, "undefined") {
		return "UNDEFINED", nil
	}
	items := words(s)
	var errs []error
	for i, item := range items {
		r, err := parseRange(item, 0, math.MaxInt32)
		if err != nil {
			errs = addError(errs, fmt.Errorf("%w, or UNDEFINED", err))
			continue
		}
		// Plain numbers: other programs would read 0x1F and 007 as different numbers.
		items[i] = strconv.Itoa(r.First)
		if strings.Contains(item, "-") {
			items[i] += "-" + strconv.Itoa(r.Last)
		}
	}
	if len(items) == 0 {
		return s, fmt.Errorf("%q names no processors, expected UNDEFINED or ranges like 1-4,8", s)
	}
	q.Processors = strings.Join(items, ",")
	return q.Processors, errJoin(errs)
}

// readQtype reads qtype: BATCH and INTERACTIVE, or NONE. A queue is parallel or
// checkpointing by its pe_list and ckpt_list.
func readQtype(q *queueParts, s string) (string, error) {
	q.Batch, q.Interactive = false, false
	items := words(s)
	if len(items) == 1 && isWord(items[0], none) {
		return none, nil
	}
	var errs []error
	for _, item := range items {
		switch {
		case isWord(item, "batch"):
			q.Batch = true
		case isWord(item, "interactive"):
			q.Interactive = true
		case isWord(item, "parallel", "checkpointing"):
			errs = addError(errs, fmt.Errorf("%q is not a queue type any more, expected BATCH, INTERACTIVE or NONE: a queue with a pe_list or ckpt_list is one", item))
		default:
			errs = addError(errs, fmt.Errorf("%q is not a queue type, expected BATCH, INTERACTIVE or NONE", item))
		}
	}
	if errs != nil {
		return s, errJoin(errs)
	}
	switch {
	case q.Batch && q.Interactive:
		return "BATCH INTERACTIVE", nil
	case q.Batch:
		return "BATCH", nil
	case q.Interactive:
		return "INTERACTIVE", nil
	}
	return s, fmt.Errorf("%q names no queue type, expected BATCH, INTERACTIVE or NONE", s)
}

// Variants returns the default settings of the queue and, for each setting of a host or host group,
// a copy of them with this one setting. A value that no variant allows is not allowed in any
// instance.
func (q *Queue) Variants() []QueueInstance {
	variants := []QueueInstance{q.defaults}
	for _, o := range q.special {
		row := queueTable.rows[queueTable.index(o.name)]
		for _, text := range o.settings() {
			parts := queueParts{QueueInstance: q.defaults}
			if _, err := row.read(&parts, text); err == nil {
				variants = append(variants, parts.QueueInstance)
			}
		}
	}
	return variants
}

// InstanceText returns the output of qconf -sq QUEUE@HOST: the queue with the settings of one host.
// An ambiguous attribute has its default.
func (q *Queue) InstanceText(host string, groups *HostGroups) Text {
	t := q.Text
	t.entries = slices.Clone(q.entries)
	for i := range t.entries {
		e := &t.entries[i]
		setting := e.parts[0].text
		if e.name == "hostlist" {
			e.name, setting = "hostname", host
		}
		for _, o := range q.special {
			if o.name != e.name {
				continue
			}
			if text, err := o.on(host, groups); err == nil && text != "" {
				setting = text
			}
		}
		e.parts = []part{{text: setting}}
	}
	return t
}
