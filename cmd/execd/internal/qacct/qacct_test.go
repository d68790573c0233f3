package qacct

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/accounting"
	"github.com/execd-project/execd/cmd/execd/internal/records"
	"github.com/execd-project/execd/job"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func example(id int) *accounting.Record {
	return &accounting.Record{
		Queue: "all.q", Host: "n1", Group: "staff", Owner: "alice", JobName: "sim.sh", Job: id, Account: "sge", Department: "research",
		Submitted: noon.Add(-3 * time.Hour), Start: noon.Add(-2 * time.Hour), End: noon.Add(-time.Hour), Slots: 1,
		Usage: job.Usage{Wallclock: 3600, UserTime: 1, SystemTime: 0.5, CPU: 1.5, Mem: 2, IO: 0.25, MaxVmem: 3 << 30},
	}
}

// killed returns a record with fields that a classic line lacks.
func killed(id int) *accounting.Record {
	r := example(id)
	r.Failed, r.ExitStatus, r.Signal = job.FailedLimit, 137, 9
	r.FailedText, r.Reason = "enforced a limit", "killed by h_rt: ran 11 s,\nthe limit is 10 s"
	r.Limit = &job.LimitExceeded{Name: "h_rt", Value: 10, Measured: 11.5}
	r.CommandLine = "qsub -l h_rt=10 sim.sh"
	return r
}

func call(t *testing.T, stdin, file string, args ...string) (status int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	c := Command{Args: args, Stdin: strings.NewReader(stdin), Stdout: &o, Stderr: &e, File: file, Now: noon}
	status, err := c.Run()
	if err != nil {
		t.Fatal(err)
	}
	return status, o.String(), e.String()
}

func TestKillIsExplained(t *testing.T) {
	text := string(accounting.AppendJSON(nil, killed(7)))
	_, out, _ := call(t, text, "", "-f", "-", "-j", "7")
	_, classic, _ := call(t, string(accounting.AppendClassic(nil, killed(7))), "", "-f", "-", "-j", "7")
	more, ok := strings.CutPrefix(out, classic)
	if !ok {
		t.Errorf("what is known beyond a classic record changes what precedes it: -classic +JSON\n%s", cmp.Diff(classic, out))
	}
	const want = `submit_cmd_line qsub -l h_rt=10 sim.sh
failed_text  enforced a limit
reason       killed by h_rt: ran 11 s, the limit is 10 s
limit        h_rt 10, measured 11.5
`
	if diff := cmp.Diff(want, more); diff != "" {
		t.Error(diff)
	}
	// Each line still consists of a name and a value.
	names := map[string]bool{}
	for line := range strings.Lines(out) {
		name, _, _ := strings.Cut(line, " ")
		if names[name] {
			t.Errorf("the name %q is there twice", name)
		}
		names[name] = true
	}
}

func TestFilesOfBothKinds(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "accounting")
	write := func(name string, text []byte) {
		if err := os.WriteFile(name, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if status, out, errs := call(t, "", file); status != 1 || out != "no jobs running since startup\n" || errs != file+": No such file or directory\n" {
		t.Errorf("without a file: %d %q %q", status, out, errs)
	}
	var o, e bytes.Buffer
	for path, want := range map[string]string{"": "qacct: ask somebody\n", file: file + ": No such file or directory\nqacct: ask somebody\n"} {
		e.Reset()
		c := Command{Stdout: &o, Stderr: &e, File: path, Advice: "ask somebody", Now: noon}
		if status, err := c.Run(); status != 1 || err != nil || e.String() != want {
			t.Errorf("%q: %d, %v, %q", path, status, err, e.String())
		}
	}
	write(file, accounting.AppendClassic(nil, killed(1)))
	if _, out, _ := call(t, "", file, "-j", "1"); !strings.Contains(out, "\njobnumber    1 ") || strings.Contains(out, "reason") {
		t.Errorf("the classic file: %s", out)
	}
	write(file+".jsonl", accounting.AppendClassic(accounting.AppendJSON(nil, killed(1)), example(2)))
	if _, out, _ := call(t, "", file, "-j", "1"); !strings.Contains(out, "\nreason       killed by h_rt") {
		t.Errorf("the file with JSON beside it: %s", out)
	}
	if _, out, _ := call(t, "", file, "-j"); strings.Count(out, "jobnumber") != 2 {
		t.Errorf("a file with lines of both kinds: %s", out)
	}
	if _, out, _ := call(t, "", "/nowhere", "-f", file, "-j"); strings.Contains(out, "reason") {
		t.Errorf("-f with the name of a classic file: %s", out)
	}
}

func TestBadLines(t *testing.T) {
	good := string(accounting.AppendClassic(nil, example(1)))
	goodJSON := string(accounting.AppendJSON(nil, example(2)))
	text := "# a comment\n" + good + "\n" + "nothing\n" + goodJSON + strings.Repeat("x", records.MaxLine+10) + "\n" +
		good[:100] + "\n" + goodJSON[:100] + "\n" + strings.Replace(good, ":3600:", ":many:", 1) + good + good[:50]
	_, out, errs := call(t, text, "", "-f", "-")
	const want = `Total System Usage
    WALLCLOCK         UTIME         STIME           CPU             MEMORY                 IO                IOW
================================================================================================================
        10800         3.000         1.500         4.500              6.000              0.750              0.000
`
	if diff := cmp.Diff(want, out); diff != "" {
		t.Error(diff)
	}
	var lines []string
	for _, n := range []int{4, 6, 7, 8, 9} {
		why := ""
		if n == 6 {
			why = " of the standard input: the line has more than 4 MiB, which is the limit"
		}
		lines = append(lines, fmt.Sprintf("error: ignoring invalid entry in line %d%s\n", n, why))
	}
	if diff := cmp.Diff(strings.Join(lines, ""), errs); diff != "" {
		t.Error(diff)
	}
	_, _, errs = call(t, text, "", "-f", "-", "-j", "1")
	if diff := cmp.Diff(strings.Join(lines, ""), errs); diff != "" {
		t.Errorf("when one job is looked for: %s", diff)
	}
}

func TestOneJobAmongMany(t *testing.T) {
	var text []byte
	for i := range 200 {
		if i%2 == 0 {
			text = accounting.AppendClassic(text, example(i))
		} else {
			text = accounting.AppendJSON(text, example(i))
		}
	}
	for _, id := range []int{1, 2, 19, 20, 199} {
		_, out, _ := call(t, string(text), "", "-f", "-", "-j", fmt.Sprint(id))
		if strings.Count(out, "qname") != 1 || !strings.Contains(out, fmt.Sprintf("\njobnumber    %d ", id)) {
			t.Errorf("job %d: %s", id, out)
		}
	}
}

func TestColonsInTheCategory(t *testing.T) {
	r := example(3)
	r.Category, r.PETask = "-l h_rt=1:0:0,calendar=a:b", ""
	_, out, _ := call(t, string(accounting.AppendClassic(nil, r)), "", "-f", "-", "-j", "3", "-m")
	if !strings.HasSuffix(out, "\ncategory     -l h_rt=1:0:0,calendar=a:b\n") {
		t.Error(out)
	}
}

func TestListsOfTasks(t *testing.T) {
	var text []byte
	for i := range 9 {
		r := example(4)
		r.Task = i + 1
		text = accounting.AppendClassic(text, r)
	}
	_, out, _ := call(t, string(text), "", "-f", "-", "-j", "4", "-t", "1-5:2,8")
	var tasks []string
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); f[0] == "taskid" {
			tasks = append(tasks, f[1])
		}
	}
	if diff := cmp.Diff([]string{"1", "3", "5", "8"}, tasks); diff != "" {
		t.Error(diff)
	}
	if _, _, errs := call(t, string(text), "", "-f", "-", "-j", "4", "-t", "10-12,14"); errs != "error: Job-array tasks 4.10-12:1,14-14:1 not found\n" {
		t.Error(errs)
	}
}

func TestMistypedOption(t *testing.T) {
	for word, want := range map[string]string{
		"-slot": "error: unknown option \"-slot\" (did you mean -slots?)\n" + Usage,
		"-jsn":  "error: unknown option \"-jsn\" (did you mean -json?)\n" + Usage,
		"word":  Usage,
	} {
		status, out, errs := call(t, "", "", word)
		if status != 1 || out != "" || errs != want {
			t.Errorf("%s: %d %q %s", word, status, out, errs)
		}
	}
}

func TestJSON(t *testing.T) {
	other := example(2)
	other.Owner = "bob"
	text := string(accounting.AppendClassic(accounting.AppendJSON(nil, killed(1)), other))
	_, out, _ := call(t, text, "", "-f", "-", "-j", "-json")
	want := string(accounting.AppendJSON(accounting.AppendJSON(nil, killed(1)), other))
	if diff := cmp.Diff(want, out); diff != "" {
		t.Error(diff)
	}
	_, out, _ = call(t, text, "", "-f", "-", "-o", "-slots", "-json")
	var got any
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	sums := func(owner string) map[string]any {
		return map[string]any{
			"owner": owner, "slots": 1.0, "records": 1.0, "ru_wallclock": 3600.0, "ru_utime": 1.0, "ru_stime": 0.5, "cpu": 1.5, "mem": 2.0, "io": 0.25, "iow": 0.0,
		}
	}
	if diff := cmp.Diff(map[string]any{"usage": []any{sums("alice"), sums("bob")}}, got); diff != "" {
		t.Error(diff)
	}
	if _, out, _ := call(t, "", "", "-f", "-", "-o", "-json"); out != "{\n  \"usage\": []\n}\n" {
		t.Errorf("of no records: %s", out)
	}
}

func TestDefaultFile(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("EXECD_SOCKET", filepath.Join(dir, "agent.sock"))
	t.Setenv("EXECD_ACCOUNTING", "")
	own := filepath.Join(dir, "accounting")
	if file := DefaultFile(); file == own {
		t.Errorf("%s, which is not there", file)
	}
	if err := os.WriteFile(own, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if file := DefaultFile(); file != own {
		t.Errorf("beside the socket: %s", file)
	}
	t.Setenv("EXECD_ACCOUNTING", "/a/b")
	if file := DefaultFile(); file != "/a/b" {
		t.Errorf("as the environment says: %s", file)
	}
}

// TestSelection checks that queues that patterns cannot select are requested from the daemon.
func TestSelection(t *testing.T) {
	var text []byte
	for i, host := range []string{"n1", "N2", "n3"} {
		r := example(i + 1)
		r.Host = host
		text = accounting.AppendClassic(text, r)
	}
	var asked []string
	c := Command{Stdin: nil, Now: noon, Select: func(options ...string) ([]string, error) {
		asked = append(asked, options...)
		return []string{"all.q@n2", "all.q@n3"}, nil
	}}
	for line, want := range map[string]int{"-q all.q@@some": 2, "-l mem=1G": 2, "-l mem=1G -q all.q@n3": 1, "-q all.q": 3} {
		var out, errs bytes.Buffer
		c.Stdin, c.Stdout, c.Stderr = bytes.NewReader(text), &out, &errs
		c.Args = append(strings.Fields(line), "-f", "-", "-h", "-json")
		if status, err := c.Run(); status != 0 || err != nil || strings.Count(out.String(), "hostname") != want {
			t.Errorf("%s: %d %v %s%s", line, status, err, &errs, &out)
		}
	}
	if len(asked) != 6 {
		t.Errorf("asked for %q", asked)
	}
	status, _, errs := call(t, "", "", "-f", "-", "-l", "a=b")
	if status != 1 || errs != "error: -l a=b needs the configuration of a cell, and there is none here\n" {
		t.Errorf("%d %s", status, errs)
	}
}

func FuzzCommand(f *testing.F) {
	f.Add("-j 1 -o", "x")
	f.Add("-b 202601010000 -t 1-2:3,4", string(accounting.AppendJSON(nil, killed(1))))
	f.Add("-slots 4 -ar -A x -json", string(accounting.AppendClassic(nil, example(1))))
	f.Fuzz(func(t *testing.T, line, text string) {
		args := strings.Fields(line)
		if slices.Contains(args, "-f") {
			return
		}
		status, out, errs := call(t, text, "", append(args, "-f", "-")...)
		if status != 0 && errs == "" {
			t.Errorf("it fails without a word: %d %q", status, out)
		}
	})
}

func BenchmarkRead(b *testing.B) {
	var text []byte
	for i := range 10000 {
		text = accounting.AppendClassic(text, example(i))
	}
	for name, args := range map[string][]string{"job": {"-j", "77"}, "owners": {"-o"}} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				c := Command{Args: append(args, "-f", "-"), Stdin: bytes.NewReader(text), Stdout: &bytes.Buffer{}, Stderr: os.Stderr, Now: noon}
				if status, err := c.Run(); status != 0 || err != nil {
					b.Fatal(status, err)
				}
			}
		})
	}
}
