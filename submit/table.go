package submit

import (
	"slices"
	"strings"
)

// Treatment is the treatment of an option when a job runs in the foreground on one host.
type Treatment int

// The treatments of options.
const (
	// Executed options take effect.
	Executed Treatment = iota
	// Noted options concern scheduling or accounting, which do not exist on a single host. They are
	// checked, stored, and named once in a notice.
	Noted
	// Refused options would change how the job runs, and cannot be honoured.
	Refused
	// ForCaller options request something other than running a job.
	ForCaller
)

// String returns the treatment as a heading of the help text.
func (t Treatment) String() string {
	switch t {
	case Executed:
		return "Carried out"
	case Noted:
		return "Accepted, without effect on one host"
	case Refused:
		return "Refused"
	default:
		return "Instead of running a job"
	}
}

// Repeat is the rule for a second occurrence of an option.
type Repeat int

// The rules for repeated options.
const (
	Replaces    Repeat = iota // the last occurrence counts
	Accumulates               // all occurrences count; equal parts of earlier ones are replaced
)

// Commands is a set of Grid Engine's submit commands.
type Commands int

// The submit commands of sge_submit(1), and qrsub(1).
const (
	Qsub Commands = 1 << iota
	Qsh
	Qlogin
	Qrsh
	Qalter
	Qrsub // qrsub(1): advance reservations

	everywhere = Qsub | Qsh | Qlogin | Qrsh | Qalter
)

// String returns the names of the commands.
func (c Commands) String() string {
	var names []string
	for i, name := range []string{"qsub", "qsh", "qlogin", "qrsh", "qalter", "qrsub"} {
		if c&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// Option is a row of the table of options: its description in sge_submit(1), and its treatment
// here.
type Option struct {
	Name string // with its dash
	Args string // names of the values, separated by blanks; empty for none
	// Values is the number of values. If the first value is one of Leading, another value follows.
	Values    int
	Leading   []string
	Commands  Commands // the commands that accept it
	Treatment Treatment
	Repeat    Repeat
	Help      string // one line

	// apply checks the values and puts them into the request. Only Executed options need it.
	apply func(*builder, setting) error
	// harmless reports whether the values of a Refused option ask for nothing, or whether a Noted
	// option need not be noted.
	harmless func(values []string) bool
}

// words returns the number of elements of args that belong to the option: its name, which comes
// first, and its values.
func (o *Option) words(args []string) int {
	n := 1 + o.Values
	if len(args) > 1 && slices.Contains(o.Leading, args[1]) {
		n++
	}
	return n
}

// Options returns the table, in the order of sge_submit(1). If a name has different meanings for
// different commands, it has a row for each.
func Options() []Option { return append([]Option(nil), table[:]...) }

// Lookup returns the row of an option, named with its dash. It also finds options of other submit
// commands, because default request files contain options for all commands. It does not find
// options that only qrsub has.
func Lookup(name string) (Option, bool) {
	if o := lookup(Qsub, name); o != nil {
		return *o, true
	}
	return Option{}, false
}

// lookup returns the row of an option for a command.
func lookup(command Commands, name string) *Option {
	var other *Option
	for i := range table {
		o := &table[i]
		switch {
		case o.Name != name:
		case o.Commands&command != 0:
			return o
		case other == nil && o.Commands&everywhere != 0 && command == Qsub:
			other = o
		}
	}
	return other
}

// table is constant. Its rows follow sge_submit(1), OPTIONS.
var table = [...]Option{
	{Name: "-@", Args: "file", Values: 1, Commands: everywhere, Repeat: Accumulates, Help: "read options from a file"},
	{Name: "-a", Args: "date_time", Values: 1, Commands: Qsub | Qalter | Qrsub, Treatment: Noted, Help: "do not start before [[CC]YY]MMDDhhmm[.SS]", apply: setStart},
	{Name: "-ac", Args: "name[=value],...", Values: 1, Commands: everywhere, Treatment: Noted, Repeat: Accumulates, Help: "add to the job's context", apply: setContext},
	{Name: "-ar", Args: "ar_id", Values: 1, Commands: everywhere, Treatment: Noted, Help: "run in an advance reservation", apply: setReservation},
	{Name: "-A", Args: "account", Values: 1, Commands: everywhere | Qrsub, Treatment: Noted, Help: "account to be charged (SGE_ACCOUNT)", apply: setAccount},
	{Name: "-b", Args: "y[es]|n[o]", Values: 1, Commands: Qsub | Qrsh, Help: "the command is a program on the host, not a script to copy", apply: setBinary},
	{Name: "-bamount", Args: "n", Values: 1, Commands: everywhere, Help: "bind to n cores for each slot, like -binding linear:n; 0 for none", apply: setBindingAmount},
	{Name: "-bfilter", Args: "topology", Values: 1, Commands: everywhere, Help: "refused unless NONE: cores that binding may not use", apply: refuseUnlessNone},
	{Name: "-binding", Args: "[set|env|pe] strategy", Values: 1, Leading: []string{string(BindSet), string(BindEnv), string(BindPE)}, Commands: everywhere, Help: "bind to cores: linear[:n], striding:n:step, explicit:socket,core...", apply: setBinding},
	{Name: "-binstance", Args: "set|env|pe", Values: 1, Commands: everywhere, Help: "use of the cores of -bamount: the first word of -binding", apply: setBindingInstance},
	{Name: "-bsort", Args: "order", Values: 1, Commands: everywhere, Help: "refused unless NONE: order in which -bamount takes cores", apply: refuseUnlessNone},
	{Name: "-bstart", Args: "unit", Values: 1, Commands: everywhere, Help: "refused unless NONE: first core of -bamount", apply: refuseUnlessNone},
	{Name: "-bstop", Args: "unit", Values: 1, Commands: everywhere, Help: "refused unless NONE: last core of -bamount", apply: refuseUnlessNone},
	{Name: "-bstrategy", Args: "packed", Values: 1, Commands: everywhere, Help: "how -bamount takes cores: next to each other", apply: setBindingStrategy},
	{Name: "-btype", Args: "slot|host", Values: 1, Commands: everywhere, Help: "-bamount is for each slot, or for the host", apply: setBindingType},
	{Name: "-bunit", Args: "C", Values: 1, Commands: everywhere, Help: "unit of -bamount: cores", apply: setBindingUnit},
	{Name: "-c", Args: "n|s|m|x|r|interval", Values: 1, Commands: Qsub | Qalter, Help: "when to checkpoint", apply: setCheckpointWhen},
	{Name: "-ckpt", Args: "name", Values: 1, Commands: Qsub | Qalter | Qrsub, Help: "checkpoint object to be used", apply: setCheckpoint},
	{Name: "-clear", Commands: everywhere &^ Qalter, Repeat: Accumulates, Help: "ignore all options before this one"},
	{Name: "-cwd", Commands: everywhere &^ Qlogin, Help: "run in the current directory", apply: setCwd},
	{Name: "-C", Args: "prefix", Values: 1, Commands: Qsub | Qrsh, Help: "prefix of options in the script (#$); \"\" for none", apply: ignore},
	{Name: "-d", Args: "time", Values: 1, Commands: Qrsub, Help: "duration of an advance reservation", apply: setDuration},
	{Name: "-dc", Args: "name,...", Values: 1, Commands: everywhere, Treatment: Noted, Repeat: Accumulates, Help: "remove from the job's context", apply: setContext},
	{Name: "-display", Args: "display", Values: 1, Commands: Qsh | Qrsh, Treatment: Noted, Help: "X display of an interactive job", apply: setDisplay},
	{Name: "-dl", Args: "date_time", Values: 1, Commands: everywhere, Treatment: Noted, Help: "deadline [[CC]YY]MMDDhhmm[.SS]", apply: setDeadline},
	{Name: "-e", Args: "[[host]:]path,...", Values: 1, Commands: Qsub | Qalter, Repeat: Accumulates, Help: "file or directory of standard error", apply: setPaths},
	{Name: "-e", Args: "[[host]:]path,...", Values: 1, Commands: Qsh | Qlogin | Qrsh, Treatment: Noted, Help: "accepted without effect: an interactive job writes to its caller", apply: ignore},
	{Name: "-e", Args: "date_time", Values: 1, Commands: Qrsub, Help: "end of an advance reservation, [[CC]YY]MMDDhhmm[.SS]", apply: setEnd},
	{Name: "-hard", Commands: everywhere, Treatment: Noted, Help: "the requests -l and -q that follow must be met"},
	{Name: "-h", Commands: Qsub | Qrsh, Treatment: Noted, Help: "put a user hold on the job", apply: setUserHold},
	{Name: "-h", Args: "u|s|o|n|U|O|S...", Values: 1, Commands: Qalter, Treatment: Noted, Help: "put holds on the job, or remove them", apply: setHolds},
	{Name: "-he", Args: "y[es]|n[o]", Values: 1, Commands: Qrsub, Help: "an advance reservation in error state starts no jobs", apply: setHardError},
	{Name: "-help", Commands: everywhere | Qrsub, Treatment: ForCaller, Help: "print this list", apply: setHelp},
	{Name: "-hold_jid", Args: "job,...", Values: 1, Commands: Qsub | Qrsh | Qalter, Treatment: Noted, Repeat: Accumulates, Help: "wait for the end of other jobs", apply: setPredecessors},
	{Name: "-hold_jid_ad", Args: "job,...", Values: 1, Commands: Qsub | Qrsh | Qalter, Treatment: Noted, Repeat: Accumulates, Help: "wait task by task for the end of other array jobs", apply: setPredecessors},
	{Name: "-i", Args: "[[host]:]path,...", Values: 1, Commands: Qsub | Qalter, Repeat: Accumulates, Help: "file of standard input", apply: setPaths},
	{Name: "-inherit", Commands: Qrsh, Treatment: Refused, Help: "start a task in a running parallel job"},
	{Name: "-j", Args: "y[es]|n[o]", Values: 1, Commands: everywhere, Help: "standard error goes where standard output goes", apply: setJoin},
	{Name: "-js", Args: "share", Values: 1, Commands: everywhere, Treatment: Noted, Help: "share of this job among the user's jobs", apply: setJobShare},
	{Name: "-jsv", Args: "jsv_url", Values: 1, Commands: everywhere &^ Qalter, Treatment: Noted, Repeat: Accumulates, Help: "verify the job with a program", apply: setVerifier},
	{Name: "-l", Args: "resource=value,...", Values: 1, Commands: everywhere | Qrsub, Repeat: Accumulates, Help: "request resources; limits like h_rt=1:0:0,h_vmem=2G are enforced", apply: setResources},
	{Name: "-m", Args: "b|e|a|s|n...", Values: 1, Commands: everywhere | Qrsub, Repeat: Accumulates, Help: "mail at begin, end, abortion, suspension, never", apply: setMailOptions},
	{Name: "-M", Args: "user[@host],...", Values: 1, Commands: everywhere | Qrsub, Repeat: Accumulates, Help: "recipients of mail", apply: setMail},
	{Name: "-masterq", Args: "queue,...", Values: 1, Commands: everywhere | Qrsub, Treatment: Noted, Repeat: Accumulates, Help: "queues for the master task of a parallel job", apply: setQueues},
	{Name: "-notify", Commands: Qsub | Qrsh | Qalter, Help: "send SIGUSR1 and SIGUSR2 ahead of suspension and end", apply: setNotify},
	{Name: "-now", Args: "y[es]|n[o]", Values: 1, Commands: everywhere&^Qalter | Qrsub, Treatment: Noted, Help: "start at once or not at all", apply: setImmediate, harmless: isNo},
	{Name: "-N", Args: "name", Values: 1, Commands: everywhere | Qrsub, Help: "name of the job", apply: setName},
	{Name: "-noshell", Commands: Qrsh | Qlogin, Treatment: Refused, Help: "run the command of qrsh without a shell; for qsub it is -shell n", apply: setWithoutShell},
	{Name: "-nostdin", Commands: Qrsh, Treatment: Noted, Help: "no standard input; a batch job has none anyway", apply: setNoStdin},
	{Name: "-o", Args: "[[host]:]path,...", Values: 1, Commands: Qsub | Qalter, Repeat: Accumulates, Help: "file or directory of standard output", apply: setPaths},
	{Name: "-o", Args: "[[host]:]path,...", Values: 1, Commands: Qsh | Qlogin | Qrsh, Treatment: Noted, Help: "accepted without effect: an interactive job writes to its caller", apply: ignore},
	{Name: "-ot", Args: "tickets", Values: 1, Commands: Qalter, Treatment: Noted, Help: "override tickets", apply: setOverride},
	{Name: "-P", Args: "project", Values: 1, Commands: everywhere, Treatment: Noted, Help: "project of the job", apply: setProject},
	{Name: "-p", Args: "priority", Values: 1, Commands: everywhere, Help: "priority among jobs, -1023 to 1024", apply: setPriority},
	{Name: "-pe", Args: "pe_name n[-[m]]|[-]m,...", Values: 2, Commands: everywhere | Qrsub, Help: "parallel environment and number of slots", apply: setPE},
	{Name: "-pty", Args: "y[es]|n[o]", Values: 1, Commands: Qsub | Qlogin | Qrsh, Treatment: Refused, Help: "run in a pseudo terminal; for qrsh with a command the default is n", apply: setPTY, harmless: isNo},
	{Name: "-q", Args: "queue,...", Values: 1, Commands: everywhere | Qrsub, Treatment: Noted, Repeat: Accumulates, Help: "queues that the job may run in", apply: setQueues},
	{Name: "-R", Args: "y[es]|n[o]", Values: 1, Commands: everywhere, Treatment: Noted, Help: "reserve resources while waiting", apply: setReserve, harmless: isNo},
	{Name: "-r", Args: "y[es]|n[o]", Values: 1, Commands: Qsub | Qalter, Help: "the job may be run again after a crash", apply: setRerun},
	{Name: "-sc", Args: "name[=value],...", Values: 1, Commands: everywhere, Treatment: Noted, Repeat: Accumulates, Help: "set the job's context", apply: setContext},
	{Name: "-scope", Args: "global|master|slave", Values: 1, Commands: everywhere, Help: "tasks that requests are for; only global is supported", apply: setScope},
	{Name: "-shell", Args: "y[es]|n[o]", Values: 1, Commands: Qsub, Help: "with -b y: run the command through a shell", apply: setNoShell},
	{Name: "-soft", Commands: everywhere, Treatment: Noted, Help: "the requests -l and -q that follow should be met if possible"},
	{Name: "-sync", Args: "y[es]|n[o]|x", Values: 1, Commands: Qsub, Treatment: Noted, Help: "wait for the end of the job; x is y", apply: setSync, harmless: isNo},
	{Name: "-S", Args: "[[host]:]path,...", Values: 1, Commands: Qsub | Qsh | Qalter, Repeat: Accumulates, Help: "shell that runs the job", apply: setPaths},
	{Name: "-t", Args: "n[-m[:s]]", Values: 1, Commands: Qsub, Help: "array job with these task numbers", apply: setArray},
	{Name: "-tc", Args: "n", Values: 1, Commands: Qsub | Qalter, Treatment: Noted, Help: "at most n tasks at the same time", apply: setTaskLimit},
	{Name: "-terse", Commands: Qsub, Help: "print only the job number", apply: setTerse},
	{Name: "-u", Args: "user,...", Values: 1, Commands: Qalter | Qrsub, Treatment: Refused, Help: "change the jobs of users", apply: setUsers},
	{Name: "-v", Args: "name[=value],...", Values: 1, Commands: Qsub | Qrsh | Qalter, Repeat: Accumulates, Help: "pass environment variables on", apply: setEnvironment},
	{Name: "-verbose", Commands: Qrsh | Qlogin, Treatment: Noted, Help: "more messages of qrsh", apply: setVerbose},
	{Name: "-verify", Commands: everywhere, Treatment: ForCaller, Help: "describe the job instead of running it", apply: setVerify},
	{Name: "-V", Commands: Qsub | Qsh | Qrsh | Qalter, Help: "pass the whole environment on", apply: setWholeEnvironment},
	{Name: "-w", Args: "e|w|n|p|v", Values: 1, Commands: everywhere | Qrsub, Treatment: Noted, Help: "check requests; p and v describe the job instead of running it", apply: setValidation, harmless: isNo},
	{Name: "-wd", Args: "directory", Values: 1, Commands: everywhere &^ Qlogin, Help: "run in this directory", apply: setWorkingDir},
}
