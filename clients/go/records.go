package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Record is the accounting record of a run of a task (accounting(5)).
type Record struct {
	Task       int    // 0 if the job is not an array job
	Queue      string // the queue of the master task
	Host       string
	Slots      int
	Failed     int    // a code of accounting(5); 0 if nothing went wrong
	FailedText string // the text that qacct prints after the code
	ExitStatus int
	Signal     int // the signal that ended the job, from the exit status; 0 if none
	Start, End time.Time
	Usage
	WallClock time.Duration
	// Fields has all values as qacct prints them, by their names.
	Fields map[string]string
}

// Records returns the accounting records of a job, one per task and run, in the order of the tasks (qacct -j). The error wraps
// ErrUnknownJob if there is none after AccountingDelay.
func (c *Client) Records(ctx context.Context, job int) ([]Record, error) {
	const pause = 500 * time.Millisecond
	for end := time.Now().Add(c.AccountingDelay); ; {
		out, err := c.run(ctx, nil, nil, "qacct", "-j", strconv.Itoa(job))
		e, ok := errors.AsType[*CommandError](err)
		unknown := ok && (strings.Contains(e.Text, "not found") || strings.Contains(e.Text, "no jobs running"))
		switch {
		case err == nil:
			return parseRecords(out), nil
		case !unknown:
			return nil, err
		case time.Now().After(end) || c.AccountingDelay == 0:
			return nil, fmt.Errorf("job %d: %w", job, ErrUnknownJob)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, fmt.Errorf("cannot wait for the record of job %d: %w", job, ctx.Err())
		}
	}
}

// parseRecords reads the output of qacct -j.
func parseRecords(text string) []Record {
	var list []Record
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "=====") {
			list = append(list, Record{Fields: map[string]string{}})
			continue
		}
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name != "" && len(list) > 0 {
			list[len(list)-1].Fields[name] = strings.TrimSpace(value)
		}
	}
	for i := range list {
		list[i].read()
	}
	slices.SortStableFunc(list, func(a, b Record) int { return cmp.Compare(a.Task, b.Task) })
	return list
}

// read sets the fields from the texts. A field whose text it cannot read stays 0.
func (r *Record) read() {
	number := func(name string) int {
		word, _, _ := strings.Cut(r.Fields[name], " ")
		n, _ := strconv.Atoi(word)
		return n
	}
	seconds := func(name string) time.Duration {
		return time.Duration(amount(strings.TrimSuffix(r.Fields[name], "s")) * float64(time.Second))
	}
	at := func(name string) time.Time {
		t, err := time.ParseInLocation(time.ANSIC, r.Fields[name], time.Local)
		if err != nil {
			return time.Time{}
		}
		return t
	}
	r.Usage = Usage{
		Task: number("taskid"), CPU: seconds("cpu"), MaxVMem: int64(amount(r.Fields["maxvmem"])),
		Memory: amount(strings.TrimSuffix(r.Fields["mem"], "s")) / (1 << 30), IO: amount(r.Fields["io"]) / (1 << 30),
	}
	r.Task, r.Queue, r.Host, r.Slots = r.Usage.Task, r.Fields["qname"], r.Fields["hostname"], number("slots")
	r.Failed, r.ExitStatus, r.WallClock = number("failed"), number("exit_status"), seconds("ru_wallclock")
	_, text, _ := strings.Cut(r.Fields["failed"], " ")
	r.FailedText = strings.TrimLeft(text, " :")
	r.Start, r.End = at("start_time"), at("end_time")
	const signaled = 128 // and the number of the signal, as in shells
	if r.ExitStatus > signaled {
		r.Signal = r.ExitStatus - signaled
	}
}

// amount reads a number with a unit that qacct and qstat print: K, M, G and T are powers of 1024. It returns
// 0 for a text that it cannot read.
func amount(text string) float64 {
	text = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSpace(text), "s"), "B")
	factor := 1.0
	if i := strings.IndexAny(text, " KMGTP"); i >= 0 {
		unit := strings.TrimSpace(text[i:])
		text = text[:i]
		if unit != "" {
			if n := strings.IndexByte("KMGTP", unit[0]); n >= 0 {
				factor = float64(uint64(1) << (10 * (n + 1)))
			}
		}
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0
	}
	return f * factor
}

// clock reads [days:]hours:minutes:seconds.
func clock(text string) time.Duration {
	words := strings.Split(text, ":")
	factors := []int{1, 60, 3600, 86400}
	total := 0
	for i := range words {
		n, err := strconv.Atoi(words[len(words)-1-i])
		if err != nil || i >= len(factors) {
			return 0
		}
		total += n * factors[i]
	}
	return time.Duration(total) * time.Second
}
