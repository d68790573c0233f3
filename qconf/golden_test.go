package qconf

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// parsers are the readers by the folder of a configuration directory.
var parsers = map[string]func(file string, data []byte) (Text, error){
	"queues":     func(f string, d []byte) (Text, error) { o, err := ParseQueue(f, d); return textOf(o, err) },
	"pes":        func(f string, d []byte) (Text, error) { o, err := ParsePE(f, d); return textOf(o, err) },
	"ckpts":      func(f string, d []byte) (Text, error) { o, err := ParseCheckpoint(f, d); return textOf(o, err) },
	"hostgroups": func(f string, d []byte) (Text, error) { o, err := ParseHostGroup(f, d); return textOf(o, err) },
	"conf":       func(f string, d []byte) (Text, error) { o, err := ParseConfiguration(f, d); return textOf(o, err) },
	"hosts":      func(f string, d []byte) (Text, error) { o, err := ParseHost(f, d); return textOf(o, err) },
	"usersets":   func(f string, d []byte) (Text, error) { o, err := ParseUserSet(f, d); return textOf(o, err) },
	"users":      func(f string, d []byte) (Text, error) { o, err := ParseUser(f, d); return textOf(o, err) },
	"projects":   func(f string, d []byte) (Text, error) { o, err := ParseProject(f, d); return textOf(o, err) },
	"calendars":  func(f string, d []byte) (Text, error) { o, err := ParseCalendar(f, d); return textOf(o, err) },
	"sched_conf": func(f string, d []byte) (Text, error) { o, err := ParseSchedulerConfig(f, d); return textOf(o, err) },
	"local":      func(f string, d []byte) (Text, error) { o, err := ParseLocal("node1", f, d); return textOf(o, err) },
}

// textOf takes the text out of an object, whatever it is.
func textOf(o interface{ Format(Style) string }, err error) (Text, error) {
	if err != nil {
		return Text{}, err
	}
	switch o := o.(type) {
	case *Queue:
		return o.Text, nil
	case *ParallelEnvironment:
		return o.Text, nil
	case *Checkpoint:
		return o.Text, nil
	case *HostGroup:
		return o.Text, nil
	case *Configuration:
		return o.Text, nil
	case *Local:
		return o.Text, nil
	case *ExecHost:
		return o.Text, nil
	case *UserSet:
		return o.Text, nil
	case *User:
		return o.Text, nil
	case *Project:
		return o.Text, nil
	case *Calendar:
		return o.Text, nil
	case *SchedulerConfig:
		return o.Text, nil
	}
	return Text{}, os.ErrInvalid
}

// TestWhatQconfPrintedIsPrintedAgain checks the files below testdata/qconf, which qconf of Grid Engine
// 8.1.9 printed.
func TestWhatQconfPrintedIsPrintedAgain(t *testing.T) {
	files, err := filepath.Glob("testdata/qconf/*/*")
	if err != nil || len(files) < 30 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		kind := filepath.Base(filepath.Dir(file))
		style := Wrapped
		if kind == "single" {
			kind, style = "queues", SingleLine
		}
		t.Run(kind+"/"+filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			text, err := parsers[kind](file, data)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(data), text.Format(style)); diff != "" {
				t.Errorf("(-qconf +printed)\n%s", diff)
			}
			again, err := parsers[kind](file, []byte(text.Format(style)))
			if err != nil || strings.Compare(again.Format(SingleLine), text.Format(SingleLine)) != 0 {
				t.Errorf("not read back: %v", err)
			}
		})
	}
}

// TestCommandsWithCommasAreReadFromSingleLines checks the same queue, printed by qconf with and
// without SGE_SINGLE_LINE: its prolog has commas, at which qconf breaks lines as if a blank were
// there.
func TestCommandsWithCommasAreReadFromSingleLines(t *testing.T) {
	read := func(file string) *Queue {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		q, err := ParseQueue(file, data)
		if err != nil {
			t.Fatal(err)
		}
		return q
	}
	single, wrapped := read("testdata/commas/single"), read("testdata/commas/wrapped")
	if strings.Contains(single.defaults.Prolog, ", ") || len(single.Warnings()) != 0 {
		t.Error("single:", single.defaults.Prolog, single.Warnings())
	}
	if !strings.Contains(wrapped.defaults.Prolog, "with, commas") || len(wrapped.Warnings()) != 1 {
		t.Error("wrapped:", wrapped.defaults.Prolog, wrapped.Warnings())
	}
	again, err := ParseQueue("again", []byte(single.Format(Wrapped)))
	if err != nil || again.defaults.Prolog != single.defaults.Prolog {
		t.Error("our own wrapping is not read back", err)
	}
}

func TestLongValuesAreWrapped(t *testing.T) {
	long := strings.Repeat("x", 70)
	for sentence, c := range map[string]struct {
		attribute, value, want string
	}{
		"not within a word":            {"owner_list", long + " y" + long, "owner_list            " + long + " \\\n                      y" + long},
		"after the comma of a list":    {"subordinate_list", "a" + long + ",b" + long, "subordinate_list      a" + long + ", \\\n                      b" + long},
		"not after that of a command":  {"prolog", "/" + long + "," + long, "prolog                /" + long + "," + long},
		"not beside a second blank":    {"prolog", "/" + long + "  " + long + " y", "prolog                /" + long + "  " + long + " \\\n                      y"},
		"before the setting of a host": {"prolog", "/" + long + ",[n1=/y]", "prolog                /" + long + ", \\\n                      [n1=/y]"},
		"not up to 80 bytes":           {"prolog", "/" + long[:57], "prolog                /" + long[:57]},
	} {
		t.Run(sentence, func(t *testing.T) {
			q := queue(t, c.attribute+" "+c.value)
			if !strings.Contains(q.Format(Wrapped), "\n"+c.want+"\n") {
				t.Errorf("%q is not in\n%s", c.want, q.Format(Wrapped))
			}
			readBack(t, "queues", q.Text)
		})
	}
}
