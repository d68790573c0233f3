package standalone

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/execd-project/execd/internal/testenv"
)

// withUsers has the daemon see another user database (passwd(5)): that of this host, with or without the user execd.
func (m *machine) withUsers(front bool) {
	m.Helper()
	testenv.Require(m, testenv.Root)
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		m.Skip("needs unshare of util-linux, which gives a process its own mounts")
	}
	for name, line := range map[string]string{"passwd": "execd:x:989:989::/:/usr/sbin/nologin\n", "group": "execd:x:989:\n"} {
		text, err := os.ReadFile("/etc/" + name)
		if err != nil {
			m.Fatal(err)
		}
		text = regexp.MustCompile(`(?m)^execd:.*\n`).ReplaceAll(text, nil)
		if front {
			text = append(text, line...)
		}
		m.write(name, string(text))
	}
	m.wrap = []string{unshare, "-m", "--propagation", "private", "sh", "-ec", `mount --bind "$0/passwd" /etc/passwd; mount --bind "$0/group" /etc/group; exec "$@"`, m.dir}
}

// ended waits until the daemon has ended by itself, or ends it.
func (m *machine) ended() {
	m.Helper()
	p, gone := m.daemon.Process()
	_ = p.Signal(syscall.SIGTERM)
	<-gone
}

// TestDefaultProcesses checks how many processes a daemon of root has that was started without an option about it.
func TestDefaultProcesses(t *testing.T) {
	for name, c := range map[string]struct {
		without bool             // the host has no user execd
		prepare func(m *machine) // before the start
		front   string           // the user of the front; empty for one process
		says    string           // the reason for one process
	}{
		"a new directory":            {front: "execd"},
		"a host without the user":    {without: true, says: "there is no user execd"},
		"a directory of one process": {prepare: oneProcessBefore, says: "was made by a daemon of one process; --front-user execd divides it"},
		"a directory of two processes": {prepare: func(m *machine) {
			m.args = []string{"--front-user", frontUser}
			m.start()
			m.until("the daemon answers", func() bool { return m.root("qstat").status == 0 })
			m.ended()
			m.args = nil
		}, front: frontUser},
		"a configuration that only root can read": {prepare: func(m *machine) {
			if err := os.Chmod(filepath.Join(m.dir, "conf", "queues", "all.q"), 0o600); err != nil {
				m.Fatal(err)
			}
		}, says: "the user execd has no access to "},
		"a privileged port":         {prepare: func(m *machine) { m.args = []string{"--metrics", "127.0.0.1:999"} }, says: "only root can use port 999"},
		"the option of one process": {prepare: func(m *machine) { m.args = []string{"--one-process"} }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t, 1)
			m.args, m.byDefault = nil, true
			m.withUsers(!c.without)
			if c.prepare != nil {
				c.prepare(m)
			}
			m.start()
			u := someUsers(t, 1)[0]
			m.until("the daemon answers", func() bool { return m.root("qstat").status == 0 })
			if r := m.as(u, "qsub", "-sync", "y", "-wd", "/", "-o", "/dev/null", "-j", "y", "-b", "y", "true"); r.status != 0 {
				t.Errorf("qsub: %+v", r)
			}
			_, err := os.Stat(filepath.Join(m.dir, "spool", "front"))
			if two := err == nil; two != (c.front != "") {
				t.Errorf("two processes: %t", two)
			}
			if c.front != "" {
				info, err := os.Stat(filepath.Join(m.dir, "spool", "front"))
				if err != nil {
					t.Fatal(err)
				}
				want := number(t, lookup(t, m, c.front))
				if uid := int(info.Sys().(*syscall.Stat_t).Uid); uid != want {
					t.Errorf("the front has user ID %d, expected %d", uid, want)
				}
				m.refusedNothing()
			}
			said := strings.Contains(m.log(), "one process with the rights of root reads what users type, because ")
			if said != (c.says != "") || !strings.Contains(m.log(), c.says) {
				t.Errorf("the daemon says:\n%s\nexpected %q", m.log(), c.says)
			}
		})
	}
}

// lookup returns the ID of a user in the daemon's database.
func lookup(t *testing.T, m *machine, name string) string {
	t.Helper()
	for _, line := range lines(t, filepath.Join(m.dir, "passwd")) {
		if fields := strings.Split(line, ":"); fields[0] == name {
			return fields[2]
		}
	}
	t.Fatalf("there is no user %s", name)
	return ""
}

// oneProcessBefore runs a daemon of one process in the spool directory.
func oneProcessBefore(m *machine) {
	m.args = []string{"--one-process"}
	m.start()
	m.until("the daemon answers", func() bool { return m.root("qstat").status == 0 })
	m.ended()
	m.args = nil
}
