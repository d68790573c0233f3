package submit

import (
	"errors"
	"strconv"
	"strings"
)

// parser turns the sources into settings.
type parser struct {
	in      *Input
	command Commands // one of them
}

// commandLine is the command line, taken apart.
type commandLine struct {
	settings   []setting
	hasCommand bool // else the script comes from standard input
	command    string
	args       []string
}

// commandLine reads options up to the script or command; what follows that
// belongs to the job, whatever it looks like (tested). "--" ends the options of
// a job whose script comes from standard input, and so does "-", which the
// manual has and 8.1.9 refuses.
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
			if word == "" {
				return line, &Error{Where: CommandLine, Problem: "the command is an empty string"}
			}
			if err := checkString(word); err != nil {
				return line, &Error{Where: CommandLine, Problem: "the command: " + err.Error()}
			}
			return line, nil
		case strings.HasPrefix(word, "--") && p.in.OwnOption != nil:
			n, err := p.in.OwnOption(args)
			if err != nil {
				return line, err
			}
			if n > 0 {
				args = args[min(n, len(args)):]
				continue
			}
		}
		settings, n, err := p.option(args, &soft, place{where: CommandLine})
		if err != nil {
			return line, err
		}
		line.settings = append(line.settings, settings...)
		args = args[n:]
	}
	return line, nil
}

// place is where words come from.
type place struct {
	where       string
	line        int
	depth       int  // of nested -@
	requestFile bool // an option of another command is skipped, not refused
}

func (at place) problem(option, value, problem string, cause error) error {
	return &Error{Where: at.where, Line: at.line, Option: option, Value: value, Problem: problem, Err: cause}
}

// option reads the option that words begin with, and returns its settings - as
// many as a file has for -@, none where it is skipped - and the number of words
// it takes. soft is the state of -hard and -soft before and after it.
func (p *parser) option(words []string, soft *bool, at place) ([]setting, int, error) {
	name := words[0]
	o := lookup(p.command, name)
	if o == nil || p.in.Master && !at.requestFile && o.Commands&p.command == 0 {
		problem := "unknown option"
		if s := suggest(name); s != "" {
			problem += "; did you mean " + strconv.Quote(s) + "?"
		}
		return nil, 0, at.problem("", name, problem, nil)
	}
	n := 1 + o.Values
	if len(words) > 1 {
		for _, w := range o.Leading {
			if words[1] == w {
				n++
			}
		}
	}
	if len(words) < n {
		have := strings.Join(words[1:], " ")
		return nil, 0, at.problem(name, have, "a value is missing, expected "+name+" "+o.Args, nil)
	}
	s := setting{option: o, values: words[1:n], soft: *soft, where: at.where, line: at.line}
	for _, v := range s.values {
		if err := checkString(v); err != nil {
			return nil, 0, at.problem(name, "", "the value: "+err.Error(), nil)
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

// optionFile reads a file of -@.
func (p *parser) optionFile(name string, at place) ([]setting, error) {
	if at.depth >= maxNesting {
		return nil, at.problem("-@", name, "files of options are nested more than "+strconv.Itoa(maxNesting)+" deep", nil)
	}
	text, err := p.read(name)
	if err != nil {
		return nil, at.problem("-@", name, "cannot read the file: "+err.Error(), err)
	}
	return p.requestFile(File{name, text}, at.depth+1)
}

func (p *parser) read(name string) ([]byte, error) {
	if p.in.ReadFile == nil {
		return nil, errors.New("files can't be read here")
	}
	return p.in.ReadFile(name)
}
