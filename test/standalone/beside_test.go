package standalone

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/test/gridengine"
)

// language holds the commands of a batch system.
type language struct {
	job, tasks, script string // submit a short job, an array of %d of them, the script at %s; the last prints its number
	list, listAll      string // the last prints nothing where there are no jobs
	remove             string // all jobs of the user
	close, open        string // no job starts in between
	number             string // of a job, in its environment
}

// gridEngine holds the commands of Grid Engine and execd.
var gridEngine = language{
	job: short + what, tasks: short + "-t 1-%d " + what, script: short + "-terse %s",
	list: "qstat", listAll: "qstat -u '*'",
	// Of large arrays the original says that it could not remove all, and does.
	remove: "qdel -u $(id -un) > /dev/null || true",
	close:  "qmod -d all.q", open: "qmod -e all.q", number: "JOB_ID",
}

const (
	short = "qsub -wd / -o /dev/null -j y "
	what  = "-b y -shell n /bin/true > /dev/null"
)

// system is a batch system that runs the same benchmark.
type system struct {
	testing.TB
	language
	name       string
	user, root func(script string) (string, error) // make a shell run it
	accounting string                              // the file
	inside     string                              // a directory to which jobs may write, with its path for jobs
	here       string                              // with its path for the test
}

func (s *system) as(run func(string) (string, error), script string) string {
	s.Helper()
	out, err := run(script)
	if err != nil {
		s.Fatalf("%s: %s: %v", s.name, script, err)
	}
	return out
}

// ours returns the system of execd standalone.
func ours(b *testing.B) *system {
	m := newMachine(b, 512)
	m.write("conf/conf/global", groupIDs()+"min_uid 1\nmin_gid 1\nmax_aj_tasks 100000\n")
	m.start()
	nobody := someUsers(b, 1)[0]
	root, err := user.Current()
	if err != nil {
		b.Fatal(err)
	}
	shell := func(u *user.User) func(string) (string, error) {
		return func(script string) (string, error) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			cmd := m.command(ctx, u, "sh", "-c", script)
			cmd.Path = "/bin/sh"
			cmd.Env = append(cmd.Env, "PATH="+filepath.Join(m.bin, "commands")+":/usr/bin:/bin")
			return output(cmd)
		}
	}
	m.root("qstat") // it is there
	out := m.open("out")
	return &system{b, gridEngine, "execd", shell(nobody), shell(root), filepath.Join(m.dir, "spool", "accounting"), out, out}
}

func output(cmd *exec.Cmd) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%w: %s", err, stderr.String())
	}
	return stdout.String(), nil
}

// original returns a real Grid Engine, with the fastest scheduling that it supports.
func original(b *testing.B) *system {
	c := gridengine.Start(b, gridengine.Config{Conf: map[string]string{"max_aj_tasks": "100000"}})
	err := c.AddQueues(gridengine.Queue{Name: "all.q", Attributes: map[string]string{
		"slots": "512", "load_thresholds": "NONE", "shell": "/bin/sh", "shell_start_mode": "unix_behavior",
	}})
	if err != nil {
		b.Fatal(err)
	}
	return inside(c, system{TB: b, language: gridEngine, name: "Grid Engine", accounting: c.AccountingFile()})
}

// inside runs the commands of a system in the namespaces of a cell.
func inside(c *gridengine.Cell, s system) *system {
	shell := func(run func(...string) (string, error)) func(string) (string, error) {
		return func(script string) (string, error) { return run("/bin/sh", "-c", script) }
	}
	s.user = shell(func(args ...string) (string, error) { return c.User("bob", args...) })
	s.root = shell(c.Root)
	s.inside = "/tmp/out"
	s.here = testenv.Open(s, c.Path(s.inside))
	return &s
}

func (s *system) until(what string, is func() bool) {
	s.Helper()
	if !becomes(is, 5*time.Millisecond) {
		s.Fatalf("%s: not in time: %s", s.name, what)
	}
}

func (s *system) records() int {
	text, err := os.ReadFile(s.accounting)
	if err != nil && !os.IsNotExist(err) {
		s.Fatal(err)
	}
	return bytes.Count(text, []byte("\n"))
}

func (s *system) empty() {
	s.until("all have left", func() bool { return s.as(s.root, s.listAll) == "" })
}

// first returns the time from the call of qsub to the first line of a job.
func (s *system) first() float64 {
	job := filepath.Join(s.inside, "time.sh")
	if err := os.WriteFile(filepath.Join(s.here, "time.sh"), []byte("#!/bin/sh\ndate +%s%N > "+s.inside+"/$"+s.number+"\n"), 0o644); err != nil {
		s.Fatal(err)
	}
	words := strings.Fields(s.as(s.user, "date +%s%N; "+fmt.Sprintf(s.script, job)))
	began, e1 := strconv.ParseInt(words[0], 10, 64)
	var first int64
	var e2 error
	s.until("the job begins", func() bool {
		text, err := os.ReadFile(filepath.Join(s.here, words[1]))
		if err == nil && len(text) > 0 {
			first, e2 = strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		}
		return first != 0
	})
	if err := cmp.Or(e1, e2); err != nil {
		s.Fatal(err)
	}
	s.empty()
	return float64(first-began) / 1e6
}

// ends returns the number of pending jobs that finish per second, from the moment at which they may
// start.
func (s *system) ends(jobs int, submit string) float64 {
	s.as(s.root, s.close)
	s.as(s.user, submit)
	before, began := s.records(), time.Now()
	s.as(s.root, s.open)
	s.until("all have a record", func() bool { return s.records() >= before+jobs })
	rate := float64(jobs) / time.Since(began).Seconds()
	s.empty()
	return rate
}

// submits returns the number of submissions per second.
func (s *system) submits(jobs int, submit string) float64 {
	s.as(s.root, s.close)
	began := time.Now()
	s.as(s.user, submit)
	rate := float64(jobs) / time.Since(began).Seconds()
	s.clear()
	return rate
}

// clear deletes the pending jobs.
func (s *system) clear() {
	s.as(s.user, s.remove)
	s.empty()
	s.as(s.root, s.open)
}

// array returns the duration of a command while an array of 100,000 tasks is pending.
func (s *system) array(command func() float64) float64 {
	s.as(s.root, s.close)
	defer s.clear()
	return command()
}

func (s *system) takes(script string) float64 {
	began := time.Now()
	s.as(s.user, script)
	return float64(time.Since(began).Microseconds()) / 1e3
}

// measures are the values measured for each system.
var measures = []struct {
	name string
	more bool // a larger value is better
	take func(*system) float64
}{
	{"from the command to the first instruction, ms", false, (*system).first},
	{"500 tasks of an array, 512 slots: tasks/s", true, func(s *system) float64 { return s.ends(500, fmt.Sprintf(s.tasks, 500)) }},
	{"500 jobs, 512 slots: jobs/s", true, func(s *system) float64 { return s.ends(500, s.each(500, 4)) }},
	{"one submission after another: jobs/s", true, func(s *system) float64 { return s.submits(100, s.each(100, 1)) }},
	{"8 submissions at once: jobs/s", true, func(s *system) float64 { return s.submits(400, s.each(400, 8)) }},
	{"submission of an array of 100,000 tasks, ms", false, func(s *system) float64 {
		return s.array(func() float64 { return s.takes(fmt.Sprintf(s.tasks, 100000)) })
	}},
	{"list of jobs beside it, ms", false, func(s *system) float64 {
		return s.array(func() float64 {
			s.as(s.user, fmt.Sprintf(s.tasks, 100000))
			return s.takes(s.list + " > /dev/null")
		})
	}},
}

// each submits so many jobs, so many at once.
func (s *system) each(jobs, together int) string {
	return fmt.Sprintf("seq %d | xargs -P %d -I N sh -c '%s'", jobs, together, s.job)
}

// BenchmarkBeside runs the same commands with execd standalone, with a real Grid Engine and, if it
// is installed, with Slurm, on the same host in turns. It prints the medians and their ratios
// (docs/performance.md).
func BenchmarkBeside(b *testing.B) {
	systems := []*system{ours(b), original(b)}
	if s := slurm(b); s != nil {
		systems = append(systems, s)
	}
	const rounds = 3
	for b.Loop() {
		for _, m := range measures {
			taken := make([][]float64, len(systems))
			for range rounds {
				for i, s := range systems {
					taken[i] = append(taken[i], m.take(s))
				}
			}
			var medians []float64
			text := fmt.Sprintf("%-45s", m.name)
			for i, s := range systems {
				medians = append(medians, median(taken[i]))
				text += fmt.Sprintf("  %s %.4g (%.4g..%.4g)", s.name, medians[i], taken[i][0], taken[i][rounds-1])
			}
			text += "  better by"
			for _, median := range medians[1:] {
				better := medians[0] / median
				if !m.more {
					better = 1 / better
				}
				text += fmt.Sprintf(" %.1f", better)
			}
			fmt.Println(text)
		}
	}
}

// BenchmarkListsBeside has execd standalone and a real Grid Engine list 10,000 held jobs in turns. It
// prints the medians and their ratio (docs/performance.md).
func BenchmarkListsBeside(b *testing.B) {
	systems := []*system{ours(b), original(b)}
	const rounds = 7
	for b.Loop() {
		for _, s := range systems {
			for range 50 { // each within the timeout of a command
				s.as(s.user, "seq 200 | xargs -P 8 -I N "+short+"-h "+what)
			}
		}
		for _, list := range []string{"qstat", "qstat -xml", "qstat -r", "qstat -ext -s p -u '*'", "qstat -j 777"} {
			var taken [2][]float64
			for range rounds {
				for i, s := range systems {
					taken[i] = append(taken[i], s.takes(list+" > /dev/null"))
				}
			}
			execd, original := median(taken[0]), median(taken[1])
			fmt.Printf("%-25s execd %.4g ms, Grid Engine %.4g ms, ratio %.2f\n", list, execd, original, execd/original)
		}
		for _, s := range systems {
			s.clear()
		}
	}
}
