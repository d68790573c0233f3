package shepherd

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/job"
)

// usersFrom makes a script answer the shepherd's requests for users and groups that are in no file.
func (j *testJob) usersFrom(script string) {
	j.t.Helper()
	const getent = "/usr/bin/getent" // to put something else in its place
	testenv.Require(j.t, testenv.Getent)
	path := j.script("getent", script)
	j.check(os.WriteFile(j.top+"/nsswitch", []byte("passwd: files directory\ngroup: files directory\n"), 0o644))
	j.change = func(cmd *exec.Cmd) {
		under("/bin/sh", "-c", fmt.Sprintf(`mount --bind %s %s && mount --bind %s/nsswitch /etc/nsswitch.conf && p=$1 && shift 2 && exec "$p"`, path, getent, j.top), "sh")(cmd)
		if cmd.SysProcAttr == nil {
			cmd.SysProcAttr = &syscall.SysProcAttr{}
		}
		cmd.SysProcAttr.Unshareflags |= syscall.CLONE_NEWNS
	}
}

// TestUserDatabaseHangs checks that the shepherd waits for the database no longer than userdb does,
// that no program runs without all groups of its user, and that a finished job's result is kept.
func TestUserDatabaseHangs(t *testing.T) {
	for name, c := range map[string]struct {
		getent string // what it says of alice's groups, or of the user far
		epilog string // as whom
		failed job.Failed
		says   string
		ran    string
	}{
		"of the owner's groups":    {"*) exec sleep 1000;;", "", job.FailedInJobChild, `groups of user "alice"`, ""},
		"of a user for the epilog": {`"initgroups alice") echo alice 20001 20100;; *) exec sleep 1000;;`, "far@", job.FailedBeforeEpilog, `user "far"`, "job"},
		"not at all":               {`"initgroups alice") echo alice 20001 20100;; "passwd far") echo far:x:20002:20002::/:/bin/sh;; "initgroups far") echo far 20002;;`, "far@", 0, "", "job epilog"},
	} {
		t.Run(name, func(t *testing.T) {
			needRoot(t)
			t.Parallel()
			j := newJob(t, asRoot, "echo job >>$LOG")
			j.d.Epilog = c.epilog + j.script("epilog", "echo epilog >>"+j.log)
			j.usersFrom("case \"$1 $2\" in\n" + c.getent + "\nesac\n")
			began := time.Now()
			j.run()
			if took := time.Since(began); c.failed != 0 && took < userdb.DefaultPatience {
				t.Errorf("it has taken %v, expected at least %v", took, userdb.DefaultPatience)
			}
			j.expect(c.failed)
			if c.failed != 0 {
				j.expectError(c.says)
				j.expectError(userdb.ErrNoAnswer.Error())
			}
			if got := strings.Join(j.logged(), " "); got != c.ran {
				t.Errorf("steps %q, expected %q", got, c.ran)
			}
			j.nothingLeft()
			if err := unix.Kill(-j.cmd.Process.Pid, 0); err == nil {
				t.Error("somebody of it is left")
			}
		})
	}
}
