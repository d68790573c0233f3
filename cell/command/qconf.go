package command

import (
	"errors"
	"slices"
	"strings"

	"github.com/execd-project/execd/qconf"
)

// action is an option of qconf with the function that carries it out.
type action struct {
	option
	run func(x *call, g *given)
	// by says who may use it.
	by role
	// file is which value names a file, from 1; 0 for none.
	file int
}

// role is the role that a user needs for an option (qconf(1)).
type role int

const (
	anyone role = iota
	operators
	managers
)

// permitted reports whether the caller has a role, and says so if not.
func (x *call) permitted(r role) bool {
	var word string
	switch {
	case r == operators && !x.cell.IsOperator(x.in.By.User):
		word = "operator"
	case r == managers && !x.cell.IsManager(x.in.By.User):
		word = "manager"
	default:
		return true
	}
	x.fail(1, "denied: %q must be %s for this operation", x.in.By.User, word)
	return false
}

// qconfCommand is qconf(1).
var qconfCommand = command{
	name: "qconf", usage: "[options]", complaint: complaint{prefix: "error: "}, run: (*call).qconf, needs: needsConfigured,
	derived: actionOptions,
}

// actions returns the options in the order of their names, small letters after capitals.
func actions() []action {
	all := slices.Concat(showActions(), singleActions(), peopleActions(), treeActions(), attributeActions(), otherActions())
	for _, k := range kinds {
		all = append(all, k.actions()...)
	}
	slices.SortFunc(all, func(a, b action) int { return compareOptions(a.name, b.name) })
	return all
}

func actionOptions() []option {
	var list []option
	for _, a := range actions() {
		list = append(list, a.option)
	}
	return append(list, option{name: "-help", help: "print this help"})
}

// compareOptions sorts by letters, capitals after small ones.
func compareOptions(a, b string) int {
	for i := 0; i < min(len(a), len(b)); i++ {
		if c := weight(a[i]) - weight(b[i]); c != 0 {
			return c
		}
	}
	return len(a) - len(b)
}

func weight(c byte) int {
	if c >= 'A' && c <= 'Z' {
		return 2*int(c-'A'+'a') + 1
	}
	return 2 * int(c)
}

func findAction(all []action, name string) *action {
	if i := slices.IndexFunc(all, func(a action) bool { return a.name == name }); i >= 0 {
		return &all[i]
	}
	return nil
}

// needsConfigured finds the files that options of qconf name.
func needsConfigured(in *Input, w *wanted) {
	l, err := parse(actionOptions(), in.Args)
	if err != nil {
		return
	}
	all := actions()
	for i := range l.given {
		g := &l.given[i]
		a := findAction(all, g.name)
		if a == nil || a.file == 0 || len(g.values) < a.file {
			continue
		}
		names := []string{g.values[a.file-1]}
		if g.name == "-Aconf" || g.name == "-Mconf" {
			names = list(names[0])
		}
		for _, name := range names {
			w.want(in, name, false)
		}
	}
}

func (x *call) qconf() {
	l, err := parse(x.self.all(), x.in.Args)
	if e, ok := errors.AsType[*optionError](err); ok {
		if e.missing {
			x.fail(1, "error: no option argument provided to %q", e.last)
			x.stderr.lines(x.self.text())
			return
		}
		x.wrongWord(e.word, e.meant)
		return
	}
	switch {
	case !x.usable(l, nil):
		return
	case len(l.given) == 0 && len(l.operands) == 0:
		x.nothing()
		return
	}
	all := actions()
	for i := range l.given {
		g := &l.given[i]
		a := findAction(all, g.name)
		if !x.permitted(a.by) {
			break
		}
		a.run(x, g)
		if x.result.Edit != nil {
			// All is done again when the text is there.
			x.result.Writes, x.result.Cluster = nil, nil
			x.stdout.reset()
			x.stderr.reset()
			x.result.Exit = 0
			return
		}
	}
	if len(l.operands) > 0 {
		x.wrongWord(l.operands[0], "")
	}
}

// wrongWord complains about a word of the command line.
func (x *call) wrongWord(word, meant string) {
	x.fail(1, "error: invalid option argument %q", word)
	x.warn("Usage: qconf -help")
	if meant != "" {
		x.warn("did you mean %s?", meant)
	}
}

// configured returns the text of a file that an option names. If the file cannot be read,
// configured prints an error, and ok is false.
func (x *call) configured(name string) (data []byte, ok bool) {
	data, err := x.in.read(name)
	if err != nil {
		x.fail(1, "error: error opening file %q for reading: %s", name, err)
		return nil, false
	}
	return data, true
}

// notRead prints an error about an invalid text: of a file, or if file is empty, of an editor.
func (x *call) notRead(file string, err error) { x.notReadOf(nil, file, err) }

// notReadOf prints the errors of a file, as notRead does, for an object of a kind.
func (x *call) notReadOf(k *kind, file string, err error) {
	for _, e := range qconf.Errors(err) {
		if e.Line > 0 {
			x.warn("error: line %d: %s", e.Line, problem(e))
		} else {
			x.warn("error: %s", problem(e))
		}
	}
	if file != "" {
		x.warn("error: error reading file: %q", file)
	}
	x.notTaken(k, file)
}

// notTaken prints the last line of the message about an invalid file.
func (x *call) notTaken(k *kind, file string) {
	if k == queueKind && file != "" {
		x.fail(1, "Cluster queue file %q is not correct", file)
	} else {
		x.fail(1, "error reading in file")
	}
}

// reported are attributes that only hosts themselves have (host_conf(5)).
var reported = []string{"load_values", "processors"}

// incomplete reports whether the text of an object lacks an attribute that like has, and prints an
// error. All attributes are required (tested), because a text with only some of them would reset
// the others to their defaults. err holds the other errors of the text, which are printed first.
func (x *call) incomplete(k *kind, like object, file string, data []byte, err error) bool {
	has := map[string]bool{}
	for l := range strings.Lines(string(data)) {
		if words := strings.Fields(l); len(words) > 0 && !strings.HasPrefix(words[0], "#") {
			has[words[0]] = true
		}
	}
	if len(has) == 0 && file != "" {
		x.warn("error: error reading file: %q", file)
		x.notTaken(k, file)
		return true
	}
	for _, e := range qconf.Errors(err) {
		if e.Line > 0 {
			return false
		}
	}
	for _, name := range like.Attributes() {
		if !has[name] && !slices.Contains(reported, name) {
			x.warn("error: required attribute %q is missing", name)
			x.notTaken(k, file)
			return true
		}
	}
	return false
}

// edited returns the text after the user has edited it. ok is false if the editor has not run yet.
func (x *call) edited(name string, text string) (next []byte, ok bool) {
	n := x.edits
	x.edits++
	if n < len(x.in.Edited) {
		return x.in.Edited[n], true
	}
	x.result.Edit = &Edit{Name: name, Text: []byte(text)}
	return nil, false
}
