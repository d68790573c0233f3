package jobdir

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/quantity"
)

// description generates any description that the config file can represent. It excludes words that
// mean "no value", and the two paths that have a default are never empty.
func description() *rapid.Generator[*job.Description] {
	line := rapid.StringMatching(`[^\n\x00]*`)
	filled := rapid.StringMatching(`[^\n\x00]+`)
	named := rapid.StringMatching(`x[^\n\x00]*`)
	word := rapid.StringMatching(`|[^nNuU"\n\x00dD][^\n\x00]*`)
	nat := rapid.IntRange(0, mostNumber)
	id := rapid.IntRange(0, mostID)
	duration := rapid.Custom(func(t *rapid.T) time.Duration {
		d := time.Duration(rapid.Int64Range(0, 1<<31).Draw(t, "s")) * time.Second
		if rapid.Bool().Draw(t, "fraction") {
			d += time.Duration(rapid.Int64Range(0, 999999999).Draw(t, "ns"))
		}
		return d
	})
	return rapid.Custom(func(t *rapid.T) *job.Description {
		yes := func(what string) bool { return rapid.Bool().Draw(t, what) }
		d := &job.Description{
			ID:    job.ID{Job: rapid.IntRange(1, mostNumber).Draw(t, "job"), Task: nat.Draw(t, "task")},
			Name:  line.Draw(t, "name"),
			Owner: filled.Draw(t, "owner"), Account: line.Draw(t, "account"), Project: word.Draw(t, "project"),
			Restarted: job.Restart(rapid.IntRange(0, 2).Draw(t, "restarted")),
			Queue:     line.Draw(t, "queue"), Host: line.Draw(t, "host"), Processors: word.Draw(t, "processors"),
			QueueTmpdir: line.Draw(t, "queue tmpdir"), Tmpdir: line.Draw(t, "tmpdir"),
			Command: job.Command{
				File:   line.Draw(t, "file"),
				Args:   rapid.SliceOfN(rapid.StringMatching(`[^\x00]*`), 0, 5).Draw(t, "args"),
				Binary: yes("binary"), NoShell: yes("noshell"), Shell: line.Draw(t, "shell"),
				StartMode:  rapid.SampledFrom([]job.ShellStartMode{job.PosixCompliant, job.UnixBehavior, job.ScriptFromStdin, job.RawExec}).Draw(t, "mode"),
				LoginShell: yes("login"),
			},
			Cwd: line.Draw(t, "cwd"), MergeError: yes("merge"),
			Prolog: word.Draw(t, "prolog"), Epilog: word.Draw(t, "epilog"), StarterMethod: word.Draw(t, "starter"),
			SuspendMethod: word.Draw(t, "suspend"), ResumeMethod: word.Draw(t, "resume"), TerminateMethod: word.Draw(t, "terminate"),
			ScriptTimeout: duration.Draw(t, "timeout"), HostSlots: nat.Draw(t, "slots"),
			Nice: rapid.IntRange(-20, 20).Draw(t, "nice"), Binding: word.Draw(t, "binding"), BindingCPUs: line.Draw(t, "processors of the cores"), Notify: duration.Draw(t, "notify"),
			LimitGrace: duration.Draw(t, "grace"), SoftRTWarns: yes("warns"),
			NotifyKill: job.Notification{Kind: job.NotificationKind(rapid.IntRange(0, 2).Draw(t, "kind")), Signal: word.Draw(t, "signal")},
			NotifySusp: job.Notification{Kind: job.NotificationKind(rapid.IntRange(0, 2).Draw(t, "kind")), Signal: word.Draw(t, "signal")},
			MailList:   word.Draw(t, "mail"), MailOptions: job.MailOptions(nat.Draw(t, "m")),
			AddGroupID: id.Draw(t, "gid"), SkipGroupLimit: yes("skip"), MinUID: id.Draw(t, "minuid"), MinGID: id.Draw(t, "mingid"),
			QsubGID: id.Draw(t, "qsubgid"), AdminUser: word.Draw(t, "admin"),
			InheritEnv: yes("inherit"), ForbidReschedule: yes("99"), ForbidAppError: yes("100"), AddGroupKill: yes("kill"),
			PTY: job.Tristate(rapid.IntRange(0, 2).Draw(t, "pty")),
		}
		if yes("trusted") {
			d.Trusted = rapid.SliceOfN(rapid.StringMatching(`[A-Za-z_][A-Za-z_0-9]*`), 1, 5).Draw(t, "trusted")
		}
		if yes("terminal") {
			lines := rapid.IntRange(0, 65535)
			d.Terminal = &job.Terminal{Rows: lines.Draw(t, "rows"), Cols: lines.Draw(t, "cols"), Login: yes("login")}
		}
		if s := rapid.Int64Range(0, 1<<32).Draw(t, "submitted"); s != 0 {
			d.SubmissionTime = time.Unix(s, rapid.Int64Range(0, 999999999).Draw(t, "ns"))
		}
		if yes("petask") {
			d.ID.PETask = filled.Draw(t, "petask")
		}
		for i := range d.Streams {
			d.Streams[i] = job.Stream{
				Path: filled.Draw(t, "path"), Inherit: yes("inherit"),
				Staging: job.Staging{Host: word.Draw(t, "host"), Path: line.Draw(t, "path"), TmpPath: line.Draw(t, "tmp"), Enabled: yes("staging")},
			}
		}
		value := rapid.OneOf(rapid.Just(quantity.Infinity), rapid.Uint64Range(0, 1<<62-1))
		if yes("procedure limits") {
			l := job.Unlimited()
			for r := job.RT + 1; r < job.NumResources; r++ {
				if yes("limited") {
					l[r] = job.Limit{Soft: value.Draw(t, "soft"), Hard: value.Draw(t, "hard")}
				}
			}
			d.ProcedureLimits = &l
		}
		for r := range d.Limits {
			l := job.Limit{Soft: value.Draw(t, "soft"), Hard: value.Draw(t, "hard"), SoftPerJob: yes("perjob"), HardPerJob: yes("perjob")}
			if canBeUnset(job.Resource(r)) && yes("unset") {
				l.Soft, l.Hard, l.Unset = quantity.Infinity, quantity.Infinity, true
			}
			d.Limits[r] = l
		}
		if yes("pe") {
			d.PE = &job.ParallelEnvironment{
				Name: named.Draw(t, "pe"), Slots: nat.Draw(t, "slots"), HostFile: line.Draw(t, "hosts"),
				Start: word.Draw(t, "start"), Stop: word.Draw(t, "stop"), Qsort: word.Draw(t, "qsort"),
				StdoutPath: line.Draw(t, "out"), StderrPath: line.Draw(t, "err"),
			}
		}
		if yes("ckpt") {
			d.Ckpt = &job.Checkpoint{
				Name: line.Draw(t, "ckpt"), Interface: line.Draw(t, "interface"), Command: word.Draw(t, "command"),
				MigrationCommand: word.Draw(t, "migr"), RestartCommand: word.Draw(t, "rest"), CleanCommand: word.Draw(t, "clean"),
				Dir: word.Draw(t, "dir"), Signal: word.Draw(t, "signal"), Interval: duration.Draw(t, "interval"),
				When: line.Draw(t, "when"), PID: nat.Draw(t, "pid"), OSJobID: id.Draw(t, "osjobid"),
			}
		}
		switch kind := rapid.SampledFrom([]string{"", "", "INTERACTIVE", "QLOGIN", "QRSH", "QRLOGIN"}).Draw(t, "kind"); kind {
		case "":
		case "INTERACTIVE":
			d.Command.File = kind
			d.Interactive = &job.Interactive{Xterm: line.Draw(t, "xterm"), Display: line.Draw(t, "display")}
		default:
			d.Command.File = kind
			d.Interactive = &job.Interactive{ControlPort: line.Draw(t, "port"), Daemon: line.Draw(t, "daemon"), MasterHost: line.Draw(t, "master")}
			if kind == "QRSH" {
				d.Interactive.Tmpdir, d.Interactive.PIDFile = line.Draw(t, "tmpdir"), line.Draw(t, "pidfile")
			}
		}
		return d
	})
}

func TestConfigRoundtrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := description().Draw(t, "d")
		config, err := FormatConfig(want)
		if err != nil {
			t.Fatal(err)
		}
		args, err := FormatArguments(want.Command.Args)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ParseConfig("config", config)
		if err != nil {
			t.Fatal(err)
		}
		if err := ParseArguments("arguments", args, got); err != nil {
			t.Fatal(err)
		}
		if len(want.Command.Args) == 0 {
			want.Command.Args = nil
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestEnvironmentRoundtrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		vars := rapid.SliceOfN(rapid.StringMatching(`[^=\n\x00]+=([^\x00]|\\|\n|\\n)*`), 0, 8).Draw(t, "vars")
		b, err := FormatEnvironment(vars)
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(b, []byte("\n")); n != len(vars) {
			t.Fatalf("%d lines for %d variables", n, len(vars))
		}
		got, err := ParseEnvironment("environment", b, job.DaemonGridEngine)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Join(got, "\x00") != strings.Join(vars, "\x00") || len(got) != len(vars) {
			t.Fatalf("got %q, want %q", got, vars)
		}
	})
}

func TestSampleFilesRoundTrip(t *testing.T) {
	again := map[string]func(file string, b []byte) ([]byte, error){
		"environment": func(file string, b []byte) ([]byte, error) {
			v, err := ParseEnvironment(file, b, job.DaemonGridEngine)
			if err != nil {
				return nil, err
			}
			return FormatEnvironment(v)
		},
		"usage": func(file string, b []byte) ([]byte, error) {
			u, err := ParseUsage(file, b)
			if err != nil {
				return nil, err
			}
			return FormatUsage(u), nil
		},
		"pe_hostfile": func(file string, b []byte) ([]byte, error) {
			h, err := ParsePEHosts(file, b)
			if err != nil {
				return nil, err
			}
			return FormatPEHosts(h)
		},
	}
	for kind, f := range again {
		files, _ := filepath.Glob("testdata/" + kind + "/*")
		if len(files) == 0 {
			t.Error("no samples of", kind)
		}
		for _, file := range files {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got, err := f(file, want)
			if diff := cmp.Diff(string(want), string(got)); err != nil || diff != "" {
				t.Errorf("%s: %v %s", file, err, diff)
			}
		}
	}
}

func TestEnvironmentErrors(t *testing.T) {
	for file, want := range map[string]string{
		"A=1\nB\n":     "e:2: B: expected a line of the form NAME=value",
		"=x\n":         "e:1: expected a line of the form NAME=value",
		"A=1\n\nB=2\n": "e:2: expected a line of the form NAME=value",
		"A=1\nB=2":     "e:2: the file ends within a line",
		"A=\x00\n":     "e:1: A: contains a NUL byte",
	} {
		if _, err := ParseEnvironment("e", []byte(file), job.DaemonGridEngine); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", file, err, want)
		}
	}
	for _, v := range []string{"A", "=1", "A\nB=1", "A=\x00", ""} {
		if _, err := FormatEnvironment([]string{v}); err == nil {
			t.Errorf("%q was written", v)
		}
	}
	long := "A=" + strings.Repeat("x", 1<<20)
	if v, err := ParseEnvironment("e", []byte(long+"\n"), job.DaemonGridEngine); err != nil || v[0] != long {
		t.Error("a long line was not read", err)
	}
	if v, _ := ParseEnvironment("e", []byte("A=a\\tb\\\\n\\nc\\\n"), job.DaemonGridEngine); v[0] != "A=a\\tb\\n\nc\\" {
		t.Errorf("%q", v)
	}
}

// TestEnvironmentOfOCS checks that values in the file of sge_execd 9.x keep their backslashes: this daemon
// escapes newlines only.
func TestEnvironmentOfOCS(t *testing.T) {
	const file = `A=a\tb\\nc\` + "\n" + `B=\\` + "\n"
	want := []string{"A=a\\tb\\\nc\\", `B=\\`}
	for _, daemon := range []job.Daemon{job.DaemonOCS90, job.DaemonOCS91} {
		if v, err := ParseEnvironment("e", []byte(file), daemon); err != nil || !slices.Equal(v, want) {
			t.Errorf("%q, %v, expected %q", v, err, want)
		}
		if v, skipped := ParseEditedEnvironment([]byte(file), daemon); len(skipped) > 0 || !slices.Equal(v, want) {
			t.Errorf("%q as edited, expected %q", v, want)
		}
	}
}

// TestWaitStatus encodes wait statuses and compares them with the numbers in usage files of 8.1.9.
func TestWaitStatus(t *testing.T) {
	for want, w := range map[WaitStatus]WaitStatus{
		1:       Exited(0),
		33:      Exited(2),
		49:      Exited(3),
		1585:    Exited(99),
		3735558: Signaled(syscall.SIGSEGV, true),
	} {
		if w != want {
			t.Errorf("got %d, want %d", w, want)
		}
	}
	if n, ok := WaitStatus(1585).Exited(); n != 99 || !ok {
		t.Error(n, ok)
	}
	if s, ok := WaitStatus(3735558).Signaled(); s != syscall.SIGSEGV || !ok || !WaitStatus(3735558).CoreDumped() {
		t.Error(s, ok)
	}
	if s, ok := Signaled(syscall.SIGSYS, false).Signaled(); s != 0 || !ok {
		t.Error(s, ok)
	}
	if _, ok := WaitStatus(1 << 3).Exited(); ok { // the original's status of a job that has not run
		t.Error("never ran, but exited")
	}
	for _, s := range portableSignals {
		if got, ok := Signaled(s.sig, false).Signaled(); got != s.sig || !ok {
			t.Error(s.sig, got)
		}
	}
}

func TestUsageRoundtrip(t *testing.T) {
	start := time.Unix(1795217715, 250_000_000)
	want := &Usage{
		WaitStatus: Signaled(syscall.SIGKILL, false), ExitStatus: 137, Signal: 9,
		Start: start, End: start.Add(12345 * time.Millisecond),
		Usage: job.Usage{
			Wallclock: 12.345, UserTime: 1.25, SystemTime: 0.5, MaxRSS: 4980 << 10, MinorFaults: 1, BlocksOut: 16, VoluntaryCS: 3,
			CPU: 1.75, Mem: 0.001, IO: 1e-7, IOOps: 12, IOWait: 0.25, MaxVmem: 1 << 33, PeakRSS: 5000 << 10,
		},
		Reason: "h_rt of 12 s exceeded:\nran 12.345 s \\o/", Limit: &job.LimitExceeded{Name: "h_rt", Value: 12, Measured: 12.345},
	}
	b := FormatUsage(want)
	got, err := ParseUsage("usage", b)
	if err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s\n%s", diff, b)
	}
	want.Micros = true
	if text := string(FormatUsage(want)); !strings.Contains(text, "start_time=1795217715250000\nend_time=1795217727595000\nru_wallclock=12\n") || strings.Contains(text, "exact") {
		t.Errorf("for Open Cluster Scheduler it is\n%s", text)
	}
}

func TestUsageOfOtherSupervisors(t *testing.T) {
	u, err := ParseUsage("usage", []byte("signal=9\nfoo=\"bar\"\nru_wallclock=2.5\n"))
	if err != nil || u.ExitStatus != 1 || u.Signal != 9 || u.Wallclock != 2.5 {
		t.Errorf("%v %+v", err, u)
	}
	for _, bad := range []string{"signal\n", "signal=x\n", "ru_utime=NaN\n", "ru_maxrss=9223372036854775807\n", "signal=1", "limit=a b c\n", "exit_status=99999999999\n"} {
		if _, err := ParseUsage("usage", []byte(bad)); err == nil || !strings.HasPrefix(err.Error(), "usage:") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// TestEditedUsage checks that changes that an epilog makes to the file count, as in the original's
// execd: with an editor, or by appending lines.
func TestEditedUsage(t *testing.T) {
	start := time.Unix(1000, 250_000_000)
	file := string(FormatUsage(NewUsage(0, &syscall.Rusage{Maxrss: 5}, start, start.Add(2500*time.Millisecond))))
	for edit, want := range map[string]struct {
		old, replacement, added string
		start, end              time.Time
		wallclock               float64
		exit                    int
		rss                     int64
	}{
		"nothing":                {"", "", "", start, start.Add(2500 * time.Millisecond), 2.5, 0, 5 << 10},
		"the exit status":        {"exit_status=0", "exit_status=42", "", start, start.Add(2500 * time.Millisecond), 2.5, 42, 5 << 10},
		"the wall clock":         {"ru_wallclock=2", "ru_wallclock=99", "", start, start.Add(2500 * time.Millisecond), 99, 0, 5 << 10},
		"the start":              {"\nstart_time=1000", "\nstart_time=900", "", time.Unix(900, 0), start.Add(2500 * time.Millisecond), 2, 0, 5 << 10},
		"lines at the end":       {"", "", "ru_wallclock=99\nru_maxrss=7\nexit_status=3\nmine=1\n", start, start.Add(2500 * time.Millisecond), 99, 3, 7 << 10},
		"an end line at the end": {"", "", "end_time=2000\n", start, time.Unix(2000, 0), 2, 0, 5 << 10},
	} {
		text := strings.Replace(file, want.old, want.replacement, 1) + want.added
		u, err := ParseUsage("usage", []byte(text))
		if err != nil || !u.Start.Equal(want.start) || !u.End.Equal(want.end) || u.Wallclock != want.wallclock || u.ExitStatus != want.exit || u.MaxRSS != want.rss {
			t.Errorf("%s: %+v, %v\n%s", edit, u, err, text)
		}
	}
}

func TestEditedEnvironment(t *testing.T) {
	for file, want := range map[string]struct {
		vars    string
		skipped string
	}{
		"A=1\nB=2\n":                   {"A=1|B=2", ""},
		"A=1\nB=2":                     {"A=1|B=2", ""},
		"A=1\n\n\nA=2\n":               {"A=1|A=2", ""},
		"A=a\\nb\\\\c\n=x\nwhat\nB=\n": {"A=a\nb\\c|B=", "[2 3]"},
		"":                             {"", ""},
		"export A=1\n B=2\n":           {"export A=1| B=2", ""},
		"A=\x00\nB=1\n":                {"B=1", "[1]"},
	} {
		vars, skipped := ParseEditedEnvironment([]byte(file), job.DaemonGridEngine)
		text := ""
		if len(skipped) > 0 {
			text = fmt.Sprint(skipped)
		}
		if got := strings.Join(vars, "|"); got != want.vars || text != want.skipped {
			t.Errorf("%q: %q, skipped %s; expected %q and %s", file, got, text, want.vars, want.skipped)
		}
	}
}

func TestNewUsage(t *testing.T) {
	start := time.Unix(100, 0)
	u := NewUsage(syscall.WaitStatus(9), &syscall.Rusage{Maxrss: 10, Utime: syscall.Timeval{Sec: 1, Usec: 500000}}, start, start.Add(2*time.Second))
	if u.Signal != 9 || u.ExitStatus != 137 || u.MaxRSS != 10240 || u.UserTime != 1.5 || u.Wallclock != 2 || u.WaitStatus != Signaled(9, false) {
		t.Errorf("%+v", u)
	}
	u = NewUsage(syscall.WaitStatus(3<<8), nil, start, start)
	if u.Signal != 0 || u.ExitStatus != 3 || u.WaitStatus != Exited(3) {
		t.Errorf("%+v", u)
	}
}

func TestRecords(t *testing.T) {
	at := time.Date(2026, 11, 20, 23, 35, 15, 0, time.UTC)
	line := RecordLine(at, 103, 70, "cannot\nlie")
	if line != "11/20/2026 23:35:15 [103:70]: cannot\\x0alie\n" {
		t.Errorf("%q", line)
	}
	for in, want := range map[string]string{line + line: "cannot\nlie", "": "", "foreign": "foreign"} {
		if got := FirstRecord([]byte(in)); got != want {
			t.Errorf("%q: %q", in, got)
		}
	}
	for in, want := range map[string]int{"0\n": 0, "25\n25\n": 25, "": -1, "x": -1, "\n": -1} {
		n, ok := FirstNumber([]byte(in))
		if !ok {
			n = -1
		}
		if n != want {
			t.Errorf("%q: %d", in, n)
		}
	}
}

func TestPEHosts(t *testing.T) {
	in := []PEHost{{"a", 2, "q@a", ""}, {"b.c", 1, "q@b.c", "0,1:0,2"}}
	b, err := FormatPEHosts(in)
	if err != nil || string(b) != "a 2 q@a UNDEFINED\nb.c 1 q@b.c 0,1:0,2\n" {
		t.Fatalf("%s %v", b, err)
	}
	out, err := ParsePEHosts("f", b)
	if diff := cmp.Diff(in, out); err != nil || diff != "" {
		t.Error(err, diff)
	}
	for _, bad := range []string{"a 1 q\n", "a x q u\n", "a 0 q u\n", "a -1 q u\n", "a 1 q u v\n", "a 1 q u", "\n"} {
		if _, err := ParsePEHosts("f", []byte(bad)); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
	for _, bad := range []PEHost{{"", 1, "q", ""}, {"a b", 1, "q", ""}, {"a", 0, "q", ""}, {"a", 1, "q\n", ""}, {"a", 1, "q", "x y"}} {
		if _, err := FormatPEHosts([]PEHost{bad}); err == nil {
			t.Errorf("%v was written", bad)
		}
	}
}
