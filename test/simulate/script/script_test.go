package script

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	got, err := Parse(`# T0 = 12
alice: qsub -b y -N a1 -l 'a=(x|y)' /bin/sleep 900
   -> Unable to run job: no.
   -> 
   -> Exiting.
root: qmod -e '*'   (all queues had been disabled)
# load value n1:np_load_avg changed to 0.5
# n1:users changed to 4
# wait 5 s
# capture output/final
`)
	if err != nil {
		t.Fatal(err)
	}
	want := []Line{
		{Comment: "T0 = 12"},
		{User: "alice", Command: "qsub -b y -N a1 -l 'a=(x|y)' /bin/sleep 900", Answer: []string{"Unable to run job: no.", "", "Exiting."}},
		{User: "root", Command: "qmod -e '*'", Remark: "all queues had been disabled"},
		{Load: &Load{"n1", "np_load_avg", "0.5"}},
		{Load: &Load{"n1", "users", "4"}},
		{Wait: 5 * time.Second},
		{Capture: "final"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Parse (-want +got)\n%s", diff)
	}
}

func TestParseRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"an answer to nothing": "   -> yes\n",
		"no user":              "qsub x\n",
		"an empty line":        "alice: qsub x\n\n",
	} {
		if lines, err := Parse(text); err == nil {
			t.Errorf("Parse accepts %s: %v", name, lines)
		}
	}
}

// Of the recorded cases every line must be understood, and written as it was.
func TestRecordedScriptsArePrintedAgain(t *testing.T) {
	names, err := filepath.Glob("../../../scheduler/testdata/golden/*/jobs.txt")
	if err != nil || len(names) == 0 {
		t.Fatalf("%v, %v", names, err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := Parse(string(text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		again, err := Parse(Format(lines))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(lines, again); diff != "" {
			t.Errorf("%s (-first +again)\n%s", name, diff)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("# wait 5 s\nalice: qsub -t 1-3 /bin/sleep 9   (a remark)\n   -> yes\n   ->\n# capture output/x\n# n1:a changed to b\n#\n")
	f.Fuzz(func(t *testing.T, text string) {
		lines, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse(Format(lines))
		if err != nil {
			t.Fatalf("%v\n%q", err, Format(lines))
		}
		if diff := cmp.Diff(lines, again); diff != "" {
			t.Errorf("Parse of what Format wrote of %q (-first +again)\n%s", text, diff)
		}
	})
}
