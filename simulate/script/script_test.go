package script

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	got, err := Parse(`# T0 = 12 (epoch seconds, UTC); deadline = T0+5s
# deadline = T0+100s
alice: qsub -b y -N a1 -l 'a=(x|y)' /bin/sleep 900
   -> Unable to run job: no.
   -> 
   -> Exiting.
root: qmod -e '*'   (all queues had been disabled)
# 2026-11-20 22:23:59 Fri (epoch 1795213439)
# every job below runs alone: submitted on the idle cluster
# reservation 1: starts 12 s after submission, 300 s
# load value n1:np_load_avg changed to 0.5
# n1:users changed to 4
# wait 5 s
# capture output/final
`)
	if err != nil {
		t.Fatal(err)
	}
	want := []Line{
		{Number: 1, Kind: Clock, Epoch: 12, Comment: "T0 = 12 (epoch seconds, UTC); deadline = T0+5s"},
		{Number: 2, Kind: Comment, Comment: "deadline = T0+100s"},
		{
			Number: 3, Kind: Command, User: "alice", Command: "qsub -b y -N a1 -l 'a=(x|y)' /bin/sleep 900",
			Answer: []string{"Unable to run job: no.", "", "Exiting."},
		},
		{Number: 7, Kind: Command, User: "root", Command: "qmod -e '*'", Remark: "all queues had been disabled"},
		{Number: 8, Kind: Clock, Epoch: 1795213439, Comment: "2026-11-20 22:23:59 Fri (epoch 1795213439)"},
		{Number: 9, Kind: Alone, Comment: "every job below runs alone: submitted on the idle cluster"},
		{Number: 10, Kind: Reservation, Wait: 12 * time.Second, Comment: "reservation 1: starts 12 s after submission, 300 s"},
		{Number: 11, Kind: LoadChange, Load: &Load{"n1", "np_load_avg", "0.5"}},
		{Number: 12, Kind: LoadChange, Load: &Load{"n1", "users", "4"}},
		{Number: 13, Kind: Wait, Wait: 5 * time.Second},
		{Number: 14, Kind: Capture, Capture: "final"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Parse (-want +got)\n%s", diff)
	}
}

func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"   -> yes\n":                            `line 1: "   -> yes": an answer belongs behind a command or another answer`,
		"a: qsub x\n# wait 1 s\n   -> y\n":       `line 3: "   -> y": an answer belongs behind a command or another answer`,
		"qsub x\n":                               `line 1: "qsub x": expected USER: COMMAND, "   -> ANSWER" or "# COMMENT"`,
		"alice: qsub x\n\n":                      `line 2: "": expected USER: COMMAND, "   -> ANSWER" or "# COMMENT"`,
		"# wait five s":                          `line 1: "# wait five s": expected "wait N s"`,
		"# capture output/../x":                  `line 1: "# capture output/../x": expected "capture output/STEP", with letters, digits, ".", "_" and "-" in STEP`,
		"# capture output/..":                    `line 1: "# capture output/..": expected "capture output/STEP", with letters, digits, ".", "_" and "-" in STEP`,
		"# load value n1 changed to 4":           `line 1: "# load value n1 changed to 4": expected "load value HOST:ATTRIBUTE changed to VALUE"`,
		"# wait x\n# capture\n# capture all\n??": "line 1: \"# wait x\": expected \"wait N s\"\nline 3: \"# capture all\": expected \"capture output/STEP\", with letters, digits, \".\", \"_\" and \"-\" in STEP\nline 4: \"??\": expected USER: COMMAND, \"   -> ANSWER\" or \"# COMMENT\"",
	} {
		lines, err := Parse(text)
		if err == nil {
			t.Errorf("Parse(%q) gives %v", text, lines)
		} else if err.Error() != want {
			t.Errorf("Parse(%q): %s\nwant %s", text, err, want)
		}
	}
}

func recorded(t testing.TB) []string {
	names, err := filepath.Glob("../../scheduler/testdata/golden/*/jobs.txt")
	if err != nil || len(names) == 0 {
		t.Fatalf("no recorded case: %v", err)
	}
	return names
}

// TestRecordedScripts checks that every line of the recorded cases is parsed and formatted unchanged.
// The comments for the reader are listed here, so that no other line is mistaken for one.
func TestRecordedScripts(t *testing.T) {
	forReaders := []string{
		"deadline = T0+", "local time zone of the test is UTC", "reservation 2 (bob): starts immediately",
	}
	kinds := map[Kind]int{}
	for _, name := range recorded(t) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := Parse(string(text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, l := range lines {
			kinds[l.Kind]++
			known := l.Kind != Comment
			for _, prefix := range forReaders {
				known = known || strings.HasPrefix(l.Comment, prefix)
			}
			if !known {
				t.Errorf("%s:%d: taken for a comment: %q", name, l.Number, l.Comment)
			}
		}
		// Two lines of the recordings lack words that the others have.
		written := strings.ReplaceAll(Format(lines), "# load value ", "# ")
		if diff := cmp.Diff(strings.ReplaceAll(string(text), "# load value ", "# "), written); diff != "" {
			t.Errorf("%s (-recorded +written)\n%s", name, diff)
		}
	}
	for k := Comment; k <= Reservation; k++ {
		if kinds[k] == 0 {
			t.Errorf("no recorded case has a line of kind %d", k)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range recorded(f) {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Add("a: b   (c)   (d)\n   -> \n#\n# wait 007 s\na: b  \r\n")
	f.Fuzz(func(t *testing.T, text string) {
		lines, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse(Format(lines))
		if err != nil {
			t.Fatalf("%v\n%s", err, Format(lines))
		}
		for i := range lines {
			lines[i].Number = 0
		}
		for i := range again {
			again[i].Number = 0
		}
		if diff := cmp.Diff(lines, again); diff != "" {
			t.Errorf("written and read again (-first +again)\n%s", diff)
		}
	})
}
