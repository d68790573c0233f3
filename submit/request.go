package submit

import (
	"strings"
	"time"

	"github.com/execd-project/execd/job"
)

// DefaultAccount is the account of a job that asks for none (sge_submit(1),
// -A).
const DefaultAccount = "sge"

// StdinName is the name of a job whose script came from standard input.
const StdinName = "STDIN"

// Request is everything that was asked for one job, after all sources were
// read in their order. A field with its zero value was not asked for.
type Request struct {
	// Help and DryRun are for the caller: -help (nothing else is filled in),
	// and -verify, -w v or -w p, by which the job is described and not run.
	Help, DryRun bool
	Terse        bool // -terse

	Command   string   // the script or command as given; StdinName for standard input
	Script    []byte   // its text; nil with Binary
	FromStdin bool     // the script came from standard input
	Args      []string // of the job
	Binary    bool     // -b y: Command is run, not a copy of it
	NoShell   bool     // -shell n; means something only with Binary
	Login     bool     // qlogin, or qrsh without a command: a login shell. Command is the name of such jobs
	Shell     []HostPath

	Name     string // of the job; never empty
	Account  string // -A; see DefaultAccount
	Project  string // -P
	Priority int    // -p, -1023 to 1024

	Input, Output, Error []HostPath // -i, -o, -e
	Join                 bool       // -j y: errors go where the output goes
	// WorkingDir is for PathVars.Expand: -wd as given, or the directory of the
	// submission for -cwd. Empty is the home directory.
	WorkingDir string

	// Env is what -V and -v pass on, in this order of rank, whatever their
	// order was. TERM is always there, and empty unless passed on (tested).
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
	Start          DateTime // -a: not to be started before
	Deadline       DateTime // -dl
	PrecedingJobs  []string // -hold_jid: numbers, names and patterns of jobs
	PrecedingTasks []string // -hold_jid_ad, likewise, task by task
	TaskLimit      int      // -tc: tasks at the same time; 0 for no limit
	JobShare       int      // -js
	Reservation    int      // -ar, the number of an advance reservation; 0 for none

	// Noted are the options that concern waiting, placing and accounting. They
	// change nothing on one host; see Notice.
	Noted []Note
}

// Manner is what a command line asks of the command, and not of the job.
type Manner struct {
	NoStdin bool // -nostdin: nothing is typed
	Verbose bool // -verbose, and qlogin: it is said how the session comes about
	// Unread are the files of options that other such files, or the script, name and that
	// cannot be read. The original drops what follows -@ in the line, without a word (tested).
	Unread []Unread
}

// Unread is a file of options (-@) that cannot be read.
type Unread struct {
	Name  string // as it is given
	Where string // the file that names it
	Line  int    // in that
	Err   error
}

// Note is an option that was accepted and has no effect on one host.
type Note struct {
	Option string // with its dash
	Value  string // its values, joined by blanks
	Soft   bool   // for -q: after -soft
}

// Notice returns what was asked for and has no effect on one host, each once
// and in the order in which it was met: options by their names, requests for
// resources that are no limits as "-l name".
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

// note records an option. Of one that does not accumulate only the last stays.
func (r *Request) note(s setting) {
	n := Note{Option: s.option.Name, Value: strings.Join(s.values, " ")}
	if s.option.Name == "-q" {
		n.Soft = s.soft
	}
	r.unnote(s)
	r.Noted = append(r.Noted, n)
}

// unnote takes back what an earlier option of the same name recorded, unless
// it accumulates.
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
