package standalone

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestFrontReadsNoFiles checks that with two processes the user of the front can read neither the scripts and
// environments of jobs in the launcher's directories nor their output, and the front has no such file open.
func TestFrontReadsNoFiles(t *testing.T) {
	t.Parallel()
	m := newFront(t, 1)
	out := m.open("out")
	const secret = "xyzzy"
	m.write("job.sh", "#!/bin/sh\n# "+secret+"\numask 077\necho "+secret+" > "+out+"/private\nexec sleep 1000\n")
	m.start()
	u := someUsers(t, 1)[0]
	r := m.as(u, "qsub", "-terse", "-wd", "/", "-o", out+"/said", "-j", "y", "-v", "SECRET="+secret, "job.sh", secret)
	id := strings.TrimSpace(r.stdout)
	m.until("the job has begun", func() bool { return len(lines(t, out+"/private")) == 1 })
	who, err := user.Lookup(frontUser)
	if err != nil {
		t.Fatal(err)
	}
	front := &syscall.Credential{Uid: uint32(number(t, who.Uid)), Gid: uint32(number(t, who.Gid))}
	spool := filepath.Join(m.dir, "spool")
	// search finds the secret with the rights of a user. The directories of the front have it by all means: the front
	// keeps the requests.
	search := func(as *syscall.Credential) string {
		cmd := exec.Command("/bin/sh", "-c", fmt.Sprintf("cd %s && grep -rls %s active_jobs job_scripts submissions launcher-audit* %s; true", spool, secret, out))
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
		found, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v", found, err)
		}
		return string(found)
	}
	for _, name := range []string{"/config", "/environment", "job_scripts/", "/private"} {
		if found := search(nil); !strings.Contains(found, name) {
			t.Errorf("root finds\n%s, expected a file %s", found, name)
		}
	}
	if found := search(front); found != "" {
		t.Errorf("the user of the front can read\n%s", found)
	}
	fds := fmt.Sprintf("/proc/%d/fd/", m.front())
	open, err := os.ReadDir(fds)
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range open {
		path, err := os.Readlink(fds + fd.Name())
		for _, closed := range []string{out, spool + "/job_scripts", spool + "/submissions"} {
			if err == nil && strings.HasPrefix(path, closed) {
				t.Errorf("the front has %s open", path)
			}
		}
	}
	m.as(u, "qdel", id)
	m.refusedNothing()
}
