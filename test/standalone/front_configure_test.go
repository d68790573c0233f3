package standalone

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/execd-project/execd/internal/testenv"
)

// TestFrontConfigures checks that with two processes qconf of root changes root's configuration, also what the launcher
// takes from it, and managers change all the rest.
func TestFrontConfigures(t *testing.T) {
	for name, own := range map[string]bool{"a directory of root": false, "no files": true} {
		t.Run(name, func(t *testing.T) { frontConfigures(t, own) })
	}
}

func frontConfigures(t *testing.T, builtin bool) {
	t.Helper()
	m := newFront(t, 1)
	dir := filepath.Join(m.dir, "conf")
	if builtin {
		dir = filepath.Join(m.dir, "spool", "configuration")
		if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
			t.Fatal(err)
		}
		// As qconf of a daemon of one process makes it.
		if err := os.Rename(filepath.Join(m.dir, "conf"), dir); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(filepath.Join(m.dir, "conf"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	out := m.open("out")
	m.write("prolog", "#!/bin/sh\necho prolog >>"+out+"/said\n")
	if err := os.Chmod(filepath.Join(m.dir, "prolog"), 0o755); err != nil {
		t.Fatal(err)
	}
	if builtin { // the division of the spool directory leaves the configuration to root
		two := m.args
		m.args = nil
		m.start()
		if r := m.root("qconf", "-mattr", "queue", "slots", "3", "all.q"); r.status != 0 {
			t.Fatalf("one process: %+v", r)
		}
		m.stop()
		if err := os.RemoveAll(filepath.Dir(m.socket())); err != nil { // another directory than the default one is not given away
			t.Fatal(err)
		}
		m.args = two
	}
	m.start()
	users := someUsers(t, 2)
	manager, u := users[0], users[1]
	good := func(r result) {
		t.Helper()
		if r.status != 0 {
			t.Fatalf("%+v", r)
		}
	}
	good(m.root("qconf", "-am", manager.Username))
	good(m.root("qconf", "-mattr", "queue", "prolog", m.dir+"/prolog", "all.q"))
	if text, err := os.ReadFile(dir + "/queues/all.q"); err != nil || !strings.Contains(string(text), m.dir+"/prolog") {
		t.Fatalf("%s\n%v", text, err)
	}
	run := func() string {
		t.Helper()
		r := m.as(u, "qsub", "-sync", "y", "-b", "y", "-wd", out, "-o", "/dev/null", "-j", "y", "true")
		good(r)
		return strings.Join(lines(t, out+"/said"), " ")
	}
	if said := run(); said != "prolog" {
		t.Errorf("the prolog has not run: %q", said)
	}

	// Managers change what the launcher does not need, and root keeps their values.
	good(m.as(manager, "qconf", "-mattr", "queue", "slots", "7", "all.q"))
	m.write("calendar", "calendar_name c1\nyear NONE\nweek mon-fri=off\n")
	good(m.as(manager, "qconf", "-Acal", m.dir+"/calendar"))
	for _, args := range [][]string{
		{"-mattr", "queue", "prolog", "/bin/true", "all.q"},
		{"-mattr", "queue", "starter_method", "/bin/true", "all.q"},
		{"-mattr", "queue", "shell", "/bin/bash", "all.q"},
		{"-rattr", "queue", "prolog", "NONE", "all.q"},
		{"-dq", "all.q"},
	} {
		if r := m.as(manager, "qconf", args...); r.status == 0 || !strings.Contains(r.stdout+r.stderr, "only root may set it, with qconf on this host") {
			t.Errorf("%q of a manager: %+v", args, r)
		}
	}

	// An editor gets root's text.
	m.write("editor", "#!/bin/sh\ngrep -q '^slots  *7' \"$1\" || exit 1\nsed -i 's,^epilog .*,epilog "+m.dir+"/prolog,' \"$1\"\n")
	if err := os.Chmod(filepath.Join(m.dir, "editor"), 0o755); err != nil {
		t.Fatal(err)
	}
	edit := m.command(t.Context(), self(t), "qconf", "-mq", "all.q")
	edit.Env = append(edit.Env, "EDITOR="+m.dir+"/editor")
	if said, err := edit.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	if said := run(); said != "prolog prolog prolog" {
		t.Errorf("the prolog and the epilog have not run: %q", said)
	}
	for name, args := range map[string][]string{
		"a queue that does not exist": {"-mattr", "queue", "prolog", "/bin/true", "nosuch.q"},
		"a program without a path":    {"-mattr", "queue", "prolog", "x", "all.q"},
	} {
		if r := m.root("qconf", args...); r.status == 0 {
			t.Errorf("%s: %+v", name, r)
		}
	}
	// Both processes are started again, and agree.
	m.stop()
	m.start()
	if r := m.root("qconf", "-sq", "all.q"); !strings.Contains(r.stdout, "epilog                "+m.dir+"/prolog") || !strings.Contains(r.stdout, "slots                 7") {
		t.Errorf("after a start: %+v", r)
	}
	if said := run(); said != "prolog prolog prolog prolog prolog" {
		t.Errorf("after a start: %q", said)
	}
}

// TestFrontStartsAgain checks that qconf of root changes what a launcher needs when it starts: both processes start again
// with it, and running jobs go on. The processes stay the ones that the service manager knows.
func TestFrontStartsAgain(t *testing.T) {
	m := newFront(t, 2)
	out := m.open("out")
	m.start()
	u := someUsers(t, 1)[0]
	m.write("job.sh", "while [ ! -e "+out+"/go ]; do sleep 0.1; done\ntouch "+out+"/gone\n")
	r := m.as(u, "qsub", "-terse", "-wd", out, "-o", "/dev/null", "-j", "y", "job.sh")
	id := strings.TrimSpace(r.stdout)
	if r.status != 0 {
		t.Fatalf("%+v", r)
	}
	m.until("the job runs", func() bool { return strings.Contains(m.root("qstat", "-u", "*", "-s", "r").stdout, " r ") })
	front := m.front()
	pid := m.daemon.Pid()

	global := func(name, value string) result {
		t.Helper()
		text := regexp.MustCompile("(?m)^("+name+" +).*").ReplaceAllString(m.root("qconf", "-sconf", "global").stdout, "${1}"+value)
		m.write("changed/global", regexp.MustCompile("(?m)^#.*\n").ReplaceAllString(text, ""))
		return m.root("qconf", "-Mconf", m.dir+"/changed/global")
	}
	if r := global("min_uid", "100000"); r.status != 0 || !strings.Contains(r.stdout+r.stderr, `modified "global" in configuration list`) {
		t.Fatalf("%+v", r)
	}
	// The next command finds the change in effect.
	if r := m.as(u, "qsub", "-b", "y", "true"); r.status == 0 || !strings.Contains(r.stdout+r.stderr, "min") {
		t.Errorf("a user below min_uid: %+v", r)
	}
	if r := m.root("qconf", "-sconf", "global"); !strings.Contains(r.stdout, "100000") {
		t.Errorf("qconf -sconf: %+v", r)
	}
	m.front(front)
	if text := status(t, pid, "State"); strings.HasPrefix(text, "Z") || m.daemon.Pid() != pid {
		t.Errorf("the launcher is another process, or has ended: %s", text)
	}
	if r := global("shepherd_cmd", "/no/such/program"); r.status == 0 || !strings.Contains(r.stdout+r.stderr, "/no/such/program") {
		t.Errorf("a launcher could not start: %+v", r)
	}
	m.write("out/go", "")
	m.until("the job is in the accounting", func() bool { return len(m.records(id)) == 1 })
	if _, err := os.Stat(out + "/gone"); err != nil || strings.Split(m.records(id)[0], ":")[12] != "0" {
		t.Errorf("the job has failed: %v %q", err, m.records(id))
	}
	// The old front was a child of the launcher, as was the supervisor: none of them remains as a zombie.
	m.until("there are no zombies", func() bool {
		list, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
		for child := range strings.FieldsSeq(string(list)) {
			text, err := os.ReadFile("/proc/" + child + "/status")
			if err == nil && strings.Contains(string(text), "State:\tZ") {
				return false
			}
		}
		return true
	})
	m.refusedNothingBut("configure")
}

// TestFrontMail checks that the mailer of a daemon of two processes may run set-group-ID programs, such as postdrop of
// Postfix, although the front may not.
func TestFrontMail(t *testing.T) {
	m := newFront(t, 1)
	out := m.open("out")
	path, err := exec.LookPath("id")
	if err != nil {
		t.Fatal(err)
	}
	id, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(m.dir, "postdrop")
	m.write("postdrop", string(id))
	const mail = 8
	if err := errors.Join(os.Chown(program, 0, mail), os.Chmod(program, 0o755|os.ModeSetgid)); err != nil {
		t.Fatal(err)
	}
	m.write("mailer", "#!/bin/sh\ntext=$(cat)\necho \"$(id -un) $("+program+" -g) $*\" >>"+out+"/mails\n")
	if err := os.Chmod(filepath.Join(m.dir, "mailer"), 0o755); err != nil {
		t.Fatal(err)
	}
	m.write("conf/conf/global", groupIDs()+"min_uid 1\nmin_gid 1\nmailer "+m.dir+"/mailer\n")
	m.start()
	u := someUsers(t, 1)[0]
	if r := m.as(u, "qsub", "-b", "y", "-m", "e", "-M", "someone@example.org", "-wd", out, "-o", "/dev/null", "-j", "y", "true"); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	m.until("the mail is sent", func() bool { return len(lines(t, out+"/mails")) == 1 })
	if said := lines(t, out+"/mails")[0]; !strings.HasPrefix(said, "nobody 8 -s Job 1 (true) Complete") || !strings.HasSuffix(said, " someone@example.org") {
		t.Errorf("the mailer says %q", said)
	}
	m.refusedNothing()
}

// TestFrontConfigureKilled checks that a change of root is made as a whole or not at all, that qconf says what became of
// it, and that both processes agree, wherever the launcher or the front is killed.
func TestFrontConfigureKilled(t *testing.T) {
	t.Parallel()
	configureKilledAt(t, "configure-journaled")
}

// TestSoakFrontConfigureKilled does so with all places that a change passes.
func TestSoakFrontConfigureKilled(t *testing.T) {
	testenv.Soak(t)
	configureKilledAt(t, "configure-journaled", "configure-written", "configuration-ordered")
}

func configureKilledAt(t *testing.T, points ...string) {
	t.Helper()
	m := newFront(t, 1)
	mortal := t.TempDir()
	if err := testenv.Build(mortal, "failpoint"); err != nil {
		t.Fatal(err)
	}
	testenv.LetIn(t, mortal)
	m.write("conf/queues/b.q", fmt.Sprintf("qname b.q\nhostlist %s\nslots 0\nshell /bin/sh\n", hostName))
	out, log, usual := m.open("out"), filepath.Join(m.dir, "log"), m.bin
	u := someUsers(t, 1)[0]
	fronts := func() int {
		text, _ := os.ReadFile(log)
		return strings.Count(string(text), "the front has ended")
	}
	for _, point := range points {
		program := filepath.Join(m.dir, point)
		m.write(point, "#!/bin/sh\necho "+point+" >>"+out+"/said\n")
		if err := os.Chmod(program, 0o755); err != nil {
			t.Fatal(err)
		}
		before := fronts()
		m.bin, m.env = mortal, []string{"EXECD_FAILPOINT=" + point}
		m.start()
		m.bin, m.env = usual, nil
		configured := make(chan result, 1)
		go func() { configured <- m.root("qconf", "-mattr", "queue", "prolog", program, "all.q,b.q") }()
		_, gone := m.daemon.Process()
		which := ""
		m.until(point+" is met", func() bool {
			select {
			case <-gone:
				which = "launcher"
			default:
				if fronts() > before {
					which = "front"
				}
			}
			return which != ""
		})
		if which == "launcher" {
			m.bin = mortal // the front goes on with the next launcher of the same program
		} else {
			m.daemon.Kill()
		}
		m.start()
		m.bin = usual
		r := <-configured
		made := 0
		for _, queue := range []string{"all.q", "b.q"} {
			text, err := os.ReadFile(filepath.Join(m.dir, "conf", "queues", queue))
			if err != nil {
				t.Fatal(err)
			}
			made += strings.Count(string(text), program)
		}
		said := r.status == 0 || strings.Contains(r.stderr, "has changed")
		if made == 1 || said != (made == 2) {
			t.Errorf("%s: %d of 2 queues have the program, and qconf says %+v", point, made, r)
		}
		if _, err := os.Lstat(filepath.Join(m.dir, "spool", "configuration.journal")); err == nil {
			t.Errorf("%s: the journal is still there", point)
		}
		t.Logf("%s, %s killed: %+v", point, which, r)
		if r := m.as(u, "qsub", "-sync", "y", "-b", "y", "-wd", out, "-o", "/dev/null", "-j", "y", "true"); r.status != 0 {
			t.Errorf("%s: %+v", point, r)
		}
		if list := lines(t, out+"/said"); made == 2 && (len(list) == 0 || list[len(list)-1] != point) {
			t.Errorf("%s: the prologs have said %q", point, list)
		}
		m.stop()
	}
	m.refusedNothing()
}

// TestFrontOfEarlierVersion checks that a front with a configuration of its own, which qconf has made under an earlier
// version, continues to use it, that the launcher does not, and that the daemon says so.
func TestFrontOfEarlierVersion(t *testing.T) {
	t.Parallel()
	m := newFront(t, 1)
	m.start()
	m.until("the daemon answers", func() bool { return m.root("qstat").status == 0 })
	m.stop()
	own := filepath.Join(m.place(), "configuration")
	if err := os.CopyFS(own, os.DirFS(filepath.Join(m.dir, "conf"))); err != nil {
		t.Fatal(err)
	}
	who, err := user.Lookup(frontUser)
	if err != nil {
		t.Fatal(err)
	}
	if err := filepath.WalkDir(own, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, number(t, who.Uid), number(t, who.Gid)))
	}); err != nil {
		t.Fatal(err)
	}
	m.start()
	if r := m.root("qconf", "-mattr", "queue", "prolog", "/bin/true", "all.q"); r.status != 0 {
		t.Errorf("%+v", r)
	}
	for path, want := range map[string]bool{own: true, filepath.Join(m.dir, "conf"): false} {
		if text, err := os.ReadFile(path + "/queues/all.q"); err != nil || strings.Contains(string(text), "/bin/true") != want {
			t.Errorf("%s has the queue %s (%v)", path, text, err)
		}
	}
	if log := m.log(); !strings.Contains(log, "the launcher does not know these changes") {
		t.Errorf("the daemon says\n%s", log)
	}
}
