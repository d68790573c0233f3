package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/cell/command"
	"github.com/execd-project/execd/cmd/execd/internal/agentclient"
	"github.com/execd-project/execd/cmd/execd/internal/completion"
	"github.com/execd-project/execd/cmd/execd/internal/ps"
	"github.com/execd-project/execd/cmd/execd/internal/qclient"
	"github.com/execd-project/execd/cmd/execd/internal/report"
	"github.com/execd-project/execd/cmd/execd/internal/top"
	"github.com/execd-project/execd/internal/options"
)

// completionPatience is the longest time that a shell waits for the daemon after a press of the
// tab key.
const completionPatience = 200 * time.Millisecond

func printCompletion(args []string) (int, error) {
	err := completions().Script(args, os.Stdout)
	if err != nil {
		return options.Exit(os.Stdout, completion.Usage, err)
	}
	return 0, nil
}

// completions returns the table of commands as package completion has it.
func completions() *completion.Table {
	t := &completion.Table{
		Values: map[string][]string{
			"STATE": agentclient.States, "FORMAT": {"text", "json"}, "WHEN": ps.Colors, "GROUP": report.Groups, "COLUMN": top.Columns, "LEVEL": {"trace", "debug", "info", "warn", "error"},
		},
		Ask: func(kind completion.Kind) []completion.Candidate { return askInTime(completionPatience, kind) },
	}
	for _, r := range table() {
		c := completion.Command{Name: r.name, Summary: r.summary, GridEngine: r.gridengine}
		help := r.help()
		if r.gridengine && r.name != "qacct" {
			c.Summary = "Grid Engine's " + r.name
		} else {
			for _, o := range options.Read(help) {
				c.Options = append(c.Options, completion.Option{Name: "--" + o.Name, Value: o.Value, Text: o.Text})
			}
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
			for _, m := range regexp.MustCompile(`(?m)^ \[+(-\w+)\]?(?: \[?([^\]]*).*?)?\]+ +(\S.*)$`).FindAllStringSubmatch(help, -1) {
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

// questions are the commands that print the names of a kind.
var questions = map[completion.Kind][]string{
	completion.Queues: {"qconf", "-sql"}, completion.PEs: {"qconf", "-spl"}, completion.Hosts: {"qconf", "-sel"},
	completion.HostGroups: {"qconf", "-shgrpl"}, completion.Resources: {"qconf", "-sc"}, completion.Projects: {"qconf", "-sprjl"},
	completion.Checkpoints: {"qconf", "-sckptl"}, completion.Calendars: {"qconf", "-scall"}, completion.Jobs: {"qstat"},
}

// askInTime asks the daemon of this host for values. It returns none if the daemon has not answered
// after the time: what still waits then ends with the process.
func askInTime(most time.Duration, kind completion.Kind) []completion.Candidate {
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	answer := make(chan []completion.Candidate, 1)
	go func() {
		if kind == completion.HostJobs {
			answer <- hostJobs(ctx)
		} else {
			answer <- ask(ctx, kind)
		}
	}()
	select {
	case all := <-answer:
		return all
	case <-ctx.Done():
		return nil
	}
}

// ask runs a command of Grid Engine and returns the values that it prints.
func ask(ctx context.Context, kind completion.Kind) (all []completion.Candidate) {
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
		found := completion.Candidate{Word: words[0]}
		if kind == completion.Jobs {
			if _, err := strconv.Atoi(words[0]); err != nil || len(words) < 5 {
				continue // of the head of the table
			}
			found.Text = words[2] + " of " + words[3] + ", " + words[4]
		}
		all = append(all, found)
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
