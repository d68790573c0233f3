package submit

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// TestDisplay checks that a command of qrsh gets the submitting user's display.
func TestDisplay(t *testing.T) {
	for name, c := range map[string]struct {
		command Commands
		args    string
		want    string
	}{
		"that of the environment":       {Qrsh, "true", "[TERM= DISPLAY=env:1]"},
		"that of -v":                    {Qrsh, "-v DISPLAY=v:1 true", "[TERM= DISPLAY=v:1]"},
		"none where -v says so":         {Qrsh, "-v DISPLAY= true", "[TERM= DISPLAY=]"},
		"-display outranks -v":          {Qrsh, "-display d:1 -v DISPLAY=v:1 true", "[TERM= DISPLAY=d:1]"},
		"-display outranks -V":          {Qrsh, "-V -display d:1 true", "[TERM= DISPLAY=d:1]"},
		"not for a login shell":         {Qrsh, "-now n", "[TERM=]"},
		"but there, too, with -display": {Qrsh, "-display d:1", "[TERM= DISPLAY=d:1]"},
		"not for qlogin":                {Qlogin, "", "[TERM=]"},
		"not for qsub":                  {Qsub, "-b y true", "[TERM=]"},
	} {
		r, err := Parse(Input{Args: strings.Fields(c.args), Command: c.command, Master: true, Env: []string{"DISPLAY=env:1"}})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if got := fmt.Sprint(r.Env); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestManner(t *testing.T) {
	read := files(map[string]string{
		"good": "-p -1 -@ gone -p -2\n-A good\n",
		"s":    "#$ -p -3\n#$ -A s -@ gone -p -4\n",
	})
	unread := func(where string, line int) []Unread { return []Unread{{"gone", where, line, fs.ErrNotExist}} }
	for name, c := range map[string]struct {
		command Commands
		args    string
		files   string // content of request files
		want    Manner
		job     string // priority and account
	}{
		"nothing":                             {Qrsh, "true", "", Manner{}, "0 "},
		"both":                                {Qrsh, "-verbose -nostdin true", "", Manner{NoStdin: true, Verbose: true}, "0 "},
		"qlogin says what it does":            {Qlogin, "", "", Manner{Verbose: true}, "0 "},
		"from files of default options":       {Qrsh, "true", "-nostdin", Manner{NoStdin: true}, "0 "},
		"which qsub does not know":            {Qsub, "-b y true", "-nostdin", Manner{}, "0 "},
		"a file in a file is not there":       {Qsub, "-@ good -b y true", "", Manner{Unread: unread("good", 1)}, "-1 good"},
		"one in a script":                     {Qsub, "s", "", Manner{Unread: unread("s", 2)}, "-3 s"},
		"one in a file of default options":    {Qsub, "-b y true", "-p -6\n-@ gone -A x\n-A y", Manner{Unread: unread("defaults", 2)}, "-6 y"},
		"what was read of a file that has it": {Qsub, "-b y true", "-@ good -A x", Manner{Unread: unread("good", 1)}, "-1 x"},
	} {
		var got Manner
		r, err := Parse(Input{
			Args: strings.Fields(c.args), Command: c.command, Master: true, ReadFile: read, Manner: &got,
			RequestFiles: []File{{"defaults", []byte(c.files)}},
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(c.want, got, cmpopts.EquateErrors()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if got := fmt.Sprint(r.Priority, " ", r.Account); got != c.job {
			t.Errorf("%s: %q, want %q", name, got, c.job)
		}
	}
	if _, err := Parse(Input{Args: []string{"-@", "gone", "-b", "y", "true"}, Master: true, ReadFile: read}); err == nil {
		t.Error("a file of the command line may be absent")
	}
	if _, err := Parse(Input{Args: []string{"-@", "good", "-b", "y", "true"}, ReadFile: read}); err == nil {
		t.Error("without a master a file may be absent")
	}
}
