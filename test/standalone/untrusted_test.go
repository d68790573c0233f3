package standalone

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/execd-project/execd/internal/testenv"
)

// takeover is a way in which another user could control the configuration of root's daemon.
type takeover struct {
	change func(m *machine, uid, gid int) error
	at     string // the component that is reported, below the directory of the test
	says   string
}

var takeovers = map[string]takeover{
	"the directory is a user's":       {func(m *machine, uid, gid int) error { return os.Chown(m.dir+"/conf", uid, gid) }, "/conf", "belongs to"},
	"the directory above is a user's": {func(m *machine, uid, gid int) error { return os.Chown(m.dir, uid, gid) }, "", "belongs to"},
	"the directory has mode 0777":     {func(m *machine, _, _ int) error { return os.Chmod(m.dir+"/conf", 0o777) }, "/conf", "may be written by everybody"},
	"the directory is sticky":         {func(m *machine, _, _ int) error { return os.Chmod(m.dir+"/conf", fs.ModeSticky|0o777) }, "/conf", "may be written by everybody"},
	"a folder has mode 0777":          {func(m *machine, _, _ int) error { return os.Chmod(m.dir+"/conf/queues", 0o777) }, "/conf/queues", "may be written by everybody"},
	"a file has mode 0666":            {func(m *machine, _, _ int) error { return os.Chmod(m.dir+"/conf/queues/all.q", 0o666) }, "/conf/queues/all.q", "may be written by everybody"},
	"a file is a user's":              {func(m *machine, uid, gid int) error { return os.Chown(m.dir+"/conf/conf/global", uid, gid) }, "/conf/conf/global", "belongs to"},
	"a group may write a file": {func(m *machine, _, gid int) error {
		return errors.Join(os.Chown(m.dir+"/conf/queues/all.q", 0, gid), os.Chmod(m.dir+"/conf/queues/all.q", 0o664))
	}, "/conf/queues/all.q", "may be written by group"},
	"a file is a link into a home": {func(m *machine, uid, gid int) error {
		return errors.Join(os.Mkdir(m.dir+"/home", 0o755), os.Chown(m.dir+"/home", uid, gid),
			os.Rename(m.dir+"/conf/queues/all.q", m.dir+"/home/all.q"), os.Symlink(m.dir+"/home/all.q", m.dir+"/conf/queues/all.q"))
	}, "/home", "belongs to"},
	"a folder is a link into a home": {func(m *machine, uid, gid int) error {
		return errors.Join(os.Mkdir(m.dir+"/home", 0o755), os.Chown(m.dir+"/home", uid, gid),
			os.Rename(m.dir+"/conf/queues", m.dir+"/home/queues"), os.Symlink("../home/queues", m.dir+"/conf/queues"))
	}, "/home", "belongs to"},
	"the directory is a link of a user's": {func(m *machine, uid, gid int) error {
		return errors.Join(os.Rename(m.dir+"/conf", m.dir+"/real"), os.Symlink("real", m.dir+"/conf"), os.Lchown(m.dir+"/conf", uid, gid))
	}, "/conf", "belongs to"},
}

// names reports whether a text names the part of the path, the reason, the owner and the mode.
func (c takeover) names(m *machine, text string) bool {
	return strings.Contains(text, m.dir+c.at+`"`) && strings.Contains(text, c.says) && strings.Contains(text, "(owner ") && strings.Contains(text, ", mode ") ||
		// hclog quotes what has quotes.
		strings.Contains(text, m.dir+c.at+`\"`) && strings.Contains(text, c.says)
}

// TestUntrustedConfiguration checks that no process of root reads a configuration that another user
// can change, and that config check and doctor say so.
func TestUntrustedConfiguration(t *testing.T) {
	testenv.Require(t, testenv.Root)
	for name, c := range takeovers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, u := newMachine(t, 1), someUsers(t, 1)[0]
			if err := c.change(m, number(t, u.Uid), number(t, u.Gid)); err != nil {
				t.Fatal(err)
			}
			conf := filepath.Join(m.dir, "conf")
			spool := t.TempDir() // of root, whatever has become of the other directories
			for command, status := range map[string]int{
				"standalone --conf " + conf + " --spool " + spool + " --socket " + spool + "/s":                                        125,
				"agent --conf " + conf + " --spool " + spool + " --socket " + spool + "/s":                                             125,
				"run --as " + u.Username + " --conf " + conf + " -wd / -o /dev/null -j y -b y /bin/touch " + m.dir + "/tmp/it-has-run": 125,
				"config check " + conf:  1,
				"doctor --conf " + conf: 1,
			} {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				cmd := exec.CommandContext(ctx, filepath.Join(m.bin, "execd"), strings.Fields(command)...)
				var said bytes.Buffer
				cmd.Stdout, cmd.Stderr = &said, &said
				_ = cmd.Run()
				cancel()
				text := strings.ReplaceAll(said.String(), ": is not trusted: ", `" `) // the form of config check
				if cmd.ProcessState.ExitCode() != status || !c.names(m, text) {
					t.Errorf("%s\nexit status %d, want %d, and %s%s %s:\n%s", command, cmd.ProcessState.ExitCode(), status, m.dir, c.at, c.says, &said)
				}
			}
			if exists(filepath.Join(m.dir, "tmp/it-has-run")) {
				t.Error("a job has run")
			}
		})
	}
}

// TestUntrustedPrograms checks that config check and doctor name programs for which jobs will be
// refused, because users other than root can change them.
func TestUntrustedPrograms(t *testing.T) {
	testenv.Require(t, testenv.Root)
	m, u := newMachine(t, 1), someUsers(t, 1)[0]
	m.write("bin/mine", "#!/bin/sh\n")
	m.write("bin/theirs", "#!/bin/sh\n")
	mine, theirs := filepath.Join(m.dir, "bin/mine"), filepath.Join(m.dir, "bin/theirs")
	if err := errors.Join(os.Chmod(mine, 0o755), os.Chmod(theirs, 0o755), os.Chown(theirs, number(t, u.Uid), 0)); err != nil {
		t.Fatal(err)
	}
	m.write("conf/queues/other.q", "qname other.q\nhostlist "+hostName+"\nprolog "+theirs+",["+hostName+"=root@"+theirs+" $job_owner]\nepilog root@"+mine+"\n")
	m.write("conf/pes/smp", "pe_name smp\n")
	m.write("conf/pes/p", "pe_name p\nstart_proc_args "+u.Username+"@"+theirs+"\nstop_proc_args root@"+theirs+"\n")
	m.write("conf/conf/global", "prolog root@/nosuch/program\nepilog nosuchuser@"+theirs+"\n")
	conf := filepath.Join(m.dir, "conf")
	for _, args := range [][]string{{"config", "check", conf}, {"doctor", "--conf", conf}} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		cmd := exec.CommandContext(ctx, filepath.Join(m.bin, "execd"), args...)
		out, _ := cmd.CombinedOutput()
		cancel()
		if cmd.ProcessState.ExitCode() != 1 {
			t.Errorf("%q: exit status %d", args, cmd.ProcessState.ExitCode())
		}
		for _, place := range []string{"queues/other.q: prolog", "pes/p: stop_proc_args"} {
			if want := place + `: is not run as root: "` + theirs + `" is not trusted: belongs to ` + u.Username; !strings.Contains(string(out), want) {
				t.Errorf("%q does not say %s:\n%s", args, want, out)
			}
		}
		if n := strings.Count(string(out), "is not run as"); n != 2 {
			t.Errorf("%q names %d programs, want 2:\n%s", args, n, out)
		}
	}
}

// TestUntrustedReload checks that a daemon of root keeps its configuration if another user can change
// the new one, and names that user.
func TestUntrustedReload(t *testing.T) {
	testenv.Require(t, testenv.Root)
	for name, c := range takeovers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, u := newMachine(t, 1), someUsers(t, 1)[0]
			m.start()
			m.until("the daemon answers", func() bool { return m.root("qconf", "-sql").status == 0 })
			m.write("conf/queues/new.q", "qname new.q\nhostlist NONE\n")
			if err := c.change(m, number(t, u.Uid), number(t, u.Gid)); err != nil {
				t.Fatal(err)
			}
			daemon, _ := m.daemon.Process()
			if err := daemon.Signal(syscall.SIGHUP); err != nil {
				t.Fatal(err)
			}
			m.until("the log says why", func() bool {
				log, err := os.ReadFile(filepath.Join(m.dir, "log"))
				return err == nil && bytes.Contains(log, []byte("the configuration has not been changed")) && c.names(m, string(log))
			})
			if r := m.root("qconf", "-sql"); strings.Contains(r.stdout, "new.q") {
				t.Errorf("the configuration is in use: %+v", r)
			}
			before := m.root("qconf", "-sq", "all.q").stdout
			if r := m.root("qconf", "-mattr", "queue", "slots", "7", "all.q"); r.status == 0 {
				t.Errorf("a change was written where another user can put links: %+v", r)
			}
			if after := m.root("qconf", "-sq", "all.q").stdout; after != before {
				t.Errorf("the queue has changed:\n%s", after)
			}
		})
	}
}

// TestOwnConfiguration checks that the daemon of a user reads only files of that user and of root.
func TestOwnConfiguration(t *testing.T) {
	testenv.Require(t, testenv.Root)
	users := someUsers(t, 2)
	for name, c := range map[string]struct {
		owner int
		works bool
	}{
		"its own": {number(t, users[0].Uid), true}, "root's": {0, true}, "another user's": {number(t, users[1].Uid), false},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t, 1)
			m.own(users[0])
			err := filepath.WalkDir(m.dir+"/conf", func(path string, _ fs.DirEntry, err error) error {
				return errors.Join(err, os.Lchown(path, c.owner, c.owner))
			})
			if err != nil {
				t.Fatal(err)
			}
			if c.works {
				m.start()
				m.until("the daemon answers", func() bool { return m.as(users[0], "qconf", "-sql").status == 0 })
				return
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience) // one that starts would stay
			defer cancel()
			cmd := exec.CommandContext(ctx, filepath.Join(m.bin, "execd"), "standalone", "--conf", m.dir+"/conf", "--spool", m.dir+"/spool", "--socket", m.socket())
			cmd.SysProcAttr = credential(m, users[0])
			if said, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(said), "belongs to "+users[1].Username) {
				t.Errorf("%v\n%s", err, said)
			}
		})
	}
}
