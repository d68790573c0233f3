package standalone

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/execd-project/execd/internal/testenv"
)

// siteVerifier writes the submitting user and its own user to standard error of the daemon, changes the name and a
// variable of jobs, and refuses jobs with the name "refused".
const siteVerifier = `#!/bin/sh
while read -r line; do case "$line" in
START) name= user=; echo SEND ENV; echo STARTED;;
"PARAM N "*) name=${line#PARAM N };;
"PARAM USER "*) user=${line#PARAM USER };;
BEGIN) if test "$name" = refused; then echo "RESULT STATE REJECT not $name"; else
	echo "PARAM N verified"; echo "PARAM CMDARG0 of $user by $(id -un)"; echo "ENV ADD GIVEN by_site"; echo "PARAM l_hard h_rt=50"; echo RESULT STATE CORRECT
	fi;;
QUIT) exit;;
esac; done
`

// TestFrontVerifier checks that with two processes the launcher runs the verifier of root's configuration, and jobs
// run with its changes.
func TestFrontVerifier(t *testing.T) {
	t.Parallel()
	m := newFront(t, 4)
	out := m.open("out")
	m.write("jsv", siteVerifier)
	jsv := filepath.Join(m.dir, "jsv")
	if err := os.Chmod(jsv, 0o755); err != nil {
		t.Fatal(err)
	}
	m.write("conf/conf/global", groupIDs()+"min_uid 1\nmin_gid 1\njsv_url "+jsv+"\n")
	m.write("job.sh", "#!/bin/sh\necho \"$JOB_NAME|$GIVEN|$MINE|$*|$(ulimit -t)\"\n")
	m.start()
	u := someUsers(t, 1)[0]
	args := []string{"-sync", "y", "-wd", "/", "-o", out + "/said", "-j", "y", "-v", "MINE=x"}
	if r := m.as(u, "qsub", append(args, "job.sh", "replaced", "second")...); r.status != 0 || !strings.Contains(r.stdout, `("verified")`) {
		t.Errorf("qsub: %+v", r)
	}
	if said := strings.Join(lines(t, out+"/said"), "\n"); said != "verified|by_site|x|of "+u.Username+" by nobody second|unlimited" {
		t.Errorf("the job has said %q", said)
	}
	if r := m.as(u, "qsub", append(args, "-N", "refused", "job.sh")...); r.status != 1 || r.stderr != "Unable to run job: not refused\nExiting.\n" {
		t.Errorf("qsub of a job that the verifier refuses: %+v", r)
	}
	if r := m.as(u, "qrsh", "-now", "n", "-wd", "/", "-N", "x", "-noshell", "/bin/echo", "x"); r.status != 0 || r.stdout != fmt.Sprintf("of %s by nobody\n", u.Username) {
		t.Errorf("qrsh: %+v", r)
	}
	held := strings.TrimSpace(m.as(u, "qsub", "-terse", "-h", "-wd", "/", "-o", "/dev/null", "-j", "y", "job.sh").stdout)
	if r := m.as(u, "qresub", held); r.status == 0 || !strings.Contains(r.stdout+r.stderr, "cannot be copied while the site has a jsv_url") {
		t.Errorf("qresub: %+v", r)
	}
	if r := m.as(u, "qalter", "-o", out+"/altered", held); r.status != 0 {
		t.Errorf("qalter: %+v", r)
	}
	if r := m.as(u, "qrls", held); r.status != 0 {
		t.Errorf("qrls: %+v", r)
	}
	m.until("the changed job is in the accounting", func() bool { return len(m.records(held)) == 1 })
	if said := strings.Join(lines(t, out+"/altered"), "\n"); !strings.HasPrefix(said, "verified|by_site||of "+u.Username) {
		t.Errorf("the changed job has said %q", said)
	}
	m.refusedNothing()
	testenv.WriteFile(t, jsv, "#!/bin/sh\nexit 1\n")
	if r := m.as(u, "qsub", append(args, "job.sh")...); r.status != 1 || !strings.Contains(r.stderr, "got no response from JSV script") {
		t.Errorf("qsub with a verifier that ends: %+v", r)
	}
}

// TestFrontUserVerifier checks that with two processes commands run the verifiers of their users (-jsv), and one that root's
// default options name, which the commands get from the launcher.
func TestFrontUserVerifier(t *testing.T) {
	t.Parallel()
	m := newFront(t, 4)
	out := m.open("out")
	for _, name := range []string{"of-user", "of-root"} {
		m.write(name, "#!/bin/sh\nwhile read -r line; do case $line in START) echo STARTED;; BEGIN) echo PARAM N "+name+"; echo RESULT STATE CORRECT;; QUIT) exit;; esac; done\n")
		if err := os.Chmod(filepath.Join(m.dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	m.write("job.sh", "#!/bin/sh\necho \"$JOB_NAME\"\n")
	m.start()
	u := someUsers(t, 1)[0]
	submit := func(want string, more ...string) {
		t.Helper()
		_ = os.Remove(out + "/said")
		if r := m.as(u, "qsub", append(append([]string{"-sync", "y", "-wd", "/", "-o", out + "/said", "-j", "y"}, more...), "job.sh")...); r.status != 0 {
			t.Fatalf("qsub: %+v", r)
		}
		if said := strings.Join(lines(t, out+"/said"), "\n"); said != want {
			t.Errorf("the job has said %q, want %q", said, want)
		}
	}
	submit("of-user", "-jsv", filepath.Join(m.dir, "of-user"))
	m.write("conf/sge_request", "-jsv "+filepath.Join(m.dir, "of-root")+"\n")
	submit("of-root")
	m.refusedNothing()
}
