package command

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/internal/submission"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/submit"
)

// Input is a command line with the user's environment, directory, host and files.
type Input struct {
	Name string // of the command, as qsub
	Args []string
	By   cell.Caller
	// Restricted says that By may not set programs that run with the rights of root or of other
	// users, even if By is a manager: the daemon runs as root, and By is not root.
	Restricted bool
	// Dir is the working directory and Home that of the user, both absolute.
	Dir, Home string
	// Environment is that of the command, NAME=value.
	Environment []string
	// Host is the host of the client; if it is empty, By.Host is. If By.Origin is nil or lacks the
	// directory or the environment, these fields count.
	Host string
	// Files holds the contents of files: of RequestFiles, and of the files that the command line, a
	// request file or -@ names, under these names. A file that is not in the map cannot be read.
	Files map[string][]byte
	// Unreadable says why files that are absent cannot be read, by their names.
	Unreadable map[string]string
	// Stdin is the standard input of the command, if NeedsStdin asks for it.
	Stdin []byte
	// Defaults are the files of options of the whole cluster, by their names: sge_request,
	// sge_ar_request, sge_qstat, sge_qhost, sge_qselect, sge_qquota, sge_qrstat
	// (sge_request(5), sge_qstat(5), qrstat(1)).
	Defaults map[string][]byte
	// Edited holds the edited texts of the previous Result.Edit, in order: the caller runs the
	// command again with one more each time.
	Edited [][]byte
	// Corrections are the changes that the verifiers of Result.Verify requested; nil if they have
	// not run yet.
	Corrections []submit.Correction
	// Judging says that the caller carries out Result.Judge if the configuration has a verifier for
	// all jobs (sge_conf(5), jsv_url). Verdicts are the verifier's answers; nil if it has not run
	// yet.
	Judging  bool
	Verdicts []Verdict
	// Confirming says that users confirm their submissions to the launcher (see
	// docs/design/front-and-launcher.md). Confirmation is the confirmed submission; nil if the
	// client has not been asked yet.
	Confirming   bool
	Confirmation *Confirmation
	// Amended are the confirmations that Result.Amend has asked for, by the number of the job, at most MostAmended; nil
	// where the client has not been asked.
	Amended map[uint32]Confirmation
	// IsSession reports whether a job is interactive; nil for none.
	IsSession func(job uint32) bool
	// Terminal says that standard error is a terminal. Messages may then contain more than Grid
	// Engine prints.
	Terminal bool
	// TerminalOut says the same of standard output.
	TerminalOut bool
	// Zone is the time zone of dates that are typed and printed; UTC if it is nil.
	Zone *time.Location
}

// Result is the result of a command line.
type Result struct {
	Stdout, Stderr string
	Exit           int // exit status
	// Hint is a line to print after Stderr: a suggestion for a mistyped word. Grid Engine prints no
	// such line.
	Hint string
	// Actions are for the execution side, in their order.
	Actions []cell.Action
	// Job is the number of the job that was submitted, 0 for none.
	Job uint32
	// Sync says that the client waits for the end of the job (qsub(1), -sync y), Immediate that it
	// waits for the next scheduling run (-now y) and prints its decision about the job (cell.Run,
	// Immediate).
	Sync, Immediate bool
	// Terse says that nothing but its number is printed of the job (-terse).
	Terse bool
	// Interactive says that the client attaches itself to the job when it runs (qrsh(1));
	// Verbose, that it says so, and NoStdin, that nothing is typed.
	Interactive, Verbose, NoStdin bool
	// Edit is a text for the user's editor. The caller runs the same command again with the edited
	// text in Input.Edited. Until then the command has neither printed nor changed anything.
	Edit *Edit
	// Verify asks the caller to verify a job and to run the same command again with
	// Input.Corrections. Until then the command has neither printed nor changed anything.
	Verify *Verify
	// Judge asks the caller to have the site's verifier check jobs, one after another until it
	// refuses one, and to run the same command again with Input.Verdicts. Until then the command
	// has neither printed anything nor submitted a job.
	Judge []Judge
	// Confirm asks the caller to have the job confirmed and to run the same command again with
	// Input.Confirmation. Until then the command has neither printed nor changed anything.
	Confirm bool
	// Amend are the jobs to be confirmed where the command changes or copies jobs: then Input.Amended is wanted.
	Amend []Amendment
	// Writes are changes of the configuration directory, as qconf.Load reads it. The caller makes
	// them durable and passes Cluster, the configuration after these changes, to the cell
	// (cell.Cell, Reconfigure). Nil means no change.
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
	// Verification holds the submission that the launcher checks with the verifier. It is nil if users do
	// not confirm their submissions to a launcher.
	Verification *submission.Verification
}

// Verdict is the answer of the site's verifier about a job.
type Verdict struct {
	Number, Copied uint32 // as in Judge
	Corrections    []submit.Correction
	Err            error // why the job is refused
	// Digest is the digest of the job with the corrections, where Judge has a Verification.
	Digest string
}

// Edit is a text for the user's editor.
type Edit struct {
	Name string // of the file that the editor opens, without a folder
	Text []byte
}

// Write is a change of a file below the configuration directory.
type Write struct {
	Path   string // below the directory, with slashes
	Text   []byte
	Remove bool
	Old    []byte // the previous contents of the file or of the built-in object; nil if there were none
}

// command is a row of the table of commands.
type command struct {
	name    string
	options []option
	// derived returns the options of a command that derives them from another table; nil for other
	// commands. They are built on first use, because otherwise each call of execd would build them.
	derived func() []option
	run     func(*call)
	// needs returns the files that the command needs; nil for none.
	needs func(*Input, *wanted)
	// usage is the output of -help between the name of the command and the options: one form per
	// line, indented, with aligned explanations.
	usage          string
	indent, column int
	// complaint selects the messages for invalid command lines.
	complaint complaint
}

// all are the options of a command.
func (c *command) all() []option {
	if c.derived != nil {
		return c.derived()
	}
	return c.options
}

// complaint describes the messages of a command about an invalid command line. The commands differ
// (tested).
type complaint struct {
	prefix string // of the line
	usage  bool   // the options are printed before the message about an unknown option
	exit   int    // 1 if it is 0
}

// table returns the row of a command, or nil for an unknown one. It is not a variable, because rows
// refer to functions that call it.
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

// Option is an option of one of Grid Engine's commands: a row in the output of -help.
type Option struct {
	Name string // with its dash
	Args string // its values, as -help names them; "" for none
	Help string // its effect; lines are separated by newlines
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

// Help returns the output of a command for -help; ok is false for an unknown command.
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
	edits  int // the number of texts edited so far, or waiting for an editor
	manner submit.Manner

	amending amending
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

// wanted collects the files that a command line names and that Input.Files lacks.
type wanted struct {
	files map[string]bool // by their names; true for nested ones
	stdin bool
}

// NeededFile is a file that a command line needs.
type NeededFile struct {
	Name string
	// Nested says that the name comes from a script or a file of options and not from the command
	// line, so that the author of that file has chosen it.
	Nested bool
}

// Needs returns the files that a command line names and that are not among in.Files or
// in.Unreadable, sorted, and whether the command reads its standard input. These files can name
// further files, so call Needs again with them. Needs reports no errors: Run does.
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

// want records a needed file. A file that the command line names, too, is not nested.
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

// inDirectory returns the name of a file of a directory, "" if there is no directory.
func inDirectory(directory, name string) string {
	if directory == "" {
		return ""
	}
	return path.Join(directory, name)
}

func (x *call) hostName() string { return cmp.Or(x.in.Host, x.in.By.Host) }

// variable returns a variable of the environment, "" if it is not set.
func (in *Input) variable(name string) string {
	value, _ := in.lookup(name)
	return value
}

// lookup returns a variable of the environment, and whether it is set.
func (in *Input) lookup(name string) (value string, ok bool) {
	for _, v := range slices.Backward(in.Environment) {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value, true
		}
	}
	return "", false
}
