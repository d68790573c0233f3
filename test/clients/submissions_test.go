package clients

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/execd-project/execd/internal/testenv"
)

// submissionPatience is the timeout for all submissions and jobs of TestSoakSubmissions.
const submissionPatience = time.Hour

// TestSoakSubmissions submits 20,000 jobs: four shells call qsub in a loop, while 50 processes request
// the list of jobs and the daemon is killed three times. Each command succeeds, and each job number that
// qsub prints belongs to a job that has run once.
func TestSoakSubmissions(t *testing.T) {
	testenv.Soak(t)
	const (
		loops, perLoop = 4, 5000
		restarts       = 3
		pollers        = 50
		perSec         = 10
	)
	s := newSite(t, 16)
	ctx, cancel := context.WithTimeout(t.Context(), submissionPatience)
	defer cancel()
	// Each line of the output has the number of a job, and how long qsub took, in nanoseconds.
	script := s.script("loop.sh", `#!/bin/sh
i=0
while [ $i -lt "$1" ]; do
	i=$((i+1))
	begin=$(date +%s%N)
	id=$(qsub -terse -cwd -j y -o /dev/null -N loop -b y /bin/true) || exit 1
	echo "$id $(($(date +%s%N)-begin))"
done
`)
	var said testenv.Transcript
	var errs [loops]bytes.Buffer
	var all sync.WaitGroup
	for i := range loops {
		all.Go(func() {
			cmd := s.command(ctx, s.user, script, strconv.Itoa(perLoop))
			cmd.Stdout, cmd.Stderr = &said, &errs[i]
			if err := cmd.Run(); err != nil || errs[i].Len() > 0 {
				t.Errorf("loop %d: %v: %s", i, err, errs[i].String())
			}
		})
	}
	over := make(chan struct{})
	go func() { all.Wait(); close(over) }()
	polling, stop := context.WithCancel(ctx)
	var polled sync.WaitGroup
	defer polled.Wait()
	defer stop()
	var polls atomic.Int64
	for range pollers {
		polled.Go(func() { s.poll(polling, perSec, &polls) })
	}
	start := time.Now()
	again := time.NewTicker(time.Second)
	defer again.Stop()
	for restarted := 0; ; {
		select {
		case <-again.C:
			if restarted < restarts && strings.Count(said.String(), "\n") > (restarted+1)*loops*perLoop/(restarts+1) {
				s.restart()
				restarted++
			}
			continue
		case <-over:
		}
		break
	}
	lasted := time.Since(start)

	submitted := map[string]bool{}
	var took []time.Duration
	for line := range strings.Lines(said.String()) {
		var id string
		var nanoseconds int64
		if _, err := fmt.Sscan(line, &id, &nanoseconds); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		submitted[id] = true
		took = append(took, time.Duration(nanoseconds))
	}
	if len(submitted) != loops*perLoop {
		t.Errorf("%d jobs were submitted, want %d", len(submitted), loops*perLoop)
	}
	for s.root("qstat", "-u", "*").stdout != "" {
		select {
		case <-again.C:
		case <-ctx.Done():
			t.Fatal("not all jobs have left")
		}
	}
	stop()
	polled.Wait()
	records := map[string]int{}
	for _, found := range regexp.MustCompile(`(?m)^jobnumber +(\d+)`).FindAllStringSubmatch(s.must(s.root("qacct", "-j")), -1) {
		records[found[1]]++
	}
	for id := range submitted {
		if records[id] != 1 {
			t.Errorf("job %s has %d records", id, records[id])
		}
	}
	if len(records) != len(submitted) {
		t.Errorf("%d jobs have records, and %d were submitted", len(records), len(submitted))
	}
	tenth := len(took) / 10
	slices.Sort(took[:tenth])
	slices.Sort(took[len(took)-tenth:])
	first, last := took[tenth/2], took[len(took)-tenth/2]
	t.Attr("seconds-of-all-submissions", fmt.Sprintf("%.0f", lasted.Seconds()))
	t.Attr("polls", fmt.Sprint(polls.Load()))
	t.Attr("peak-kB", s.peak())
	t.Attr("submission-of-the-first-tenth", first.String())
	t.Attr("submission-of-the-last-tenth", last.String())
}
