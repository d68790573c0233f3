package accounting

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/job"
)

// recorded returns lines written by Grid Engine.
func recorded(t testing.TB) []string {
	t.Helper()
	text, err := os.ReadFile("testdata/gridengine.txt")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		if len(line) > 2 && line[0] != '#' {
			lines = append(lines, line)
		}
	}
	if len(lines) < 20 {
		t.Fatalf("only %d lines are recorded", len(lines))
	}
	return lines
}

// TestClassicLines reads and prints lines of Grid Engine.
func TestClassicLines(t *testing.T) {
	for _, line := range recorded(t) {
		r, err := ParseClassic(line)
		if err != nil {
			t.Error(err)
			continue
		}
		if diff := cmp.Diff(line, string(AppendClassic(nil, r))); diff != "" {
			t.Error(diff)
		}
		again, err := ParseJSON(AppendJSON(nil, r))
		if err != nil {
			t.Error(err)
		} else if diff := cmp.Diff(r, again); diff != "" {
			t.Errorf("after JSON: %s", diff)
		}
	}
}

var full = Record{
	Queue: "all.q", Host: "n1", Group: "users", Owner: "alice", JobName: "name", Job: 17, Task: 3, PETask: "1.n1", Account: "sge",
	Priority: -5, Submitted: at(1000, 250), Start: at(1010, 500), End: at(1012, 0), Failed: job.FailedLimit, ExitStatus: 137,
	Usage: job.Usage{
		Wallclock: 1.5, UserTime: 0.25, SystemTime: 0.125, MaxRSS: 3 * 1024, IxRSS: 1, IdRSS: 2, IsRSS: 3, MinorFaults: 4, MajorFaults: 5,
		Swaps: 6, BlocksIn: 7, BlocksOut: 8, MessagesSent: 9, MessagesRecvd: 10, Signals: 11, VoluntaryCS: 12, InvoluntaryCS: 13,
		CPU: 0.5, Mem: 0.75, IO: 0.0625, IOOps: 15, IOWait: 0.03125, MaxVmem: 5 << 20, PeakRSS: 4 << 20,
		GPU: job.GPUUsage{Count: 2, Seconds: 3, Measured: 2, Busy: 0.5, MaxMemory: 6 << 20},
	},
	IsmRSS: 14, Project: "p", Department: "d", PE: "smp", Slots: 4, Category: "-l a=b:c", Reservation: 2, ReservationSubmitted: at(900, 0),
	CommandLine: "qsub x", DeletedBy: "root@n2", FailedText: "enforced a limit", Reason: "h_vmem was exceeded", Signal: 9, CoreDumped: true,
	Limit: &job.LimitExceeded{Name: "h_vmem", Value: 4 << 20, Measured: 5 << 20}, Stdout: "/home/alice", Stderr: "/home/alice/e",
}

func at(seconds, milliseconds int64) time.Time {
	return time.UnixMilli(seconds*1000 + milliseconds).UTC()
}

// TestRecordsOfOpenClusterScheduler reads lines that masters of 9.1.4 and 9.0.13 have written.
func TestRecordsOfOpenClusterScheduler(t *testing.T) {
	text, err := os.ReadFile("testdata/ocs.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(text)) {
		r, err := ParseJSON([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%d.%d %q %q by %q %d/%d %s maxrss %d ioops %d wallclock %.1f", r.Job, r.Task, r.PE, r.PETask, r.DeletedBy, r.Failed, r.ExitStatus,
			r.Start.Format(time.DateTime), max(r.Usage.PeakRSS, r.Usage.MaxRSS), r.Usage.IOOps, r.Usage.Wallclock))
		again, err := ParseJSON(AppendJSON(nil, r))
		if err != nil {
			t.Error(err)
		} else if diff := cmp.Diff(r, again); diff != "" {
			t.Errorf("after JSON: %s", diff)
		}
	}
	want := []string{
		`5.2 "" "" by "" 0/3 2026-11-23 23:46:43 maxrss 1503232 ioops 9 wallclock 0.0`,
		`1.0 "daemon" "1.cellhost" by "" 0/0 2026-11-23 23:46:43 maxrss 27684864 ioops 63 wallclock 0.2`,
		`1.0 "daemon" "" by "" 0/0 2026-11-23 23:46:43 maxrss 6746112 ioops 229 wallclock 0.3`,
		`6.0 "" "" by "alice@cellhost" 100/137 2026-11-23 23:46:43 maxrss 1490944 ioops 17 wallclock 0.2`,
		`2.0 "" "" by "execd@cellhost" 100/137 2026-11-23 23:46:43 maxrss 3088384 ioops 17 wallclock 2.0`,
		`9.0 "" "" by "" 100/137 2026-11-23 23:46:28 maxrss 1658880 ioops 0 wallclock 0.1`,
		`4.0 "daemon" "1.cellhost" by "" 0/0 2026-11-23 23:46:28 maxrss 27553792 ioops 0 wallclock 0.3`,
		`4.0 "daemon" "" by "" 0/0 2026-11-23 23:46:28 maxrss 5115904 ioops 0 wallclock 0.4`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, line := range []string{
		`{"time":1,"type":"new_job","job_number":3}`, `{"time":1,"type":"host","hostname":"n1"}`,
	} {
		if _, err := ParseJSON([]byte(line)); !errors.Is(err, ErrNoRecord) {
			t.Errorf("%s: %v", line, err)
		}
	}
	if r, err := ParseJSON([]byte(`{"time":1,"type":"acct","job_number":3}`)); err != nil || r.Job != 3 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestFullRecord formats and parses a record with a value in every field.
func TestFullRecord(t *testing.T) {
	const classic = "all.q:n1:users:alice:name:17:sge:-5:1000:1010:1012:37:137:2:0.250000:0.125000:3.000000:1:14:2:3:4:5:6:7.000000:8:9:10:11:12:13:" +
		"p:d:smp:4:3:0.500000:0.750000:0.062500:-l a=b:c:0.031250:1.n1:5242880.000000:2:900\n"
	if diff := cmp.Diff(classic, string(AppendClassic(nil, &full))); diff != "" {
		t.Error(diff)
	}
	const line = `{"job_number":17,"task_number":3,"start_time":1010500000,"end_time":1012000000,"owner":"alice","group":"users","account":"sge",` +
		`"qname":"all.q","hostname":"n1","department":"d","slots":4,"job_name":"name","priority":-5,"submission_time":1000250000,"submit_cmd_line":"qsub x",` +
		`"category":"-l a=b:c","failed":37,"exit_status":137,"usage":{"rusage":{"ru_wallclock":2,"ru_utime":0.25,"ru_stime":0.125,"ru_maxrss":3,"ru_ixrss":1,` +
		`"ru_ismrss":14,"ru_idrss":2,"ru_isrss":3,"ru_minflt":4,"ru_majflt":5,"ru_nswap":6,"ru_inblock":7,"ru_oublock":8,"ru_msgsnd":9,"ru_msgrcv":10,` +
		`"ru_nsignals":11,"ru_nvcsw":12,"ru_nivcsw":13},"usage":{"wallclock":1.5,"cpu":0.5,"mem":0.75,"io":0.0625,"ioops":15,"iow":0.03125,"maxvmem":5242880,"maxrss":4194304,"gpus":2,"gpu_seconds":3,"gpu_measured":2,"gpu_busy":0.5,"gpu_maxmem":6291456}},` +
		`"project":"p","granted_pe":"smp","pe_taskid":"1.n1","arid":2,"ar_submission_time":900000000,"deleted_by":"root@n2","failed_text":"enforced a limit","reason":"h_vmem was exceeded",` +
		`"signal":9,"core_dumped":true,"limit":{"name":"h_vmem","value":4194304,"measured":5242880},"stdout_path":"/home/alice","stderr_path":"/home/alice/e"}` + "\n"
	if diff := cmp.Diff(line, string(AppendJSON(nil, &full))); diff != "" {
		t.Error(diff)
	}
	again, err := ParseJSON([]byte(line))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&full, again); diff != "" {
		t.Error(diff)
	}
}

// TestForeignJSON reads a line of Open Cluster Scheduler, and one with fields of a future version.
func TestForeignJSON(t *testing.T) {
	r, err := ParseJSON([]byte(`{"job_number":4,"task_number":0,"start_time":1725898198580794,"end_time":1725898298874079,"owner":"u","qname":"all.q",` +
		`"usage":{"rusage":{"ru_wallclock":100,"ru_maxrss":17428},"usage":{"wallclock":100.90874,"maxvmem":222384128.0,"maxrss":950272.0},"new":1},"other":{"a":[]}}`))
	if err != nil {
		t.Fatal(err)
	}
	if r.Job != 4 || r.Start.UnixMicro() != 1725898198580794 || r.Usage.MaxVmem != 222384128 || r.Usage.MaxRSS != 17428<<10 || r.Usage.PeakRSS != 950272 || r.Usage.Wallclock != 100.90874 {
		t.Errorf("got %+v", r)
	}
	if r, err := ParseJSON([]byte(`{"usage":{"rusage":{"ru_wallclock":100,"ru_maxrss":2}}}`)); err != nil || r.Usage.MaxRSS != 2048 || r.Usage.Wallclock != 100 {
		t.Errorf("got %+v, %v", r, err)
	}
	for _, bad := range []string{"", "{", `{"job_number":"x"}`, "[]"} {
		if _, err := ParseJSON([]byte(bad)); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
}

// TestClassicLineOfNamesWithSpecialCharacters uses names with characters that a classic line cannot
// contain. Grid Engine refuses such names at submission.
func TestClassicLineOfNamesWithSpecialCharacters(t *testing.T) {
	r := full
	r.JobName, r.Owner, r.Department, r.Category = "a:b\nc", "x\x00y", "d\te", "-l a=b:c\nd"
	r.Usage.CPU, r.Usage.Mem, r.Usage.Wallclock = math.NaN(), math.Inf(1), math.Inf(-1)
	line := AppendClassic(nil, &r)
	if bytes.Count(line, []byte("\n")) != 1 {
		t.Errorf("several lines: %q", line)
	}
	again, err := ParseClassic(string(line))
	if err != nil {
		t.Fatal(err)
	}
	if again.JobName != "a_b_c" || again.Owner != "x_y" || again.Department != "d_e" || again.Category != "-l a=b:c_d" || again.Usage.CPU != 0 || again.Usage.Mem != 0 {
		t.Errorf("got %+v", again)
	}
	if line := AppendJSON(nil, &r); bytes.Count(line, []byte("\n")) != 1 || len(line) < 100 {
		t.Errorf("got %q", line)
	}
}

func TestBadClassicLines(t *testing.T) {
	good := string(AppendClassic(nil, &full))
	for name, c := range map[string]struct{ line, want string }{
		"few fields":   {"all.q:h:g", `it has 3 fields, expected 45`},
		"no number":    {strings.Replace(good, ":17:", ":x17:", 1), `field 6, job_number: "x17" is not a whole number`},
		"no time":      {strings.Replace(good, ":1010:", "::", 1), `field 10, start_time: "" is not a time, expected seconds since 1970`},
		"no decimal":   {strings.Replace(good, ":0.500000:", ":inf:", 1), `field 37, cpu: "inf" is not a number`},
		"a large size": {strings.Replace(good, ":5242880.000000:", ":1e30:", 1), `field 43, maxvmem: "1e30" is too large`},
	} {
		if _, err := ParseClassic(c.line); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	for _, line := range []string{"", "\n", "x", "# Version: 8.1.9\n"} {
		if _, err := ParseClassic(line); !errors.Is(err, ErrNoRecord) {
			t.Errorf("%q: %v", line, err)
		}
	}
}

// TestFromOutcome makes records of a job that ran, a job that could not be started, and a slave
// task.
func TestFromOutcome(t *testing.T) {
	d := &job.Description{
		ID: job.ID{Job: 17, Task: 3, PETask: "1.n1"}, Name: "name", Owner: "alice", Account: "sge", Project: "p", SubmissionTime: full.Submitted,
		Queue: "all.q", Host: "n1", Nice: -5, HostSlots: 2, PE: &job.ParallelEnvironment{Name: "smp", Slots: 4},
	}
	o := &job.Outcome{
		Failed: full.Failed, FailedText: full.FailedText, Ran: true, ExitStatus: 137, Signal: 9, CoreDumped: true, Reason: full.Reason, Limit: full.Limit,
		Start: full.Start, End: full.End, Usage: full.Usage,
	}
	f := Facts{Group: "users", Department: "d", Category: full.Category, Reservation: 2, ReservationSubmitted: full.ReservationSubmitted, CommandLine: "qsub x"}
	want := full
	want.IsmRSS, want.Stdout, want.Stderr, want.DeletedBy = 0, "", "", "" // the slave task has no files of its own
	if diff := cmp.Diff(&want, FromOutcome(d, o, f)); diff != "" {
		t.Error(diff)
	}
	o.Ran = false
	got := FromOutcome(d, o, f)
	if !got.Start.IsZero() || !got.End.IsZero() || got.ExitStatus != 0 || got.Usage != (job.Usage{}) || got.Signal != 0 {
		t.Errorf("a job that was not started: %+v", got)
	}
	if text := string(AppendClassic(nil, got)); !strings.Contains(text, ":1000:0:0:37:0:0:0.000000:") {
		t.Errorf("its line is %s", text)
	}
	d.PE, d.HostSlots = nil, 1
	if got := FromOutcome(d, o, Facts{PE: "mpi", Slots: 8}); got.PE != "mpi" || got.Slots != 8 {
		t.Errorf("a slave has %d slots of %q", got.Slots, got.PE)
	}
	d.ID.PETask, d.Cwd, d.Streams[2].Path = "", "/work", "/tmp/e"
	if got := FromOutcome(d, o, Facts{}); got.PE != "" || got.Slots != 1 || got.Stdout != "/work" || got.Stderr != "/tmp/e" {
		t.Errorf("a serial job has %d slots of %q, and the output files %q and %q", got.Slots, got.PE, got.Stdout, got.Stderr)
	}
	d.MergeError = true
	if got := FromOutcome(d, o, Facts{}); got.Stdout != "/work" || got.Stderr != "" {
		t.Errorf("a job with -j y has the output files %q and %q", got.Stdout, got.Stderr)
	}
	d.Terminal = &job.Terminal{}
	if got := FromOutcome(d, o, Facts{}); got.Stdout != "" {
		t.Errorf("an interactive job has the output file %q", got.Stdout)
	}
}

// FuzzClassic checks that a parsed line, once printed, parses to the same record.
func FuzzClassic(f *testing.F) {
	for _, line := range recorded(f) {
		f.Add(line)
	}
	f.Add(string(AppendClassic(nil, &full)))
	f.Fuzz(func(t *testing.T, line string) {
		r, err := ParseClassic(line)
		if err != nil {
			return
		}
		printed := AppendClassic(nil, r)
		if bytes.Count(printed, []byte("\n")) != 1 {
			t.Fatalf("%q is no line", printed)
		}
		again, err := ParseClassic(string(printed))
		if err != nil {
			t.Fatalf("%q: %v", printed, err)
		}
		if twice := AppendClassic(nil, again); !bytes.Equal(printed, twice) {
			t.Fatalf("%q\nbecomes\n%q", printed, twice)
		}
	})
}

func FuzzJSON(f *testing.F) {
	f.Add(AppendJSON(nil, &full))
	for _, line := range recorded(f) {
		if r, err := ParseClassic(line); err == nil {
			f.Add(AppendJSON(nil, r))
		}
	}
	if text, err := os.ReadFile("testdata/ocs.jsonl"); err == nil {
		for line := range bytes.Lines(text) {
			f.Add(line)
		}
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		r, err := ParseJSON(line)
		if err != nil {
			return
		}
		printed := AppendJSON(nil, r)
		again, err := ParseJSON(printed)
		if err != nil {
			t.Fatalf("%q: %v", printed, err)
		}
		if twice := AppendJSON(nil, again); !bytes.Equal(printed, twice) {
			t.Fatalf("%q\nbecomes\n%q", printed, twice)
		}
		AppendClassic(nil, r)
	})
}
