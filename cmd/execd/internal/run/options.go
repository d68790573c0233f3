package run

import (
	"fmt"
	"strings"

	"github.com/execd-project/execd/internal/nearest"
	"github.com/execd-project/execd/internal/options"
	"github.com/execd-project/execd/internal/printer"
	"github.com/execd-project/execd/submit"
)

// Options are the options of execd run in addition to those of qsub.
type Options struct {
	Conf  string // --conf: directory of configuration files; empty for the built-in
	Queue string // --queue: name of the queue; may be empty if there is only one
	As    string // --as: the owner of the job; empty for the caller
	Keep  bool   // --keep: leave the job directory
	JSON  string // --json: file for the outcome, - for standard output
	// Devices is --device: files that the job may open although cgroups_params denies devices.
	Devices []string
	GPURoot string // --gpu-root: the directory with proc and sys in which GPUs are searched
}

// own lists the options with their help, in the order of the help text.
var own = []struct {
	name, value, help string
	set               func(o *Options, value string)
}{
	{"--conf", "DIR", "configuration: queues/, conf/, pes/, ckpts/, hostgroups/ as qconf -s... prints them (default: built-in)", func(o *Options, v string) { o.Conf = v }},
	{"--queue", "NAME", "the queue to run in; may be left out when there is one", func(o *Options, v string) { o.Queue = v }},
	{"--as", "USER", "run the job as this user (root only)", func(o *Options, v string) { o.As = v }},
	{"--device", "FILE", "let the job open a device that cgroups_params denies (root only; may be repeated)", func(o *Options, v string) { o.Devices = append(o.Devices, v) }},
	{"--gpu-root", "DIR", "find GPUs in DIR/proc and DIR/sys, for tests without GPUs (default: /)", func(o *Options, v string) { o.GPURoot = v }},
	{"--keep", "", "leave the job directory for inspection", func(o *Options, _ string) { o.Keep = true }},
	{"--json", "FILE", "write the outcome as JSON to FILE, - for standard output", func(o *Options, v string) { o.JSON = v }},
	{"--help", "", "print this text", nil},
}

// take parses an option of execd run at the start of args. It returns the number of words of the
// option, or 0 if it is another option. It accepts --name value and --name=value.
func (o *Options) take(args []string) (int, error) {
	name, value, joined := strings.Cut(args[0], "=")
	for _, opt := range own {
		if opt.name != name {
			continue
		}
		switch {
		case opt.set == nil:
			return 0, options.ErrHelp
		case opt.value == "" && joined:
			return 0, fmt.Errorf("%s takes no value, but was given %q", name, value)
		case opt.value == "":
			opt.set(o, "")
			return 1, nil
		case joined && value == "" || !joined && len(args) < 2:
			return 0, fmt.Errorf("%s needs a value: %s %s", name, name, opt.value)
		case joined:
			opt.set(o, value)
			return 1, nil
		case args[1] == "":
			return 0, fmt.Errorf("%s needs a value: %s %s", name, name, opt.value)
		default:
			opt.set(o, args[1])
			return 2, nil
		}
	}
	// No option of qsub begins with two dashes.
	if _, ok := submit.Lookup("-" + strings.TrimLeft(name, "-")); !ok {
		var names []string
		for _, opt := range own {
			names = append(names, opt.name)
		}
		if near, ok := nearest.Word(name, names); ok {
			return 0, fmt.Errorf("unknown option %s (did you mean %s?)", name, near)
		}
	}
	return 0, nil
}

// Help returns the output of --help: the options of execd run and of qsub.
func Help() string {
	var b strings.Builder
	b.WriteString("Usage: execd run [options] SCRIPT [ARGS]\n\n" +
		"Run one job on this host as Grid Engine would, in the foreground, without a daemon.\n\nOptions of execd run:\n")
	for _, o := range own {
		printer.Fprintf(&b, "  %-18s %s\n", strings.TrimSpace(o.name+" "+o.value), o.help)
	}
	return b.String() + "\n" + submit.Usage()
}
