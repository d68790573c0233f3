package standalone

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCellDirectory runs a job and a JSV that use the files that Grid Engine's scripts use, and
// sets default options where an administrator of Grid Engine sets them.
func TestCellDirectory(t *testing.T) {
	t.Setenv("SGE_ROOT", "") // the site has no Grid Engine
	m := newMachine(t, 1)
	u := someUsers(t, 1)[0]
	m.start()
	root := filepath.Join(m.dir, "spool", "sge")
	script := filepath.Join(m.open("tmp"), "job.sh")
	m.write("tmp/job.sh", `#!/bin/sh
echo "$SGE_ROOT $SGE_CELL"
. "$SGE_ROOT/$SGE_CELL/common/settings.sh"
qstat -j "$JOB_ID" | grep job_name
cat "$SGE_ROOT/$SGE_CELL/common/act_qmaster"
qping -info 2>&1 | cut -c1-39
`)
	m.write("spool/sge/default/common/sge_request", "-N bydefault\n")
	out := filepath.Join(m.open("tmp"), "out")
	if r := m.as(u, "qsub", "-sync", "y", "-wd", m.open("tmp"), "-j", "y", "-o", out, script); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	text, err := os.ReadFile(out)
	want := root + " default\njob_name:                   bydefault\n" + hostName + "\nqping: execd does not have this command\n"
	if err != nil || string(text) != want {
		t.Errorf("the job has found %q (%v), want %q", text, err, want)
	}
	records, err := os.ReadFile(filepath.Join(root, "default", "common", "accounting"))
	if err != nil || !strings.Contains(string(records), ":bydefault:") {
		t.Errorf("the records are %q (%v)", records, err)
	}

	jsv := filepath.Join(m.dir, "jsv")
	m.write("jsv", `#!/bin/sh
jsv_on_start() { :; }
jsv_on_verify() { jsv_set_param N "by_$(jsv_get_param USER)"; jsv_correct; }
. `+root+`/util/resources/jsv/jsv_include.sh
jsv_main
`)
	if err := os.Chmod(jsv, 0o755); err != nil {
		t.Fatal(err)
	}
	if r := m.as(u, "qsub", "-h", "-jsv", jsv, "-b", "y", "true"); r.status != 0 || !strings.Contains(r.stdout, `("by_`+u.Username+`")`) {
		t.Errorf("a JSV that uses the functions: %+v", r)
	}

	// The configuration's own file counts more.
	m.write("conf/sge_request", "-N byconf\n")
	if r := m.as(u, "qsub", "-h", "-b", "y", "true"); !strings.Contains(r.stdout, `("byconf")`) {
		t.Errorf("with default options in the configuration: %+v", r)
	}
}
