package qclient

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/execd-project/execd/accounting"
	"github.com/execd-project/execd/cmd/execd/internal/records"
	"github.com/execd-project/execd/internal/printer"
	"github.com/execd-project/execd/internal/terminal"
	"github.com/execd-project/execd/internal/usagetext"
	"github.com/execd-project/execd/standalone/api"
)

// lookPeriod is the interval at which a command on a terminal prints why the job is pending, if the
// reason has changed.
const lookPeriod = 5 * time.Second

// onTerminal reports whether a stream is a terminal. Scripts see what the original prints.
func onTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && terminal.Is(f)
}

// watch prints on a terminal what a job waits for, until done is called. done returns when the last
// line is printed.
func (c *Command) watch(ctx context.Context, d *api.Client, job uint32) (done func()) {
	if !onTerminal(c.Stderr) {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		said := ""
		ticker := time.NewTicker(lookPeriod)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			texts, ok := waitingFor(ctx, d, job)
			now := withoutTimes(strings.Join(texts, "\n"))
			switch {
			case !ok || now == said:
				continue
			case now == "":
				texts = []string{fmt.Sprintf("job %d runs", job)}
			default:
				for i := range texts {
					texts[i] = fmt.Sprintf("job %d waits for %s", job, texts[i])
				}
			}
			said = now
			for _, text := range texts {
				printer.Fprintf(c.Stderr, "%s: %s\n", c.Name, text)
			}
		}
	})
	return func() {
		cancel()
		running.Wait()
	}
}

// tellUsage prints on a terminal what a finished job used of its request, if the accounting file has the
// records of as many tasks.
func (c *Command) tellUsage(ctx context.Context, d *api.Client, job uint32, tasks int) {
	if !onTerminal(c.Stderr) {
		return
	}
	places, err := d.Places(ctx)
	if err != nil {
		return // an old daemon; the job has succeeded all the same
	}
	// A file of many years must not delay the end of the command.
	file, err := records.OpenRecent(string(places.Accounting))
	if err != nil {
		return
	}
	defer file.Close()
	var used accounting.Efficiency
	found := map[int]bool{}
	err = records.Each(ctx, file, int(job), func(r *accounting.Record) error {
		if used.Add(r); r.PETask == "" && !r.Start.IsZero() {
			found[r.Task] = true
		}
		return nil
	}, func(int, error) {}) // qacct reports invalid lines
	if err == nil && len(found) >= max(tasks, 1) {
		c.tell(fmt.Sprintf("job %d used ", job) + usagetext.Line(&used))
	}
}

// waitingFor returns the reasons why a job is pending, as qstat -j shows them; ok is false if they
// are unknown.
func waitingFor(ctx context.Context, d *api.Client, job uint32) (texts []string, ok bool) {
	a, err := d.Command(ctx, &api.CommandRequest{
		Key: rand.Text(), Name: "qstat", Args: api.Texts([]string{"-json", "-j", fmt.Sprint(job)}), Directory: "/",
	})
	if err != nil || a.Exit != 0 {
		return nil, false
	}
	var shown struct {
		Details []struct {
			WaitingFor []string `json:"waitingFor"`
		} `json:"details"`
	}
	if err := json.Unmarshal([]byte(a.Stdout), &shown); err != nil || len(shown.Details) != 1 {
		return nil, false
	}
	return shown.Details[0].WaitingFor, true
}

var times = regexp.MustCompile(`([0-9]+ days and )?[0-9]+:[0-9][0-9]:[0-9][0-9]`)

// withoutTimes returns a text without the durations that change by themselves.
func withoutTimes(text string) string { return times.ReplaceAllString(text, "") }
