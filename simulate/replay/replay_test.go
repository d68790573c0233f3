package replay

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/scheduler/tickets"
	"github.com/execd-project/execd/simulate/script"
)

const golden = "../../scheduler/testdata/golden"

// run plays a case, and returns the files that it prints.
func run(t testing.TB, fsys fs.FS) (map[string]string, *Result, error) {
	t.Helper()
	printed := map[string]string{}
	r, err := Run(fsys, Options{Write: func(name string, text []byte) error {
		printed[name] = string(text)
		return nil
	}})
	return printed, r, err
}

func files2(parts ...string) fstest.MapFS {
	fsys := fstest.MapFS{}
	for i := 0; i < len(parts); i += 2 {
		fsys[parts[i]] = &fstest.MapFile{Data: []byte(parts[i+1])}
	}
	return fsys
}

// TestRecordedCases checks that playing a case twice prints the same bytes, and that the answers are
// the original's. Only the error for a missing file has different words.
func TestRecordedCases(t *testing.T) {
	dirs, err := filepath.Glob(filepath.Join(golden, "*"))
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no recorded cases: %v", err)
	}
	dated := 0
	for _, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			first, result, err := run(t, os.DirFS(dir))
			if err != nil {
				t.Fatal(err)
			}
			second, _, err := run(t, os.DirFS(dir))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(first, second); diff != "" {
				t.Errorf("two runs (-first +second)\n%s", diff)
			}
			for name, text := range first {
				if !strings.HasPrefix(filepath.Base(name), "epoch") {
					continue
				}
				if want, err := os.ReadFile(filepath.Join(dir, "output", name)); err != nil || string(want) != text {
					t.Errorf("%s is %q, not %q, %v", name, text, want, err)
				}
				dated++
			}
			for _, d := range result.Differences {
				// For parallel jobs on several simulated hosts the original reports that they were
				// deleted.
				if !strings.Contains(d, "qconf -Arqs") && !strings.Contains(d, "forced the deletion") {
					t.Error(d)
				}
			}
		})
	}
	if dated != 18 {
		t.Errorf("%d steps have the time at which they were captured", dated)
	}
}

// TestRunRefuses checks that Run reports all errors of a script that cannot be played, and prints
// nothing.
func TestRunRefuses(t *testing.T) {
	queue := []string{"input/queues/q", "qname q\nhostlist n1\n"}
	for sentence, c := range map[string]struct {
		files []string
		want  string
	}{
		"no script":             {nil, "cannot read the script: open jobs.txt: file does not exist"},
		"invalid lines":         {[]string{"jobs.txt", "??\n# wait x\n"}, "jobs.txt:1: \"??\": expected USER: COMMAND, \"   -> ANSWER\" or \"# COMMENT\"\njobs.txt:2: \"# wait x\": expected \"wait N s\""},
		"unknown commands":      {[]string{"jobs.txt", "a: ls\na: qsub 'x\n"}, "jobs.txt:1: \"ls\": " + unknownCommand() + "\njobs.txt:2: \"qsub 'x\": a quote ' is not closed"},
		"a parameter":           {[]string{"jobs.txt", "root: qconf -Msconf   (nosuch 1)\n"}, `jobs.txt:1: "nosuch 1": expected a parameter of sched_conf(5) and its value`},
		"a wait without an end": {[]string{"jobs.txt", "# wait 999999999 s\n"}, "jobs.txt: the script lasts more than 7 days"},
		"a host":                {[]string{"jobs.txt", "# n9:load_avg changed to 1\n"}, `jobs.txt:1: "n9": there is no such host`},
		"load values":           {[]string{"jobs.txt", "", "input/load_values", "n1:x\nn9:a:b\n"}, "input/load_values:1: \"n1:x\": expected HOST:ATTRIBUTE:VALUE\ninput/load_values:2: \"n9\": there is no such host"},
		"usage":                 {[]string{"jobs.txt", "", "input/initial_usage", "usage:\nalice cpu=lots\n"}, `input/initial_usage: line 2: "alice cpu=lots": expected [user|project|in project] NAME cpu=N mem=N io=N, or stamp N s ago`},
		"a configuration":       {[]string{"jobs.txt", "", "input/pes/p", "pe_name p\nslots many\n"}, `input/pes/p:2: slots: "many" is not a number, expected one from 0 to 9999999`},
	} {
		t.Run(sentence, func(t *testing.T) {
			printed, _, err := run(t, files2(append(queue, c.files...)...))
			if err == nil || err.Error() != c.want {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
			if len(printed) > 0 {
				t.Errorf("something is printed: %v", printed)
			}
		})
	}
}

func TestReadUsage(t *testing.T) {
	got, err := readUsage(`usage at start:
alice cpu=6000 mem=1.5 io=0, stamp 3600 s ago
user bob   cpu=500 (without project), in project p1 cpu=2000
project p1 cpu=3000, project p2 cpu=700
carol mem=1, stamp 0 (never)
halftime 1, halflife_decay_list mem=30:io=0
exact seconds: see times.txt
`)
	if err != nil {
		t.Fatal(err)
	}
	want := []pastUsage{
		{user: "alice", age: 3600, amounts: tickets.Amounts{tickets.CPU: 6000, tickets.Mem: 1.5}},
		{user: "bob", age: -1, amounts: tickets.Amounts{tickets.CPU: 500}},
		{user: "bob", project: "p1", age: -1, amounts: tickets.Amounts{tickets.CPU: 2000}},
		{project: "p1", age: -1, amounts: tickets.Amounts{tickets.CPU: 3000}},
		{project: "p2", age: -1, amounts: tickets.Amounts{tickets.CPU: 700}},
		{user: "carol", age: -1, amounts: tickets.Amounts{tickets.Mem: 1}},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(pastUsage{})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func parse(t *testing.T, text string) []script.Line {
	t.Helper()
	lines, err := script.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

func TestHolding(t *testing.T) {
	for sentence, c := range map[string]struct {
		text   string
		before int
		held   string // a letter for each line
	}{
		"nothing is enabled":     {"a: qsub x\n# wait 1 s\n", -1, "--"},
		"a line disables queues": {"a: qsub x\nroot: qmod -d '*'\na: qsub y\nroot: qmod -e '*'\n", -1, "-hh-"},
		"before the first job":   {"# capture output/c\na: qsub x\na: qsub y\n# wait 1 s\n# capture output/d\na: qsub z\nroot: qmod -e '*'\n", 1, "-hhhhh-"},
		"after jobs that were started": {
			"a: qsub x\n# wait 4 s\na: qsub y\na: qsub z\n# wait 3 s\nroot: qmod -e '*'\n", 2, "--hhh-",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			before, held := holding(parse(t, c.text))
			letters := ""
			for _, h := range held {
				letters += map[bool]string{true: "h", false: "-"}[h]
			}
			if before != c.before || letters != c.held {
				t.Errorf("got %d %s, want %d %s", before, letters, c.before, c.held)
			}
		})
	}
}

// submitted is a script with two jobs, of which the second stays pending.
const submitted = "a: qsub x\n   -> Your job 1 (\"x\") has been submitted\na: qsub y\n   -> Your job 2 (\"y\") has been submitted\n# wait 5 s\n# capture output/c\n"

func TestTimetable(t *testing.T) {
	for sentence, c := range map[string]struct {
		text   string
		output string  // qstat.txt
		want   []int64 // milliseconds after the first of January 2026
	}{
		"without any evidence":          {submitted, "", []int64{0, 150, 300, 5300}},
		"by the time of a submission":   {submitted, "2 0.5 y a qw 01/01/2026 00:01:00 1\n", []int64{60849, 60999, 61149, 66149}},
		"by the run that started a job": {submitted, "1 0.5 x a r 01/01/2026 00:01:00 q@n1 1\n", []int64{60499, 60649, 60799, 65799}},
		"by comments":                   {"# T0 = 1767225700\na: qsub x\n# wait 7 s\n# capture output/c\n", "", []int64{100000, 100000, 100150, 107150}},
		"by a date that the user typed": {"a: qsub -a 202601010200 x\n", "", []int64{3600000}},
		"by a reservation":              {"# reservation 1: starts 12 s after submission\na: qrsub -a 202601010200.12 -d 9\n", "", []int64{7200000, 7200000}},
	} {
		t.Run(sentence, func(t *testing.T) {
			fsys := files2()
			if c.output != "" {
				fsys = files2("output/c/qstat.txt", c.output)
			}
			lines := parse(t, c.text)
			table := makeTimetable(lines, readEvidence(fsys, time.UTC), make([]bool, len(lines)), 2000, time.UTC)
			got := make([]int64, len(lines))
			for i := range got {
				got[i] = table.at[i] - epoch*1000
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestRunsAreInStepWithThoseThatAreKnown(t *testing.T) {
	table := &timetable{interval: 2000, runs: []int64{10500, 13500}}
	var got []int64
	last, now := int64(0), int64(5000)
	for range 7 {
		last = table.nextRun(now, last)
		got, now = append(got, last), last
	}
	if diff := cmp.Diff([]int64{6500, 8500, 10500, 13500, 15500, 17500, 19500}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestFilesAreAFileSystem(t *testing.T) {
	f := files{"a": []byte("text"), "b/c": []byte("more"), "b/d/e": nil}
	if err := fstest.TestFS(f, "a", "b/c", "b/d/e"); err != nil {
		t.Error(err)
	}
	if names := maps.Collect(maps.All(f)); len(names) != 3 {
		t.Error("it has changed")
	}
}

// FuzzRun checks that every script is played or refused.
func FuzzRun(f *testing.F) {
	for _, text := range []string{
		submitted, "a: qsub -b y -N n -t 1-3 -pe p 2 /bin/sleep 5\na: qsub -now y x\n# wait 9 s\nroot: qmod -d q\nroot: qdel -f 1\nroot: qalter -p 9 2\n# capture output/c\n",
		"a: qrsub -d 9\nroot: qrdel 1\na: qhold 1\na: qrls -h u 1\nroot: qmod -rj 1\nroot: qmod -s 1\n# every job below runs alone\na: qsub -N x y\n",
		"root: qconf -Msconf   (policy_hierarchy NONE)\nroot: qconf -Arqs   (a set with the rule: limit to slots=1)\n",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		_, _, _ = run(t, files2("input/queues/q", "qname q\nhostlist n1\nslots 2\npe_list p\n",
			"input/pes/p", "pe_name p\nslots 9\nallocation_rule $fill_up\n", "jobs.txt", text))
	})
}
