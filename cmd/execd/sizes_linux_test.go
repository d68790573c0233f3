package main_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// large is the size of a file that is refused, and mostMemory the memory that a command may use, both in
// bytes. The largest permitted configuration needs that much memory.
const (
	large      = 1 << 40
	mostMemory = 512 << 20
)

// measured runs execd and returns with its result the most memory that it had at a time.
func measured(t *testing.T, stdin io.Reader, dir string, args ...string) (result, int64) {
	t.Helper()
	build(t)
	var out, errs beginning
	cmd := exec.Command(base+"/bin/execd", args...)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = dir, stdin, &out, &errs
	// Without limits it would take all that the machine has.
	cmd.Env = append(os.Environ(), "EXECD_SOCKET=/nowhere", "HOME="+dir, "TZ=UTC",
		// On a busy machine the collector lags behind, and garbage would count.
		"GOMEMLIMIT="+strconv.Itoa(mostMemory/2))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	const most = 4 << 30
	if err := unix.Prlimit(cmd.Process.Pid, unix.RLIMIT_DATA, &unix.Rlimit{Cur: most, Max: most}, nil); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait()
	used := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10
	t.Attr("memory", strconv.FormatInt(used>>20, 10)+" MiB")
	return result{cmd.ProcessState.ExitCode(), string(out), string(errs)}, used
}

// beginning keeps the beginning of what is printed: what this process had in memory at the time
// of a fork counts for its child.
type beginning []byte

func (b *beginning) Write(p []byte) (int, error) {
	*b = append(*b, p[:min(len(p), mostPrinted-len(*b))]...)
	return len(p), nil
}

const mostPrinted = 1 << 20

// TestLargeFiles checks that a file of another user that is too large is refused, with its name and
// the limit, before it fills the memory.
func TestLargeFiles(t *testing.T) {
	const queue = "qname q\nhostlist n1\nslots 1\n"
	sparse := func(head string, size int64) func(path string) error { // and then bytes of zero, without an end of line
		return func(path string) error {
			if err := os.WriteFile(path, []byte(head), 0o644); err != nil {
				return err
			}
			return os.Truncate(path, size)
		}
	}
	holes := func(head string) func(path string) error { return sparse(head, large) }
	words := func(head, word string, size int) func(path string) error {
		return func(path string) error {
			f, err := os.Create(path)
			if err != nil {
				return err
			}
			_, err = f.WriteString(head)
			block := bytes.Repeat([]byte(word), 1<<16/len(word))
			for n := 0; n < size && err == nil; n += len(block) {
				_, err = f.Write(block[:min(len(block), (size-n)/len(word)*len(word))])
			}
			return errors.Join(err, f.Close())
		}
	}
	pipe := func(path string) error { return unix.Mkfifo(path, 0o644) }
	for what, c := range map[string]struct {
		file   string // below the directory of the test, which has conf/queues/q and jobs
		make   func(path string) error
		args   string
		status int
		want   string
	}{
		"a file of jobs":                      {"big", holes("qsub -b y true\nqsub -N "), "simulate --conf conf --jobs big", 1, `big:2: the line has more than 1 MiB`},
		"a file of jobs, of one long command": {"big", words("qsub -b y true ", "a \\\n", 64<<20), "simulate --conf conf --jobs big", 1, `big:1: the line has more than 1 MiB`},
		"a file of wrong jobs":                {"big", words("", "x\n", 32<<20), "simulate --conf conf --jobs big", 1, `big:1: "x": expected`},
		"a script of a job":                   {"big", holes("#!/bin/sh\n"), "simulate --conf conf --jobs one", 1, `big".* has more than 32 MiB`},
		"a pipe as the script of a job":       {"big", pipe, "simulate --conf conf --jobs one", 1, `big".*it is a pipe, expected a regular file`},
		"a trace":                             {"big", holes("; Version: 2\n"), "simulate --conf conf --trace big", 1, `big:2: the line has more than 1048576 bytes`},
		"a trace of comments":                 {"big", words("", "; Note: a comment\n", 64<<20), "simulate --conf conf --trace big", 1, `big:\d+: the comments in front of the records have more than 256 KiB`},
		"values of load":                      {"big", holes("n1:load_avg:0.5\n"), "simulate --conf conf --jobs jobs --load big", 1, `big:2: the line has more than`},
		"a configuration":                     {"conf/queues/big", holes(queue), "config check conf", 1, `queues/big: cannot read: it has more than 8 MiB`},
		"a configuration of many values":      {"conf/queues/big", words("qname big\nhostlist ", "a ", 8<<20-100), "config check conf", 0, ``},
		"a configuration of many lines":       {"conf/queues/big", words("", "x\n", 8<<20-100), "config check conf", 1, `queues/big: cannot read: it has more than 500000 lines`},
		"a configuration of one broken line":  {"conf/queues/big", words("hostlist ", "a\\\n", 1<<20), "config check conf", 1, `queues/big: qname: is missing`},
		"a value of wrong items":              {"conf/hosts/n1", words("hostname n1\ncomplex_values ", "a,", 7<<20), "config check conf", 1, `there are 100 errors`},
		"a quota for wrong names":             {"conf/rqs", words("{\nname q\nenabled TRUE\nlimit users {", "!,", 7<<20), "config check conf", 1, `rqs:4: `},
		"quotas of one name":                  {"conf/rqs", words("{\nname q\nenabled TRUE\n", "limit name r to slots=1\n", 7<<20), "config check conf", 1, `the file ends in a set`},
		"a parameter of unknown ones":         {"conf/conf/global", words("execd_params ", "x,", 7<<20), "config check conf", 0, `unknown parameter`},
		"a list of managers":                  {"conf/managers", words("", "a b\n", 1<<20), "config check conf", 1, `managers:1: `},
		"a pipe in a configuration":           {"conf/sched_conf", pipe, "config check conf", 1, `sched_conf: is not a regular file`},
		"a configuration for a simulation":    {"conf/queues/big", holes(queue), "simulate --conf conf --jobs jobs", 1, `queues/big: cannot read: it has more than 8 MiB`},
		"a configuration to import":           {"conf/queues/big", holes(queue), "import --dry-run --from conf", 3, `conf/queues/big.*it has more than 8 MiB`},
		"a file to import":                    {"big", holes(queue), "import --dry-run --from big", 3, `big.* has more than 8 MiB`},
		"many values to import":               {"conf/queues/big", words("qname big\nhostlist ", "a ", 8<<20-100), "import --dry-run --from conf", 0, ``},
		"the words of a file that is no part": {"conf/host_aliases", holes("a b\n"), "import --dry-run --from conf", 1, `host_aliases: .*has more than`},
		"a pipe to import":                    {"conf/queues/big", pipe, "import --dry-run --from conf", 1, `conf/queues/big: not imported: it is not a regular file`},
		"a recorded case":                     {"case/jobs.txt", holes("root: qstat\n"), "simulate --case case --out out", 1, `jobs.txt: it has more than 32 MiB`},
		"a script in a recorded case":         {"case/job.sh", holes("#!/bin/sh\n"), "simulate --case case --out out", 0, ``},
		"the configuration of a case":         {"case/input/queues/big", holes(queue), "simulate --case case --out out", 1, `queues/big: it has more than 8 MiB`},
		"what a case has printed":             {"case/output/final/qstat.txt", holes(""), "simulate --case case --out out", 0, ``},
		"an accounting file":                  {"big", sparse("all.q:n1:", 256<<20), "qacct -f big", 1, `ignoring invalid entry in line 1 of big: the line has more than 4 MiB`},
		"an accounting file as JSON":          {"big", sparse(`{"job_number":1,"x":"`, 256<<20), "qacct -f big -j 1", 1, `ignoring invalid entry in line 1 of big: the line has more than 4 MiB`},
		"deep records":                        {"big", words(`{"job_number":1,"x":`, "[", 4<<20-100), "qacct -f big -j 1", 1, ``},
		"wide records":                        {"big", words(`{"job_number":1,"x":[`, "1,", 4<<20-100), "qacct -f big -j 1", 1, ``},
		"a job script":                        {"big", holes("#!/bin/sh\n"), "run big", 125, `"big": cannot read the script: .*it has more than 32 MiB`},
		"a file of options":                   {"big", holes("-N x\n"), "run -@ big -b y true", 125, `has more than`},
		"default options":                     {".sge_request", holes("-N x\n"), "run -b y true", 125, `cannot read the default options: .*has more than`},
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range map[string]string{
				"conf/queues/q": queue, "jobs": "qsub -b y true\n", "one": "qsub " + dir + "/big\n",
				"case/jobs.txt": "root: qsub job.sh\n# capture output/final\n", "case/input/queues/q": queue, "case/job.sh": "",
			} {
				path := filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			path := filepath.Join(dir, c.file)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := c.make(path); err != nil {
				t.Fatal(err)
			}
			r, used := measured(t, nil, dir, strings.Fields(c.args)...)
			if r.status != c.status || !matches(c.want, r.stdout+r.stderr) {
				t.Errorf("exit status %d, expected %d and %s: %.1000s%.1000s", r.status, c.status, c.want, r.stdout, r.stderr)
			}
			if used > mostMemory && !raceEnabled { // the race detector needs several times as much
				t.Errorf("it took %d MiB, at most %d are allowed", used>>20, mostMemory>>20)
			}
			if len(r.stdout) == mostPrinted || len(r.stderr) == mostPrinted {
				t.Errorf("a lot was printed: %.300s%.300s", r.stdout, r.stderr)
			}
		})
	}
}

// TestLargeInput checks that a script from standard input has the same size limit as a file.
func TestLargeInput(t *testing.T) {
	for _, args := range [][]string{{"run"}, {"qsub", "-terse"}, {"simulate", "--conf", "conf", "--jobs", "-"}} {
		zero, err := os.Open("/dev/zero")
		if err != nil {
			t.Fatal(err)
		}
		defer zero.Close()
		dir := t.TempDir()
		if err := os.MkdirAll(dir+"/conf", 0o755); err != nil {
			t.Fatal(err)
		}
		r, used := measured(t, zero, dir, args...)
		if r.status == 0 || !strings.Contains(r.stderr, "has more than") || used > mostMemory {
			t.Errorf("%q: exit status %d, %d MiB, %.1000s", args, r.status, used>>20, r.stderr)
		}
	}
}

// TestManyRecords checks that 128 MiB of records, with bad lines between them, need no more memory
// than a few records.
func TestManyRecords(t *testing.T) {
	const line = "all.q:n1:users:alice:sleep:%d:sge:0:1700000000:1700000001:1700000061:0:0:60:0.01:0.02:2048.0:0:0:0:0:500:0:0:0.0:16:0:0:0:20:3:NONE:defaultdepartment:NONE:1:0:0.03:0.0001:0.0002:-U x:0.0:NONE:1048576.0:0:0\n"
	const size = 128 << 20
	r, w := io.Pipe()
	go func() {
		var err error
		for n, block := 0, 1; n < size && err == nil; block++ {
			var b []byte
			for i := range 1000 {
				b = fmt.Appendf(b, line, 1+(block*1000+i)%1000000)
			}
			b = append(b, bytes.Repeat([]byte{'x'}, block*997%(6<<20))...) // longer than a line can be, at times
			b = append(b, '\n')
			n += len(b)
			_, err = w.Write(b)
		}
		w.CloseWithError(err)
	}()
	got, used := measured(t, r, t.TempDir(), "qacct", "-f", "-", "-o", "alice")
	if got.status != 0 || !strings.Contains(got.stdout, "\nalice ") || !strings.Contains(got.stderr, "ignoring invalid entry in line 1001\n") {
		t.Errorf("exit status %d, %.1000s%.1000s", got.status, got.stdout, got.stderr)
	}
	if used > 64<<20 && !raceEnabled { // the detector takes more than that
		t.Errorf("it took %d MiB", used>>20)
	}
}
