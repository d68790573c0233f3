package command

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/submit"
)

// Input is a command line, and what it is typed in.
type Input struct {
	Name string // of the command, as qsub
	Args []string
	By   cell.Caller
	// Restricted says that By may not set what runs with the rights of root or of other
	// users, although By may be a manager: the daemon is root's and By is not root.
	Restricted bool
	// Dir is the working directory and Home that of the user, both absolute.
	Dir, Home string
	// Environment is that of the command, NAME=value.
	Environment []string
	// Host is where it is typed; By.Host if it is empty. Where By.Origin is nil, or lacks
	// the directory or the environment, those here count.
	Host string
	// Files are the contents of files by their names, as the command line, a request
	// file or -@ has them, and of RequestFiles. One that is absent cannot be read.
	Files map[string][]byte
	// Unreadable says why files that are absent cannot be read, by their names.
	Unreadable map[string]string
	// Stdin is what is read from standard input, where NeedsStdin says so.
	Stdin []byte
	// Defaults are the files of options of the whole cluster, by their names: sge_request,
	// sge_ar_request, sge_qstat, sge_qhost, sge_qselect, sge_qquota, sge_qrstat
	// (sge_request(5), sge_qstat(5), qrstat(1)).
	Defaults map[string][]byte
	// Edited is what the texts of Result.Edit have become, in the order in which they were
	// asked for: each time the command is run again with one more.
	Edited [][]byte
	// Corrections are what the verifiers of Result.Verify want to have changed, nil where they
	// have not been asked.
	Corrections []submit.Correction
	// Judging says that Result.Judge is followed where the configuration has all jobs verified
	// (sge_conf(5), jsv_url); Verdicts are what came of it, nil where nobody has been asked.
	Judging  bool
	Verdicts []Verdict
	// Confirming says that users confirm what they submit to the launcher of a daemon of two processes.
	// Confirmation is what was confirmed; nil where the client has not been asked.
	Confirming   bool
	Confirmation *Confirmation
	// Terminal says that people read what is printed to standard error, and no scripts: then
	// there may be more than the original says.
	Terminal bool
	// TerminalOut says the same of standard output.
	TerminalOut bool
	// Zone is the time zone of dates that are typed and printed; UTC if it is nil.
	Zone *time.Location
}

// Result is what came of a command line.
type Result struct {
	Stdout, Stderr string
	Exit           int // exit status
	// Hint is a line that follows Stderr, and that the original has nothing like: what was
	// probably meant.
	Hint string
	// Actions are for the execution side, in their order.
	Actions []cell.Action
	// Job is the number of the job that was submitted, 0 for none.
	Job uint32
	// Sync says that the client waits for the end of the job (qsub(1), -sync y), Immediate
	// that it waits for the next scheduling run (-now y) and prints what that says of the
	// job (cell.Run, Immediate).
	Sync, Immediate bool
	// Terse says that nothing but its number is printed of the job (-terse).
	Terse bool
	// Interactive says that the client attaches itself to the job when it runs (qrsh(1));
	// Verbose, that it says so, and NoStdin, that nothing is typed.
	Interactive, Verbose, NoStdin bool
	// Edit is a text to be edited: the same command is to be run again with it in
	// Input.Edited. Nothing has been done or printed before.
	Edit *Edit
	// Verify asks for a job to be verified: the same command is to be run again with
	// Input.Corrections. Nothing has been done or printed before.
	Verify *Verify
	// Judge asks for jobs to be verified by the verifier of the site, one after another until
	// one is refused: the same command is to be run again with Input.Verdicts. Nothing has
	// been printed, and no job been taken in before.
	Judge []Judge
	// Confirm asks for the job to be confirmed: the same command is to be run again with Input.Confirmation.
	// Nothing has been done or printed before.
	Confirm bool
	// Writes are changes of the configuration directory, as qconf.Load reads it. The caller
	// makes them durable, and has the cell take in Cluster, which is what they lead to
	// (cell.Cell, Reconfigure). nil for no change.
	Writes  []Write
	Cluster *qconf.Cluster
}

// Verify is a job that programs of the user look at before it is submitted (qsub(1), -jsv).
type Verify struct {
	Programs    []string // as jsv_url of sge_types(5), in their order
	Parameters  []submit.Parameter
	Environment []submit.Variable // of the job
}

// Judge is a job that the verifier of the site looks at before it is submitted
// (sge_conf(5), jsv_url).
type Judge struct {
	Number      uint32 // that the job gets
	Copied      uint32 // the job that it is a copy of (qresub(1)), or 0
	Parameters  []submit.Parameter
	Environment []submit.Variable // of the job
}

// Verdict is what the verifier of the site says of a job.
type Verdict struct {
	Number, Copied uint32 // those of Judge
	Corrections    []submit.Correction
	Err            error // why the job is refused
}

// Edit is a text that somebody is to change.
type Edit struct {
	Name string // of the file that the editor opens, without a folder
	Text []byte
}

// Write is a change of a file below the configuration directory.
type Write struct {
	Path   string // below the directory, with slashes
	Text   []byte
	Remove bool
	Old    []byte // what the file says until then, also if it is built in; nil if it says nothing
}

// command is a row of the table of commands.
type command struct {
	name    string
	options []option
	// derived are the options of a command that has them from elsewhere; nil for the others.
	// They are put together when they are first asked for: each call of execd would pay.
	derived func() []option
	run     func(*call)
	// needs are the files that are wanted; nil for none.
	needs func(*Input, *wanted)
	// usage is what -help prints behind the name, before the options: one to a line,
	// indented, with explanations from a column on.
	usage          string
	indent, column int
	// complaint is what is said of a command line that cannot be used.
	complaint complaint
}

// all are the options of a command.
func (c *command) all() []option {
	if c.derived != nil {
		return c.derived()
	}
	return c.options
}

// complaint is the way of a command to say what is wrong with its command line. They
// differ (tested).
type complaint struct {
	prefix string // of the line
	usage  bool   // the options come before an option that is none
	exit   int    // 1 if it is 0
}

// table is the row of a command, nil for one that is none. It is not a variable: rows refer to
// functions that look there.
func table(name string) *command {
	for _, c := range []*command{
		&qalter, &qconfCommand, &qdel, &qhold, &qhost, &qlogin, &qmod, &qquota, &qrdel, &qresub, &qrls, &qrsh, &qrstat, &qrsub, &qselect, &qstatCommand, &qsub,
		&shareMonitor,
	} {
		if c.name == name {
			return c
		}
	}
	return nil
}

// Option is an option of one of Grid Engine's commands: a row of what -help prints.
type Option struct {
	Name string // with its dash
	Args string // its values, as -help names them; "" for none
	Help string // what it does; several lines are separated by newlines
}

// Options returns the options of a command that Names has, in the order in which -help prints
// them; nil for any other name.
func Options(name string) []Option {
	c := table(name)
	if c == nil {
		return nil
	}
	var options []Option
	for _, o := range c.all() {
		options = append(options, Option{Name: o.name, Args: o.args, Help: o.help})
	}
	return options
}

// Names are the commands, sorted.
func Names() []string {
	return []string{
		"qalter", "qconf", "qdel", "qhold", "qhost", "qlogin", "qmod", "qquota", "qrdel", "qresub", "qrls", "qrsh", "qrstat", "qrsub", "qselect", "qstat", "qsub",
		"sge_share_mon",
	}
}

// Help is what a command prints for -help; ok is false for one that is none.
func Help(name string) (text string, ok bool) {
	if c := table(name); c != nil {
		return c.text(), true
	}
	return "", false
}

// call is a command that is being carried out.
type call struct {
	cell   *cell.Cell
	now    int64 // seconds since 1970
	in     *Input
	self   *command
	zone   *time.Location
	stdout output
	stderr output
	result Result
	edits  int // texts that were edited, or are to be
	manner submit.Manner
}

// Run carries out a command line at a time, in seconds since 1970.
func Run(c *cell.Cell, now int64, in *Input) *Result {
	x := &call{cell: c, now: now, in: in, self: table(in.Name), zone: cmp.Or(in.Zone, time.UTC)}
	if x.self == nil {
		x.fail(1, "%s: no such command; expected one of %s", in.Name, strings.Join(Names(), ", "))
	} else {
		x.self.run(x)
	}
	if len(x.result.Writes) > 0 {
		x.noteOld()
	}
	x.result.Stdout, x.result.Stderr = x.stdout.String(), x.stderr.String()
	return &x.result
}

// wanted are the files that a command line names and that are not there.
type wanted struct {
	files map[string]bool // by their names; true for those that are nested
	stdin bool
}

// NeededFile is a file that a command line needs.
type NeededFile struct {
	Name string
	// Nested says that the name stands in a script or in a file of options, and not on the
	// command line: their author has chosen it.
	Nested bool
}

// Needs returns the files that a command line names and that are not among in.Files or
// in.Unreadable, sorted, and whether it reads its standard input. Once they are there it
// may name more. It looks at in alone: whether there is such a command is for Run to say.
func Needs(in *Input) (files []NeededFile, stdin bool) {
	w := wanted{files: map[string]bool{}}
	if c := table(in.Name); c != nil && c.needs != nil {
		c.needs(in, &w)
	}
	for _, name := range slices.Sorted(maps.Keys(w.files)) {
		files = append(files, NeededFile{name, w.files[name]})
	}
	return files, w.stdin
}

// want notes a file that is needed. What the command line names as well is not nested.
func (w *wanted) want(in *Input, name string, nested bool) {
	if _, ok := in.Files[name]; ok {
		return
	}
	if _, ok := in.Unreadable[name]; ok {
		return
	}
	if was, ok := w.files[name]; ok {
		nested = nested && was
	}
	w.files[name] = nested
}

// inDirectory is the name of a file of a directory, "" if there is no directory.
func inDirectory(directory, name string) string {
	if directory == "" {
		return ""
	}
	return path.Join(directory, name)
}

func (x *call) hostName() string { return cmp.Or(x.in.Host, x.in.By.Host) }

// variable is a variable of the environment, "" if it is not set.
func (in *Input) variable(name string) string {
	value, _ := in.lookup(name)
	return value
}

// lookup is a variable of the environment, and whether it is set.
func (in *Input) lookup(name string) (value string, ok bool) {
	for _, v := range slices.Backward(in.Environment) {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value, true
		}
	}
	return "", false
}
