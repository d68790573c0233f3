package launcher

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/qconf"
)

// TestPrivateFiles checks that a job gets the private files that its owner has requested, with the paths that root's
// configuration shares.
func TestPrivateFiles(t *testing.T) {
	w, s := newStrictWorld(t)
	always, of := newStrictWorld(t, func(s *Server) { s.Config.ExecdParams.PrivateTmp.Default = true })
	always.refusedWith("no private files of the queue", always.prepare(always.order(of, "key", job.ID{Job: 7})), "lacks the private files")
	id := job.ID{Job: 7}
	o := w.order(s, "key", id, "-l", "private_tmp")
	o.plan.Description.PrivateTmp, o.plan.Description.PrivateTmpShare = true, "/tmp/all"
	if err := w.prepare(o); err != nil {
		t.Fatal(err)
	}
	dir, err := w.spool.Open(id)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if text, err := dir.ReadFile(jobdir.FileConfig); err != nil || !strings.Contains(string(text), "private_tmp_share="+qconf.DefaultPrivateTmpShare+"\n") {
		t.Errorf("%v: the description is\n%s", err, text)
	}
	private, err := dir.PrivateTmp()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.ask(kindRemove, &removeBody{ID: id}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(private.Path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is left (%v)", private.Path, err)
	}
}
