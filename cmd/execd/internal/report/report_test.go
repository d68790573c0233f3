package report

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/accounting"
	"github.com/execd-project/execd/job"
)

// begin is the time of the first submission of file.
var begin = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// file returns an accounting file with runs of two users, a task of a parallel job, a job that was
// never started, and a hostile name.
func file() []byte {
	var text []byte
	add := func(r accounting.Record, submitted, pending, wallclock time.Duration) {
		r.Submitted = begin.Add(submitted)
		if wallclock > 0 {
			r.Start = r.Submitted.Add(pending)
			r.End = r.Start.Add(wallclock)
			r.Usage.Wallclock = wallclock.Seconds()
		}
		text = accounting.AppendClassic(text, &r)
	}
	add(accounting.Record{Owner: "alice", Queue: "all.q", Job: 1, Slots: 4, Category: "-l h_vmem=1G", Usage: job.Usage{CPU: 7200, MaxVmem: 1 << 30}}, 0, time.Minute, time.Hour)
	add(accounting.Record{Owner: "alice", Queue: "all.q", Job: 1, Slots: 4, PETask: "1.n2", Usage: job.Usage{CPU: 3600}}, 0, time.Minute, time.Hour)
	add(accounting.Record{Owner: "alice", Queue: "long.q", Project: "p", Job: 2, Slots: 1, ExitStatus: 1, Usage: job.Usage{CPU: 3600}}, 24*time.Hour, 3*time.Minute, time.Hour)
	add(accounting.Record{Owner: "bob", Queue: "all.q", Project: "p", Job: 3, Slots: 1, Failed: job.FailedBeforeJob}, 48*time.Hour, 0, 0)
	add(accounting.Record{Owner: "mall\u202eory", Queue: "all.q", Job: 4, Slots: 1}, 72*time.Hour, 0, time.Minute)
	return append(text, "no record\n"...)
}

// report runs the command and returns its output and exit status.
func report(t *testing.T, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	var out, errs bytes.Buffer
	c := Command{Args: append(args, "--file", "-"), Stdin: bytes.NewReader(file()), Stdout: &out, Stderr: &errs, Now: time.Date(2026, 11, 23, 13, 0, 0, 0, time.UTC)}
	status, err := c.Run()
	if err != nil {
		errs.WriteString(err.Error())
	}
	return out.String(), errs.String(), status
}

func TestReport(t *testing.T) {
	const want = `Runs that ended from 2026-10-24 13:00 to 2026-11-23 13:00

USER      RUNS  FAILED  SLOT HOURS  CPU HOURS  CPU USED  MEMORY USED  PENDING
alice        2       1         5.0        4.0      80 %         25 %  0:02:00
mall_ory     1       0         0.0        0.0       0 %            -  0:00:00
bob          1       1         0.0        0.0         -            -        -
total        4       2         5.0        4.0      80 %         25 %  0:01:20

PROJECT  RUNS  FAILED  SLOT HOURS  CPU HOURS  CPU USED  MEMORY USED  PENDING
NONE        2       0         4.0        3.0      75 %         25 %  0:00:30
p           2       2         1.0        1.0     100 %            -  0:03:00
total       4       2         5.0        4.0      80 %         25 %  0:01:20

QUEUE   RUNS  FAILED  SLOT HOURS  CPU HOURS  CPU USED  MEMORY USED  PENDING
all.q      3       1         4.0        3.0      75 %         25 %  0:00:30
long.q     1       1         1.0        1.0     100 %            -  0:03:00
total      4       2         5.0        4.0      80 %         25 %  0:01:20
`
	got, stderr, status := report(t)
	if diff := cmp.Diff(want, got); status != 0 || diff != "" {
		t.Errorf("status %d\n%s\n%s", status, diff, got)
	}
	if want := "execd report: the standard input: ignored lines that are not records: 1, the first is line 6\n"; stderr != want {
		t.Errorf("standard error %q, expected %q", stderr, want)
	}
	got, _, _ = report(t, "--by", "user", "--from=2026-11-21T12:00", "--to=2026-11-22", "--json")
	const line = `{"from":"2026-11-21T12:00:00Z","to":"2026-11-22T00:00:00Z","total":{"runs":1,"failed":1,"slotSeconds":3600,"cpu":3600,"cpuPart":1,"memoryPart":null,"pending":180},` +
		`"users":[{"name":"alice","runs":1,"failed":1,"slotSeconds":3600,"cpu":3600,"cpuPart":1,"memoryPart":null,"pending":180}]}` + "\n"
	if diff := cmp.Diff(line, got); diff != "" {
		t.Error(diff)
	}
	if got, _, _ := report(t, "--from", "2027-01-01", "--to", "2027-01-02"); got != "Runs that ended from 2027-01-01 00:00 to 2027-01-02 00:00\nThere are no records of jobs.\n" {
		t.Errorf("a time without records: %q", got)
	}
	for _, args := range [][]string{{"--by", "host"}, {"--from", "yesterday"}, {"--from", "2026-11-24"}, {"--all", "--to", "2026-11-24"}, {"x"}} {
		if _, stderr, status := report(t, args...); status != 2 || stderr == "" {
			t.Errorf("%q: status %d, %q", args, status, stderr)
		}
	}
}

// TestHostileJSON reads a name that contains CSI (U+009B), which orders to terminals begin with, DEL and U+202E,
// which reverses text.
func TestHostileJSON(t *testing.T) {
	var out bytes.Buffer
	in := accounting.AppendJSON(nil, &accounting.Record{Owner: "mall\u202eory\u009b2J\x7f", Queue: "all.q", Job: 1, Slots: 1})
	c := Command{Args: []string{"--all", "--json", "--by", "user", "--file", "-"}, Stdin: bytes.NewReader(in), Stdout: &out, Stderr: t.Output()}
	if status, err := c.Run(); status != ExitGood || err != nil {
		t.Fatal(status, err)
	}
	if got := out.String(); !strings.Contains(got, `"name":"mall\u202eory\u009b2J\u007f"`) || !strings.HasSuffix(got, "}\n") || !json.Valid(out.Bytes()) {
		t.Errorf("%q", got)
	}
}

// TestManyNames adds records of more users than the command keeps apart.
func TestManyNames(t *testing.T) {
	s, other := newSums(&request{by: Groups}), newSums(&request{by: Groups})
	for i := range mostNames + 10 {
		s.add(&accounting.Record{Owner: string(rune('a'+i%26)) + time.Duration(i).String()})
		other.add(&accounting.Record{Owner: time.Duration(i).String() + "x"})
	}
	s.merge(other)
	if n := len(s.by[0]); n != mostNames+1 || s.by[0][others].runs != mostNames+20 || s.total.runs != 2*mostNames+20 {
		t.Errorf("%d names, %d runs of others, %d runs", n, s.by[0][others].runs, s.total.runs)
	}
}
