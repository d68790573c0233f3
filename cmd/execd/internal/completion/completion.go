// Package completion completes command lines of execd and of Grid Engine's commands in shells. The
// scripts for bash, zsh and fish are short: they ask execd itself, which knows its table of commands,
// and the daemon for names and job numbers. Other projects should not import this package: it may
// change at any time.
package completion

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// Word is the command of execd with which the scripts ask: its arguments are the words of the
// command line up to the cursor, the program first, and the last one is completed.
const Word = "__complete"

// Kind is a kind of values that the daemon knows.
type Kind int

// The kinds of values.
const (
	None Kind = iota
	Queues
	PEs
	Hosts
	HostGroups
	Resources
	Projects
	Checkpoints
	Calendars
	Jobs
	FinishedJobs // the most recent ones in the accounting file
	HostJobs     // jobs of the agent of this host
	Users        // the daemon's users, and the owners of jobs
	AccessLists
	QuotaSets
	Reservations
)

// Candidate is a word that completes the command line.
type Candidate struct {
	Word string
	Text string // what it is; may be empty
}

// Command is a command of execd.
type Command struct {
	Name, Summary string
	GridEngine    bool // the command is also called by its own name
	Options       []Option
	Words         []string // words that may follow the name, such as sub-commands
	NoOperands    bool     // nothing but options may follow the name
}

// Option is an option of a command.
type Option struct {
	Name  string // with its dashes
	Short string // a second name, which is not a candidate itself; may be empty
	Value string // as the help text names it; empty for a switch
	Text  string
}

// Table holds the commands, options and names that can be completed.
type Table struct {
	Commands []Command
	// Values are the words that an option may have as its value, by the placeholder of the value.
	Values map[string][]string
	// Ask asks the daemon for values that begin with a prefix; it may return others, too. It returns none
	// if the daemon does not answer in time.
	Ask func(kind Kind, prefix string) []Candidate
}

// Complete returns the candidates for the last word of a command line, whose first word is the
// program. files is true if the word is the name of a file, which the shell completes.
func (t *Table) Complete(words []string) (candidates []Candidate, files bool) {
	if len(words) < 2 {
		return nil, false
	}
	c, words := t.command(path.Base(words[0]), words[1:])
	if c == nil {
		if len(words) == 1 {
			return matching(t.commands(), "", words[0]), false
		}
		return nil, true
	}
	typed := words[len(words)-1]
	if len(words) > 1 {
		if o := c.option(words[len(words)-2]); o != nil && o.Value != "" {
			return t.value(c, o, typed)
		}
	}
	if name, value, ok := strings.Cut(typed, "="); ok && strings.HasPrefix(name, "--") {
		if o := c.option(name); o != nil && o.Value != "" {
			candidates, files = t.value(c, o, value)
			for i := range candidates {
				candidates[i].Word = name + "=" + candidates[i].Word
			}
			return candidates, files
		}
	}
	if strings.HasPrefix(typed, "-") {
		for _, o := range c.Options {
			candidates = append(candidates, Candidate{o.Name, o.Text})
		}
		return matching(candidates, "", typed), false
	}
	if len(c.Words) > 0 {
		if len(words) > 1 {
			return nil, true
		}
		for _, w := range c.Words {
			candidates = append(candidates, Candidate{Word: w})
		}
		return matching(candidates, "", typed), false
	}
	if kind := operands[c.Name]; kind != None {
		return t.asked(kind, "", typed), false
	}
	return nil, !c.NoOperands
}

// asked returns the candidates that the daemon knows.
func (t *Table) asked(kind Kind, head, typed string) []Candidate {
	var all []Candidate
	prefix := typed[len(head):]
	if queue, host, ok := strings.Cut(prefix, "@"); kind == Queues && ok {
		for _, host := range t.Ask(Hosts, host) { // a queue instance
			host.Word = queue + "@" + host.Word
			all = append(all, host)
		}
	} else {
		all = t.Ask(kind, prefix)
	}
	all = slices.DeleteFunc(all, func(c Candidate) bool { return !harmless.MatchString(c.Word) })
	return matching(all, head, typed)
}

// harmless matches the names that have no meaning for a shell. bash puts candidates into the command
// line as they are.
var harmless = regexp.MustCompile(`^[\pL\pN_.:@%+,/-]+$`)

// command returns the command of a command line and the words after it; nil, and all words, if it is
// still typed or unknown.
func (t *Table) command(program string, words []string) (*Command, []string) {
	if c := t.find(program); c != nil && c.GridEngine {
		return c, words
	}
	if c := t.find(words[0]); c != nil && len(words) > 1 {
		return c, words[1:]
	}
	return nil, words
}

func (t *Table) find(name string) *Command {
	if i := slices.IndexFunc(t.Commands, func(c Command) bool { return c.Name == name }); i >= 0 {
		return &t.Commands[i]
	}
	return nil
}

func (t *Table) commands() (all []Candidate) {
	for _, c := range t.Commands {
		all = append(all, Candidate{c.Name, c.Summary})
	}
	return all
}

func (c *Command) option(name string) *Option {
	if i := slices.IndexFunc(c.Options, func(o Option) bool { return o.Name == name || o.Short == name && name != "" }); i >= 0 {
		return &c.Options[i]
	}
	return nil
}

// operands are the commands whose operands are not files.
var operands = map[string]Kind{
	"qdel": Jobs, "qalter": Jobs, "qhold": Jobs, "qrls": Jobs, "qresub": Jobs, "wait": Jobs, "tail": Jobs, "seff": FinishedJobs, "attach": HostJobs,
	"qrdel": Reservations,
}

// kinds are the kinds of values by what the help text calls them; the first that matches counts.
var kinds = []struct {
	value *regexp.Regexp
	kind  Kind
}{
	{regexp.MustCompile(`^userset|^listname`), AccessLists},
	{regexp.MustCompile(`^(user|USER|\[user|owner)`), Users},
	{regexp.MustCompile(`job_(identifier_|wc_queue_)?list|^job,`), Jobs},
	{regexp.MustCompile(`^job_id\|`), FinishedJobs}, // qacct
	{regexp.MustCompile(`queue`), Queues},
	{regexp.MustCompile(`^\[?(wc_)?pe_`), PEs},
	{regexp.MustCompile(`hostgroup_name`), HostGroups},
	{regexp.MustCompile(`host`), Hosts},
	{regexp.MustCompile(`resource|^attr=`), Resources},
	{regexp.MustCompile(`project`), Projects},
	{regexp.MustCompile(`ckpt`), Checkpoints},
	{regexp.MustCompile(`calendar`), Calendars},
	{regexp.MustCompile(`^\[?rqs_`), QuotaSets},
	{regexp.MustCompile(`^ar_`), Reservations},
}

var (
	fileValue = regexp.MustCompile(`^(DIR|FILE|PATH|PROGRAM)$|file|fname|path|directory|jsv_url|\[host\]`)
	choices   = regexp.MustCompile(`^\{?([a-zA-Z\[\]]+\|)+[a-zA-Z\[\]]+(\}|\.\.\.)?$`)
	rest      = regexp.MustCompile(`\[[a-z]+\]`)
)

// value completes the value of an option. Of a list, which has commas, the last element is
// completed.
func (t *Table) value(c *Command, o *Option, typed string) ([]Candidate, bool) {
	head := typed[:strings.LastIndexByte(typed, ',')+1]
	var all []Candidate
	words := t.Values[o.Value]
	if choices.MatchString(o.Value) {
		for word := range strings.SplitSeq(strings.Trim(rest.ReplaceAllString(o.Value, ""), "{}."), "|") {
			if len(word) < 3 { // and no placeholder, such as interval
				words = append(words, word)
			}
		}
	}
	for _, w := range words {
		all = append(all, Candidate{Word: w})
	}
	if all != nil {
		return matching(all, head, typed), false
	}
	if fileValue.MatchString(o.Value) {
		return nil, true
	}
	value := o.Value
	if c.GridEngine && value == "name" || value == "NAME" {
		value = strings.TrimLeft(o.Name, "-") // -ckpt name, --queue NAME
	}
	for _, k := range kinds {
		if k.value.MatchString(value) {
			return t.asked(k.kind, head, typed), false
		}
	}
	return nil, false
}

// matching returns the candidates that begin with what was typed. The head is a part of what was
// typed that stays in front of each candidate.
func matching(all []Candidate, head, typed string) (some []Candidate) {
	for _, c := range all {
		if c.Word = head + c.Word; strings.HasPrefix(c.Word, typed) {
			some = append(some, c)
		}
	}
	return some
}
