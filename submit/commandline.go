package submit

import (
	"errors"
	"strconv"
	"strings"
)

// parser converts the sources to settings.
type parser struct {
	in      *Input
	command Commands // exactly one of them
	options int      // number of options read
	text    int      // size of the files of options read, in bytes
	unread  []Unread // files of options that do not exist
}

// The input is limited: a master reads it for all users, and files of options may name each other.
const (
	// MaxOptionFiles is the maximum size, in bytes, of all files of options of a command together.
	MaxOptionFiles = 4 << 20

	mostOptions    = 1 << 16
	mostOptionLine = 1 << 20 // bytes
	mostOptionText = MaxOptionFiles
)

// commandLine holds the parts of the command line.
type commandLine struct {
	settings   []setting
	hasCommand bool // otherwise the script comes from standard input
	command    string
	args       []string
}

// binary returns "-b" if the command line has -b y, else "".
func (l *commandLine) binary() (option string) {
	for _, s := range l.settings {
		if s.option.Name != "-b" {
			continue
		}
		option = ""
		if yes, err := yesNo(s.value()); err == nil && yes {
			option = "-b"
		}
	}
	return option
}

// commandLine reads options up to the script or command. All words after that belong to the job
// (tested). "--" ends the options of a job whose script comes from standard input. So does "-",
// which the manual describes and 8.1.9 refuses.
func (p *parser) commandLine() (commandLine, error) {
	var line commandLine
	soft := false
	args := p.in.Args
	for len(args) > 0 {
		word := args[0]
		switch {
		case word == "--" || word == "-":
			line.args = args[1:]
			return line, nil
		case !strings.HasPrefix(word, "-"):
			line.hasCommand, line.command, line.args = true, word, args[1:]
			if word == "" && p.command != Qalter {
				return line, &Error{Where: CommandLine, Option: line.binary(), Problem: "the command is an empty string", Kind: EmptyCommand}
			}
			if err := checkString(word); err != nil {
				return line, &Error{Where: CommandLine, Problem: "the command: " + err.Error()}
			}
			return line, nil
		}
		settings, n, err := p.option(args, &soft, source{where: CommandLine})
		if err != nil {
			return line, err
		}
		line.settings = append(line.settings, settings...)
		args = args[n:]
	}
	return line, nil
}

// source names the place that words come from.
type source struct {
	where       string
	line        int
	depth       int  // of nested -@
	requestFile bool // an option of another command is skipped, not refused
	text        bool // the script, or a file named by -@
}

func (at source) problem(option, value, problem string) error {
	return &Error{Where: at.where, Line: at.line, Option: option, Value: value, Problem: problem}
}

// option reads the option at the start of words. It returns the option's settings and the number of
// words that the option takes. The settings of -@ are those of its file; a skipped option has none.
// soft is the state of -hard and -soft before and after the option.
func (p *parser) option(words []string, soft *bool, at source) ([]setting, int, error) {
	name := words[0]
	if p.options++; p.options > mostOptions {
		return nil, 0, at.problem("", "", "there are more than "+strconv.Itoa(mostOptions)+" options")
	}
	o := lookup(p.command, name)
	if o == nil || p.in.Master && !at.requestFile && o.Commands&p.command == 0 {
		if of := commandsOf(name); p.in.Master && p.command != Qrsub && of != 0 {
			err := elsewhere(of, words, at)
			if name == "-b" || name == "-shell" { // the original does not accept these here at all (tested)
				err.Value, err.Kind = name, UnknownOption
			}
			return nil, 0, err
		}
		problem, meant := "unknown option", suggest(name)
		if meant != "" {
			problem += "; did you mean " + strconv.Quote(meant) + "?"
		}
		return nil, 0, &Error{Where: at.where, Line: at.line, Value: name, Problem: problem, Kind: UnknownOption, Meant: meant}
	}
	n := o.words(words)
	if len(words) < n {
		have := strings.Join(words[1:], " ")
		problem := "a value is missing, expected " + name + " " + o.Args
		return nil, 0, &Error{Where: at.where, Line: at.line, Option: name, Value: have, Problem: problem, Kind: MissingValue}
	}
	s := setting{option: o, values: words[1:n], soft: *soft, where: at.where, line: at.line, text: at.text}
	for _, v := range s.values {
		if err := checkString(v); err != nil {
			return nil, 0, at.problem(name, "", "the value: "+err.Error())
		}
	}
	switch name {
	case "-hard", "-soft":
		*soft = name == "-soft"
	case "-@":
		settings, err := p.optionFile(s.value(), at)
		return settings, n, err
	}
	if at.requestFile && o.Commands&p.command == 0 {
		return nil, n, nil
	}
	return []setting{s}, n, nil
}

// commandsOf returns the submit commands that accept an option.
func commandsOf(name string) (of Commands) {
	for i := range table {
		if table[i].Name == name {
			of |= table[i].Commands & everywhere
		}
	}
	return of
}

// elsewhere returns the error for an option that only other commands accept.
func elsewhere(of Commands, words []string, at source) *Error {
	n := 1
	for i := range table {
		if o := &table[i]; o.Name == words[0] && o.Commands&of != 0 {
			n = min(1+o.Values, len(words))
			break
		}
	}
	return &Error{Where: at.where, Line: at.line, Value: strings.Join(words[:n], " "), Problem: "it is an option of " + of.String(), Kind: OtherCommand}
}

// optionFile reads a file named by -@.
func (p *parser) optionFile(name string, at source) ([]setting, error) {
	if name == "" {
		return nil, at.problem("-@", name, "expected the name of a file")
	}
	if at.depth >= maxNesting {
		return nil, at.problem("-@", name, "files of options are nested more than "+strconv.Itoa(maxNesting)+" deep")
	}
	read := p.in.ReadOptions
	if read == nil {
		read = func(name string, _ bool) ([]byte, error) { return p.read(name) }
	}
	text, err := read(name, at.where != CommandLine)
	if err != nil {
		if p.in.Master && at.where != CommandLine {
			return nil, &missingError{Unread{name, at.where, at.line, err}}
		}
		problem := "cannot read the file: " + err.Error()
		return nil, &Error{Where: at.where, Line: at.line, Option: "-@", Value: name, Problem: problem, Err: err, Kind: NoOptionFile}
	}
	return p.requestFile(File{name, text}, at.depth+1)
}

// missingError is the error if a file of options names another file that cannot be read.
type missingError struct{ Unread }

// Error returns the reason.
func (e *missingError) Error() string { return e.Err.Error() }

func (p *parser) read(name string) ([]byte, error) {
	if p.in.ReadFile == nil {
		return nil, errors.New("files cannot be read here")
	}
	return p.in.ReadFile(name)
}

// SplitOptions splits a line of qsub options, as in a request file, and returns each option with
// its values. A word that belongs to no option is an error, because qsub would read it as the
// command.
func SplitOptions(line string) ([][]string, error) {
	var list [][]string
	for words := splitWords(line); len(words) > 0; {
		o := lookup(Qsub, words[0])
		if o == nil || o.Commands&Qsub == 0 {
			problem := "unknown option"
			if !strings.HasPrefix(words[0], "-") {
				problem = "not an option: expected options only"
			}
			return nil, &Error{Where: "options", Value: words[0], Problem: problem, Kind: UnknownOption}
		}
		n := o.words(words)
		if len(words) < n {
			return nil, &Error{Where: "options", Option: words[0], Problem: "a value is missing, expected " + words[0] + " " + o.Args, Kind: MissingValue}
		}
		list = append(list, words[:n])
		words = words[n:]
	}
	return list, nil
}
