package submit

import (
	"strings"
	"time"

	"github.com/execd-project/execd/job"
)

// DefaultAccount is the account of a job without -A (sge_submit(1)).
const DefaultAccount = "sge"

// StdinName is the name of a job whose script came from standard input.
const StdinName = "STDIN"

// Request holds all options of one job, from all sources. The zero value of a field means that the
// option was not given.
type Request struct {
	// Help means -help: no other field is set. DryRun means -verify, -w v or -w p: the job is
	// described but not run.
	Help, DryRun bool
	Terse        bool // -terse

	Command   string   // the script or command as given; StdinName for standard input
	Script    []byte   // its text; nil with Binary
	FromStdin bool     // the script came from standard input
	Args      []string // of the job
	Binary    bool     // -b y: Command is run directly, not a copy of it
	NoShell   bool     // -shell n; meaningful only with Binary
	Login     bool     // qlogin, or qrsh without a command: a login shell. Command is then the name that the original gives such jobs
	Shell     []HostPath

	Name     string // of the job; never empty
	Account  string // -A; see DefaultAccount
	Project  string // -P
	Priority int    // -p, -1023 to 1024

	Input, Output, Error []HostPath // -i, -o, -e
	Join                 bool       // -j y: standard error goes to the file of standard output
	// WorkingDir has to be expanded by PathVars.Expand: the value of -wd, or the directory of the
	// submission for -cwd. Empty means the home directory.
	WorkingDir string

	// Env holds the variables of -v and -V. -v always has precedence. Env always contains TERM,
	// which is empty unless passed on (tested).
	Env     []Variable
	Context []Variable // -ac, -dc, -sc

	Array   *Array           // -t; nil for a job that is not an array job
	PE      *ParallelRequest // -pe; nil for a serial job
	Binding *Binding         // -binding
	Notify  bool             // -notify
	Rerun   job.Tristate     // -r
	PTY     job.Tristate     // -pty

	Checkpoint         string        // -ckpt, the name of the checkpoint object
	CheckpointWhen     string        // -c with letters, in the order n m s x r
	CheckpointInterval time.Duration // -c with an interval, whole seconds

	Mail        []string // -M, user or user@host
	MailOptions job.MailOptions

	Resources []ResourceRequest // -l, in order, each resource once per kind

	Queues       []QueueRequest // -q, in order
	MasterQueues []string       // -masterq, references as in Queues
	Immediate    bool           // -now y
	Reserve      bool           // -R y
	Validation   Validation     // -w
	Sync         bool           // -sync y

	Hold           bool     // -h: the job begins with a user hold
	Start          DateTime // -a: the earliest start
	Deadline       DateTime // -dl
	PrecedingJobs  []string // -hold_jid: numbers, names and patterns of jobs
	PrecedingTasks []string // -hold_jid_ad, likewise, task by task
	TaskLimit      int      // -tc: tasks at the same time; 0 for no limit
	JobShare       int      // -js
	Reservation    int      // -ar, the number of an advance reservation; 0 for none

	// Noted lists the options that concern scheduling and accounting. They have no effect on a
	// single host; see Notice.
	Noted []Note
}

// Manner holds the options that concern the command rather than the job.
type Manner struct {
	NoStdin bool // -nostdin: the command has no input
	Verbose bool // -verbose, and qlogin: the command reports how the session is established
	// Unread lists files of options that the script or another file of options names and that
	// cannot be read. The original silently ignores the words after such a -@ in its line (tested).
	Unread []Unread
}

// Unread is a file of options (-@) that cannot be read.
type Unread struct {
	Name  string // as given
	Where string // the file that names it
	Line  int    // line in that file
	Err   error
}

// Note is an option that was accepted and has no effect on one host.
type Note struct {
	Option string // with its dash
	Value  string // its values, joined by blanks
	Soft   bool   // for -q: after -soft
}

// Notice returns the requests that have no effect on a single host, each once and in the order in
// which they were read. It names options by their names, and resources other than limits as "-l
// name".
func (r *Request) Notice() []string {
	var words []string
	seen := map[string]bool{}
	add := func(w string) {
		if !seen[w] {
			seen[w] = true
			words = append(words, w)
		}
	}
	for _, n := range r.Noted {
		add(n.Option)
	}
	for _, q := range r.OtherRequests() {
		add("-l " + q.Name)
	}
	return words
}

// note records an option. If the option does not accumulate, its last occurrence replaces earlier
// ones.
func (r *Request) note(s setting) {
	n := Note{Option: s.option.Name, Value: strings.Join(s.values, " ")}
	if s.option.Name == "-q" {
		n.Soft = s.soft
	}
	r.unnote(s)
	r.Noted = append(r.Noted, n)
}

// unnote removes the record of an earlier option of the same name, unless the option accumulates.
func (r *Request) unnote(s setting) {
	if s.option.Repeat == Accumulates {
		return
	}
	kept := r.Noted[:0]
	for _, old := range r.Noted {
		if old.Option != s.option.Name {
			kept = append(kept, old)
		}
	}
	r.Noted = kept
}
