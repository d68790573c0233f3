package main

import (
	"bytes"
	"context"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

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
		Ask: func(kind completion.Kind) []completion.Candidate { return askInTime(completionPatience, kind) },
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

// questions are the commands that print the names of a kind, each at the begin of a line.
var questions = map[completion.Kind][]string{
	completion.Queues: {"qconf", "-sql"}, completion.PEs: {"qconf", "-spl"}, completion.Hosts: {"qconf", "-sel"},
	completion.HostGroups: {"qconf", "-shgrpl"}, completion.Resources: {"qconf", "-sc"}, completion.Projects: {"qconf", "-sprjl"},
	completion.Checkpoints: {"qconf", "-sckptl"}, completion.Calendars: {"qconf", "-scall"},
	completion.AccessLists: {"qconf", "-sul"}, completion.QuotaSets: {"qconf", "-srqsl"}, completion.Reservations: {"qrstat"},
	completion.Users: {"qconf", "-suserl"},
}

// askInTime asks the daemon of this host for values. It returns none if the daemon has not answered
// after the time: what still waits then ends with the process.
func askInTime(most time.Duration, kind completion.Kind) []completion.Candidate {
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	answer := make(chan []completion.Candidate, 1)
	go func() {
		switch kind {
		case completion.HostJobs:
			answer <- hostJobs(ctx)
		case completion.Jobs:
			answer <- jobs(ctx)
		case completion.FinishedJobs:
			answer <- finishedJobs(ctx)
		case completion.Users:
			answer <- users(ctx)
		default:
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

// ask runs a command of Grid Engine and returns the first word of each line that it prints.
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
		if _, err := strconv.Atoi(words[0]); err != nil && kind == completion.Reservations {
			continue // the head of the table
		}
		all = append(all, completion.Candidate{Word: words[0]})
	}
	return all
}

// listed is a line of qstat, which answers in half the time that its JSON takes.
type listed struct{ job, name, owner, state string }

// listedOwner is the maximum length of a name in the column of owners.
const listedOwner = 12

// list runs qstat and returns the lines of its table.
func list(ctx context.Context, options ...string) (all []listed) {
	var out bytes.Buffer
	c := qclient.Command{Name: "qstat", Args: options, Stdin: strings.NewReader(""), Stdout: &out, Stderr: io.Discard}
	if c.Run(ctx) != 0 {
		return nil
	}
	head, _, _ := strings.Cut(out.String(), "\n")
	name, owner, state := strings.Index(head, "name "), strings.Index(head, "user "), strings.Index(head, "state ")
	if name < 0 || owner < name || state < owner {
		return nil
	}
	for text := range strings.Lines(out.String()) {
		line := []rune(text) // names may have blanks
		job, _, _ := strings.Cut(strings.TrimSpace(text), " ")
		if _, err := strconv.Atoi(job); err != nil || len(line) <= state {
			continue
		}
		of := func(from, to int) string { return strings.TrimSpace(string(line[from:to])) }
		phase, _, _ := strings.Cut(of(state, len(line)), " ")
		all = append(all, listed{job, of(name, owner), of(owner, state), phase})
	}
	return all
}

// jobs returns the jobs that qstat lists to the caller.
func jobs(ctx context.Context) (all []completion.Candidate) {
	for _, j := range list(ctx) {
		all = append(all, completion.Candidate{Word: j.job, Text: j.name + " of " + j.owner + ", " + j.state})
	}
	return all
}

// users returns the users in the configuration and the owners of jobs, sorted.
func users(ctx context.Context) (all []completion.Candidate) {
	names := map[string]bool{}
	for _, c := range ask(ctx, completion.Users) {
		names[c.Word] = true
	}
	cut := false
	for _, j := range list(ctx, "-u", "*") {
		if utf8.RuneCountInString(j.owner) < listedOwner {
			names[j.owner] = true
		} else {
			cut = true
		}
	}
	if cut {
		for _, owner := range longNames(ctx) {
			names[owner] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		all = append(all, completion.Candidate{Word: name})
	}
	return all
}

// longNames returns the owners of all jobs, whose names qstat does not cut off as JSON.
func longNames(ctx context.Context) (all []string) {
	session, err := qclient.Dial(ctx, "execd", io.Discard)
	if err != nil {
		return nil
	}
	defer session.Close()
	d, err := session.View(ctx, "qstat", "-u", "*")
	if err != nil {
		return nil
	}
	for i := range d.Jobs {
		all = append(all, d.Jobs[i].Owner)
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
