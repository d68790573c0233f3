package configdir

import (
	"slices"
	"testing"

	"github.com/execd-project/execd/qconf"
)

// TestCompleteNamesFilesOnce checks that a change of an object in a folder that the directory lacks brings the other
// objects of the folder, and not the old text of the changed one.
func TestCompleteNamesFilesOnce(t *testing.T) {
	d, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	list, err := d.Complete(qconf.Builtin(2), []Change{{Path: "pes/new", Text: []byte("pe_name new\n")}, {Path: "pes/smp", Text: []byte("pe_name smp\n")}})
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, c := range list {
		paths = append(paths, c.Path)
		if c.Path == "pes/smp" && string(c.Text) != "pe_name smp\n" {
			t.Errorf("the text of pes/smp is %q", c.Text)
		}
	}
	slices.Sort(paths)
	if want := []string{"pes/make", "pes/new", "pes/smp"}; !slices.Equal(paths, want) {
		t.Errorf("the change has the files %q, expected %q", paths, want)
	}
}
