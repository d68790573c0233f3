package submit

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
)

// script returns the text of the job script.
func (p *parser) script(line commandLine) ([]byte, error) {
	if line.hasCommand {
		text, err := p.read(line.command)
		if err != nil {
			return nil, &Error{Where: CommandLine, Value: line.command, Problem: "cannot read the script: " + err.Error(), Err: err, Kind: NoScript}
		}
		if text == nil {
			text = []byte{}
		}
		return text, nil
	}
	var text []byte
	err := errors.New("it cannot be read here")
	if p.in.ReadStdin != nil {
		text, err = p.in.ReadStdin()
	}
	if err != nil {
		return nil, &Error{Where: CommandLine, Problem: "cannot read the script from standard input: " + err.Error(), Err: err, Kind: NoScript}
	}
	if len(text) == 0 {
		return nil, &Error{Where: CommandLine, Problem: "no script or command is named, and standard input is empty", Kind: NoScript}
	}
	return text, nil
}

// directives reads the options in a script: the text after the prefix in each line that begins with
// the prefix, anywhere in the script (sge_submit(1)).
func (p *parser) directives(script File, prefix string) ([]setting, error) {
	return p.lines(script, source{where: script.Name, text: true}, func(line string) string {
		if rest, ok := strings.CutPrefix(line, prefix); ok {
			return rest
		}
		return ""
	})
}

// requestFile reads a default request file, or a file named by -@: every line contains options, and
// # begins a comment (sge_request(5)).
func (p *parser) requestFile(f File, depth int) ([]setting, error) {
	at := source{where: f.Name, depth: depth, requestFile: depth == 0, text: depth > 0}
	if p.text += len(f.Text); p.text > mostOptionText {
		return nil, at.problem("", "", "the files of options have more than "+strconv.Itoa(mostOptionText)+" bytes")
	}
	if i := bytes.IndexByte(f.Text, 0); i >= 0 {
		at.line = 1 + bytes.Count(f.Text[:i], []byte("\n"))
		return nil, at.problem("", "", "it contains a zero byte: it is not a text file")
	}
	return p.lines(f, at, func(line string) string { return line })
}

// lines reads options from the lines of f. The function options returns the part of a line that
// contains options.
//
// Requests in each line are hard until -soft, which applies until -hard or the end of the line. The
// manual does not say so, but 8.1.9 works this way (tested), and it decides whether a limit is
// enforced.
func (p *parser) lines(f File, at source, options func(string) string) ([]setting, error) {
	var settings []setting
	for line := range strings.SplitSeq(string(f.Text), "\n") {
		at.line++
		text := options(line)
		if len(text) > mostOptionLine {
			return nil, at.problem("", "", "the line has "+strconv.Itoa(len(text))+" bytes, at most "+strconv.Itoa(mostOptionLine)+" are possible")
		}
		words := splitWords(cutComment(text))
		soft := false
		for len(words) > 0 {
			if !strings.HasPrefix(words[0], "-") || words[0] == "-" || words[0] == "--" {
				return nil, at.problem("", words[0], "expected an option; a command and its arguments belong on the command line")
			}
			more, n, err := p.option(words, &soft, at)
			if missing, ok := errors.AsType[*missingError](err); ok {
				p.unread = append(p.unread, missing.Unread)
				break
			}
			if err != nil {
				return nil, err
			}
			settings = append(settings, more...)
			words = words[n:]
		}
	}
	return settings, nil
}

// OddScript describes leftovers of Windows editors in a script that shells do not understand: a
// byte order mark, line ends of CR LF, or both. The text is a sentence with a remedy for each; it
// is empty for other scripts. script may be the beginning of a script, if it contains the whole
// first line.
func OddScript(script []byte) string {
	var odd []string
	if bytes.HasPrefix(script, []byte("\xef\xbb\xbf")) {
		odd = append(odd, "the script begins with a byte order mark, so that its first line is not understood: save it as UTF-8 without one")
	}
	if line, _, found := bytes.Cut(script, []byte("\n")); found && bytes.HasSuffix(line, []byte("\r")) {
		odd = append(odd, "the script has lines that end with CR LF, as on Windows, and shells do not understand them: run dos2unix on it")
	}
	return strings.Join(odd, "; ")
}
