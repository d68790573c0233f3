package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/execd-project/execd/accounting"
	"github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/cell/command"
	"github.com/execd-project/execd/cmd/execd/internal/agentclient"
	"github.com/execd-project/execd/cmd/execd/internal/completion"
	"github.com/execd-project/execd/cmd/execd/internal/ps"
	"github.com/execd-project/execd/cmd/execd/internal/qclient"
	"github.com/execd-project/execd/cmd/execd/internal/records"
	"github.com/execd-project/execd/cmd/execd/internal/report"
	"github.com/execd-project/execd/cmd/execd/internal/top"
	"github.com/execd-project/execd/internal/host/program"
	"github.com/execd-project/execd/internal/options"
	"github.com/execd-project/execd/limits/process"
	daemonapi "github.com/execd-project/execd/standalone/api"
)

func printCompletion(args []string) (int, error) {
	err := completions().Script(args, os.Stdout)
	if err != nil {
		return options.Exit(os.Stdout, completion.Usage, err)
	}
	return 0, nil
}

var (
	// shortName finds the short name of an option in its description: "(short: -u)", "; also -f".
	shortName = regexp.MustCompile(`(?:short:|also) (-[a-z])\b`)
	// classicOption matches a line such as " [-j [job_id|job_name|pattern]]    list jobs".
	classicOption = regexp.MustCompile(`(?m)^ \[+(-\w+)\]?(?: \[?([^\]\n ]+)[^ \n]*)? +(\S.*)$`)
)

// completions returns the table of commands as package completion has it.
func completions() *completion.Table {
	t := &completion.Table{
		Values: map[string][]string{
			"STATE": agentclient.States, "FORMAT": {"text", "json"}, "WHEN": ps.Colors, "GROUP": report.Groups, "COLUMN": top.Columns, "LEVEL": {"trace", "debug", "info", "warn", "error"},
		},
		Ask: func(kind completion.Kind, prefix string) []completion.Candidate {
			return completion.InTime(process.Age(os.Getpid()), func(ctx context.Context) []completion.Candidate { return ask(ctx, kind, prefix) })
		},
	}
	for _, r := range table() {
		c := completion.Command{Name: r.name, Summary: r.summary, GridEngine: r.gridengine}
		help := r.help()
		if r.gridengine && r.name != "qacct" {
			c.Summary = "Grid Engine's " + r.name
		} else {
			for _, o := range options.Read(help) {
				option := completion.Option{Name: "--" + o.Name, Value: o.Value, Text: o.Text}
				if m := shortName.FindStringSubmatch(o.Text); m != nil {
					option.Short = m[1]
				}
				c.Options = append(c.Options, option)
			}
			c.NoOperands = strings.HasPrefix(help, "Usage: execd "+r.name+" [options]\n")
		}
		originals := command.Options(r.name)
		if r.name == "run" {
			originals = command.Options("qsub")
		}
		for _, o := range originals {
			c.Options = append(c.Options, completion.Option{Name: o.Name, Value: o.Args, Text: o.Help})
		}
		switch r.name {
		case "qacct":
			for _, m := range classicOption.FindAllStringSubmatch(help, -1) {
				c.Options = append(c.Options, completion.Option{Name: m[1], Value: m[2], Text: m[3]})
			}
		case "help":
			c.Words = names()
		case "completion":
			c.Words = completion.Shells
		default:
			// A sub-command follows the name of the command in the synopsis.
			if m := regexp.MustCompile(`^Usage: execd ` + r.name + ` ([a-z]+) `).FindStringSubmatch(help); m != nil {
				c.Words = m[1:]
			}
		}
		t.Commands = append(t.Commands, c)
	}
	return t
}

// questions are the commands that print the names of a kind, each at the beginning of a line.
var questions = map[completion.Kind][]string{
	completion.Queues: {"qconf", "-sql"}, completion.PEs: {"qconf", "-spl"}, completion.Hosts: {"qconf", "-sel"},
	completion.HostGroups: {"qconf", "-shgrpl"}, completion.Resources: {"qconf", "-sc"}, completion.Projects: {"qconf", "-sprjl"},
	completion.Checkpoints: {"qconf", "-sckptl"}, completion.Calendars: {"qconf", "-scall"},
	completion.AccessLists: {"qconf", "-sul"}, completion.QuotaSets: {"qconf", "-srqsl"}, completion.Reservations: {"qrstat"},
}

// ask asks the daemon of this host for values that begin with a prefix.
func ask(ctx context.Context, kind completion.Kind, prefix string) []completion.Candidate {
	switch kind {
	case completion.HostJobs:
		return hostJobs(ctx)
	case completion.Jobs:
		return named(ctx, daemonapi.NamesRequest{Of: daemonapi.NamableJobs, Prefix: daemonapi.Text(prefix)})
	case completion.FinishedJobs:
		return finishedJobs(ctx)
	case completion.Users:
		return named(ctx, daemonapi.NamesRequest{Of: daemonapi.NamableUsers, Prefix: daemonapi.Text(prefix)})
	default:
		return printed(ctx, kind)
	}
}

// printed runs a command of Grid Engine and returns the first word of each line that it prints.
func printed(ctx context.Context, kind completion.Kind) (all []completion.Candidate) {
	q := questions[kind]
	var out bytes.Buffer
	c := qclient.Command{Name: q[0], Args: q[1:], Stdin: strings.NewReader(""), Stdout: &out, Stderr: io.Discard}
	if c.Run(ctx) != 0 {
		return nil
	}
	for line := range strings.Lines(out.String()) {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		if _, err := strconv.Atoi(words[0]); err != nil && kind == completion.Reservations {
			continue // the head of the table
		}
		all = append(all, completion.Candidate{Word: words[0]})
	}
	return all
}

// named returns names that the daemon of execd standalone selects: qstat of many jobs would take too long.
func named(ctx context.Context, q daemonapi.NamesRequest) (all []completion.Candidate) {
	c := qclient.Command{Name: "execd", Stderr: io.Discard}
	d, err := c.Dial(ctx)
	if err != nil {
		return nil
	}
	defer d.Agent().Close()
	a, err := d.Names(ctx, q)
	if err != nil {
		return nil
	}
	for _, n := range a.Names {
		all = append(all, completion.Candidate{Word: string(n.Name), Text: string(n.Text)})
	}
	return all
}

const (
	// recentRecords is how much of the end of the accounting file is read for finished jobs, in bytes.
	recentRecords = 256 << 10
	// mostFinished is the maximum number of finished jobs.
	mostFinished = 100
)

// finishedJobs returns the caller's jobs that finished last, and for root those of all users, the newest
// first.
func finishedJobs(ctx context.Context) (all []completion.Candidate) {
	name, _ := qclient.AccountingFile(ctx)
	file, err := records.OpenEnd(name, recentRecords)
	if err != nil {
		return nil
	}
	defer file.Close()
	me := program.Own()
	last := map[int]completion.Candidate{}
	var order []int
	err = records.Each(ctx, file, 0, func(r *accounting.Record) error {
		if me.UID == 0 || r.Owner == me.Name {
			last[r.Job] = completion.Candidate{Word: strconv.Itoa(r.Job), Text: r.JobName + " of " + r.Owner}
			order = append(order, r.Job)
		}
		return nil
	}, func(int, error) {})
	if err != nil {
		return nil
	}
	for _, job := range slices.Backward(order) {
		if c, more := last[job]; more && len(all) < mostFinished {
			all = append(all, c)
			delete(last, job)
		}
	}
	return all
}

// hostJobs returns the jobs of the agent of this host.
func hostJobs(ctx context.Context) (all []completion.Candidate) {
	client, err := api.Dial(api.Options{Socket: agentclient.DefaultSocket(), RetryFor: -1})
	if err != nil {
		return nil
	}
	defer client.Close()
	jobs, err := client.Jobs(ctx)
	if err != nil {
		return nil
	}
	for _, j := range jobs {
		all = append(all, completion.Candidate{Word: strconv.Itoa(j.Job), Text: j.Name + " of " + j.Owner + ", " + string(j.State)})
	}
	return all
}
