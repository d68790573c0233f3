package replay

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/cell/command"
	"github.com/execd-project/execd/internal/textfile"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/simulate/script"
	"github.com/execd-project/execd/simulate/workload"
	"github.com/execd-project/execd/submit"
)

var root = cell.Caller{User: "root", Group: "root", Host: master}

// known reports whether a script may contain a command. Some qconf commands need a remark.
func known(name string) bool { return slices.Contains(command.Names(), name) }

// command runs a line, and returns its output.
func (p *player) command(l *script.Line) ([]string, error) {
	words, err := workload.Words(l.Command)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", l.Command, err)
	}
	if !known(words[0]) {
		return nil, fmt.Errorf("%q: %s", l.Command, unknownCommand())
	}
	by := cell.Caller{User: l.User, Group: group, Host: master}
	if l.User == root.User {
		by = root
	}
	if words[0] != "qconf" {
		return p.run(by, words[0], words[1:]), nil
	}
	lines, err := p.qconf(words[1:], l.Remark)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", l.Command, err)
	}
	return lines, nil
}

func unknownCommand() string { return "expected one of " + strings.Join(command.Names(), ", ") }

// check finds the commands that cannot be run, before the first line is played.
func (p *player) check() error {
	var errs []error
	for i := range p.lines {
		l := &p.lines[i]
		if l.Kind != script.Command {
			continue
		}
		words, err := workload.Words(l.Command)
		if err == nil && !known(words[0]) {
			err = errors.New(unknownCommand())
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("jobs.txt:%d: %q: %w", l.Number, l.Command, err))
		}
	}
	return errors.Join(errs...)
}

// run runs a command, and returns its output. Scripts are files of the case; a missing one counts
// as empty.
func (p *player) run(by cell.Caller, name string, args []string) []string {
	in := &command.Input{Name: name, Args: args, By: by, Dir: "/", Stdin: []byte("#!/bin/sh\n"), Zone: p.options.Zone, Files: map[string][]byte{}, Corrections: []submit.Correction{}}
	for files, _ := command.Needs(in); len(files) > 0; files, _ = command.Needs(in) {
		for _, f := range files {
			in.Files[f.Name] = p.file(f.Name)
		}
	}
	r := command.Run(p.cell, p.seconds(), in)
	p.follow(r.Actions)
	var lines []string
	for l := range strings.Lines(r.Stdout + r.Stderr) {
		lines = append(lines, strings.TrimSuffix(l, "\n"))
	}
	if r.Immediate {
		for _, i := range p.schedule() {
			if i.Job == r.Job {
				stderr, stdout := command.ImmediateText(i)
				lines = append(lines, strings.Split(strings.TrimSuffix(stderr+stdout, "\n"), "\n")...)
			}
		}
	}
	return lines
}

// file returns a file of the case. There are no default request files.
func (p *player) file(name string) []byte {
	if strings.HasPrefix(path.Base(name), ".sge_") {
		return nil
	}
	if text, err := textfile.ReadFS(p.fsys, strings.TrimPrefix(name, "/"), textfile.MaxScript); err == nil {
		return text
	}
	return []byte("#!/bin/sh\n")
}

// qconf changes the configuration. A script does not contain the files that the original was given;
// only remarks after the command describe them.
func (p *player) qconf(args []string, remark string) ([]string, error) {
	switch {
	case slices.Equal(args, []string{"-Msconf"}):
		return p.modifyScheduler(remark)
	case len(args) > 0 && args[0] == "-Arqs":
		return addQuota(remark)
	}
	return nil, errors.New("expected -Msconf or -Arqs, with a remark")
}

func (p *player) modifyScheduler(remark string) ([]string, error) {
	settings, err := parameters(remark)
	if err != nil {
		return nil, err
	}
	values := map[string]string{}
	for _, s := range settings {
		values[s.Name] = s.Value
	}
	if err := p.in.changeScheduler(values); err != nil {
		return nil, err
	}
	cluster, err := p.in.cluster()
	if err != nil {
		return nil, inFolder(err)
	}
	a, err := p.cell.Reconfigure(p.seconds(), cluster)
	if err != nil {
		return nil, err
	}
	p.follow(a.Actions)
	return []string{"changed scheduler configuration"}, nil
}

// addQuota reads the resource quota set of a remark: "a set with the rule: limit ...". A valid set
// would be in input/rqs, so addQuota adds none.
func addQuota(remark string) ([]string, error) {
	_, rule, ok := strings.Cut(remark, "rule: ")
	if !ok {
		return nil, errors.New(`expected the remark "a set with the rule: limit ..."`)
	}
	text := "{\nname added\nenabled TRUE\n" + strings.TrimSpace(rule) + "\n}\n"
	if _, err := qconf.ParseResourceQuotas("", []byte(text)); err != nil {
		var lines []string
		for _, e := range qconf.Errors(err) {
			lines = append(lines, e.Problem)
		}
		return lines, nil
	}
	return nil, errors.New("a set that is valid belongs into input/rqs")
}

// jobName returns the name that a command gives its job.
func jobName(command string) string {
	words, err := workload.Words(command)
	if err != nil {
		return ""
	}
	if i := slices.Index(words, "-N"); i >= 0 && i+1 < len(words) {
		return words[i+1]
	}
	return ""
}
