package submit

import (
	"cmp"
	"errors"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/execd-project/execd/job"
)

// Input is the input of Parse.
type Input struct {
	Args []string // the command line, without the name of the command
	// RequestFiles are the existing default request files, in ascending order of precedence:
	// cluster, user, working directory (sge_request(5)).
	RequestFiles []File
	// ReadFile returns the contents of the job script, or of a file named by -@.
	ReadFile func(path string) ([]byte, error)
	// ReadOptions returns the contents of a file named by -@; nil means ReadFile. nested is true if
	// a script or another file of options names the file: the author of that text has chosen the
	// name, and may be a different user than the submitter.
	ReadOptions func(path string, nested bool) ([]byte, error)
	// ReadStdin returns the script if the command line names none.
	ReadStdin func() ([]byte, error)
	Env       []string // NAME=value, for -V and -v NAME
	// TextEnv, if not nil, replaces Env for -V and -v NAME in the script, and in files named by -@.
	// The author of these may be a different user than the owner of Env.
	TextEnv []string
	Cwd     string // absolute, for -cwd

	// Command is the submit command; 0 means Qsub. Qrsh and Qlogin run a program instead of a
	// script, or a login shell (Request.Login) if none is given, and request an immediate start. -b
	// n and -now n change this (sge_submit(1)).
	Command Commands

	// Master is set if the request goes to a master with hosts and resources of its own. Parse then
	// neither refuses nor notes options because they have no effect on one host, and leaves the
	// following to the master: the values of -l, whose format depends on the complexes; empty
	// values; and ranges of slots with a 0, which become the range of no slots. ParseAlteration and
	// ParseReservation always work this way.
	Master bool

	// Verifiers, if set, receives the job submission verifiers that a job of Parse must pass, in
	// this order: those of the command line, of the script, and of the request files
	// (sge_submit(1), -jsv).
	Verifiers *[]string

	// Manner, if set, receives the options that concern the command itself.
	Manner *Manner
}

// File is a named text.
type File struct {
	Name string // for errors
	Text []byte
}

// setting is one occurrence of an option.
type setting struct {
	option *Option
	values []string
	soft   bool // follows -soft
	where  string
	line   int
	text   bool // is in the script, or in a file named by -@
}

// maxNesting limits the depth of files that name each other by -@.
const maxNesting = 10

// Parse reads the options of all sources in ascending order of precedence (request files, the
// script, the command line) and returns the resulting request. The error is an *Error. Parse calls
// only the callbacks of in.
func Parse(in Input) (*Request, error) {
	p := parser{in: &in, command: cmp.Or(in.Command, Qsub)}
	line, err := p.commandLine()
	if err != nil {
		return nil, err
	}
	for _, s := range line.settings {
		if s.option.Name == "-help" && s.where == CommandLine {
			return &Request{Help: true}, nil
		}
	}
	fromArgs, cleared := afterClear(line.settings)
	var fromFiles []setting
	for _, f := range in.RequestFiles {
		settings, err := p.requestFile(f, 0)
		if err != nil {
			return nil, err
		}
		fromFiles = append(fromFiles, settings...)
	}
	if cleared {
		fromFiles = nil
	}
	fromFiles, _ = afterClear(fromFiles)

	b := builder{in: &in}
	b.req = Request{Command: line.command, Args: line.args, Rerun: job.Default, PTY: job.Default}
	interactive := p.command != Qsub
	b.req.Binary, b.req.Immediate, b.manner.Verbose = interactive, interactive, p.command == Qlogin
	switch {
	case line.hasCommand:
	case interactive:
		b.req.Command, b.req.Login = loginNames[p.command], true
	default:
		b.req.Command, b.req.FromStdin = StdinName, true
	}
	binary, err := isBinary(interactive, fromFiles, fromArgs)
	if err != nil {
		return nil, err
	}
	var fromScript []setting
	if !binary && !b.req.Login {
		if b.req.Script, err = p.script(line); err != nil {
			return nil, cmp.Or(b.beforeScript(fromArgs), err)
		}
		if prefix := scanPrefix(fromArgs); prefix != "" {
			name := b.req.Command
			if fromScript, err = p.directives(File{name, b.req.Script}, prefix); err != nil {
				return nil, err
			}
		}
		if cleared {
			fromScript = nil
		}
		if fromScript, cleared = afterClear(fromScript); cleared {
			fromFiles = nil
		}
	}
	if in.Verifiers != nil {
		for _, s := range slices.Concat(fromArgs, fromScript, fromFiles) {
			if s.option.Name == "-jsv" {
				*in.Verifiers = append(*in.Verifiers, s.value())
			}
		}
	}
	for _, settings := range [][]setting{fromFiles, fromScript, fromArgs} {
		for _, s := range settings {
			if err := b.apply(s); err != nil {
				return nil, err
			}
		}
	}
	if in.Manner != nil {
		b.manner.Unread = p.unread
		*in.Manner = b.manner
	}
	return b.finish(line)
}

// beforeScript returns the first error in the values of options that the commands of Grid Engine
// check before they read the script (tested). In "-pe smp -b y sleep", the missing number of slots
// makes y the script.
func (b *builder) beforeScript(settings []setting) error {
	for _, s := range settings {
		switch s.option.Name {
		case "-a", "-binding", "-dl", "-js", "-l", "-p", "-pe", "-tc":
			if err := b.apply(s); err != nil {
				return err
			}
		}
	}
	return nil
}

// firstWord returns the first word of a shell command line. Grid Engine uses it as the name of a
// qrsh job (tested).
func firstWord(command string) string {
	words := strings.FieldsFunc(command, func(r rune) bool { return r == ' ' || r == '\t' || r == ';' })
	if len(words) == 0 {
		return ""
	}
	return path.Base(words[0])
}

// loginNames maps commands to the names of jobs that are login shells (tested).
var loginNames = map[Commands]string{Qlogin: "QLOGIN", Qrsh: "QRLOGIN"}

// afterClear returns the settings after the last -clear, and whether there is one. It does not
// check the discarded settings: the purpose of -clear is to remove an unwanted default.
func afterClear(settings []setting) ([]setting, bool) {
	for i, s := range slices.Backward(settings) {
		if s.option.Name == "-clear" {
			return settings[i+1:], true
		}
	}
	return settings, false
}

// isBinary reports whether the command is a program and not a script to be read. The last -b of the
// command line decides, otherwise the last one of the request files, otherwise the default of the
// submit command. A -b in the script itself has no effect on this (tested).
func isBinary(unless bool, fromFiles, fromArgs []setting) (binary bool, err error) {
	binary = unless
	for _, settings := range [][]setting{fromFiles, fromArgs} {
		for _, s := range settings {
			if s.option.Name != "-b" {
				continue
			}
			if binary, err = yesNo(s.value()); err != nil {
				return false, s.problem(err)
			}
		}
	}
	return binary, nil
}

// scanPrefix returns the prefix of embedded options. -C in files is ignored (sge_submit(1); also
// tested for request files and -@).
func scanPrefix(fromArgs []setting) string {
	prefix := "#$"
	for _, s := range fromArgs {
		if s.option.Name == "-C" && s.where == CommandLine {
			prefix = s.value()
		}
	}
	return prefix
}

// problem makes an error of this setting.
func (s setting) problem(err error) error {
	return &Error{
		Where: s.where, Line: s.line, Option: s.option.Name,
		Value: strings.Join(s.values, " "), Problem: err.Error(), Err: errors.Unwrap(err),
	}
}

// apply stores a setting in the request.
func (b *builder) apply(s setting) error {
	harmless := s.option.harmless != nil && s.option.harmless(s.values)
	if s.option.apply != nil {
		if err := s.option.apply(b, s); err != nil {
			return s.problem(err)
		}
	}
	if b.in.Master {
		return nil
	}
	switch s.option.Treatment {
	case Refused:
		if !harmless {
			return s.problem(errors.New("the option is not supported here: it would change how the job runs, and cannot be honoured"))
		}
	case Noted:
		if harmless {
			b.req.unnote(s)
		} else {
			b.req.note(s)
		}
	}
	return nil
}

// collect stores the lists in the request.
func (b *builder) collect() {
	b.req.Env, b.req.Context, b.req.Resources = b.environment(), b.context.all(), b.resources.all()
	b.collectByHost()
}

// finish sets values that depend on others, and checks conditions that involve several options.
func (b *builder) finish(line commandLine) (*Request, error) {
	req := &b.req
	wrong := func(value, problem string) (*Request, error) {
		return nil, &Error{Where: CommandLine, Value: value, Problem: problem}
	}
	if req.Login {
		req.Binary = true
	}
	if req.Binary {
		req.Script = nil
		if req.FromStdin {
			return nil, &Error{Where: CommandLine, Problem: "-b y needs a command", Kind: MissingCommand}
		}
	}
	if len(req.Command) > maxPath {
		return wrong(req.Command[:64]+"…", "the command has "+strconv.Itoa(len(req.Command))+" bytes, at most "+strconv.Itoa(maxPath)+" are possible")
	}
	if req.Name == "" {
		value := req.Command
		req.Name = path.Base(req.Command)
		if b.in.Command == Qrsh && !req.Login && req.Binary {
			req.Name = firstWord(req.Command)
			value = req.Name
		}
		if err := checkJobName(req.Name); err != nil {
			problem := "the job would be named after it, but " + err.Error() + "; give it a name with -N"
			return nil, &Error{Where: CommandLine, Value: value, Problem: problem, Kind: BadName}
		}
	}
	for i, arg := range line.args {
		if err := checkString(arg); err != nil {
			return wrong("", "argument "+strconv.Itoa(i+1)+" of the job: "+err.Error())
		}
	}
	if err := b.bindUnits(); err != nil {
		return wrong("", err.Error())
	}
	b.collect()
	req.DryRun = b.verify || req.Validation == ValidatePoke || req.Validation == ValidateVerify
	alone := *req // a copy, so that a stored request does not keep b with all its input
	return &alone, nil
}
