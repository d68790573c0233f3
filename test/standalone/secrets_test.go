package standalone

import (
	"encoding/json"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"testing"

	"github.com/execd-project/execd/internal/testenv"
)

// secret is in all private data of a job in TestSecrets: values of variables and of the context,
// arguments, and other parts of a command line.
const secret = "hunter2"

// TestSecrets submits jobs with secrets in every place that may have one. Another user looks for
// them with every command, in every file and at every process of the project; the owner, a manager
// and root see them.
func TestSecrets(t *testing.T) {
	testenv.Require(t, testenv.Root)
	m := newMachine(t, 3)
	users := someUsers(t, 3)
	owner, manager, stranger := users[0], users[1], users[2]
	out := m.open("out")
	m.args = []string{"--manager", manager.Username}
	m.write("job.sh", "#!/bin/sh\ntouch "+out+"/$JOB_ID\nexec sleep 1000\n")
	m.start()
	common := []string{
		"-terse", "-wd", "/", "-o", "/dev/null", "-j", "y", "-v", "PASSWORD=" + secret + ",OTHER=a=" + secret, "-V", "-ac", "token=" + secret + ",plain",
	}
	submit := func(rest ...string) string {
		t.Helper()
		cmd := m.command(t.Context(), owner, "qsub", append(common, rest...)...)
		cmd.Env = append(cmd.Env, "EXPORTED="+secret, "MAIL=/"+secret)
		cmd.Env = append(cmd.Env, "PATH="+os.Getenv("PATH")+":/"+secret)
		text, err := cmd.Output()
		if err != nil {
			t.Fatalf("qsub %q: %v", rest, err)
		}
		return strings.TrimSpace(string(text))
	}
	waits := submit("-h", "job.sh", "--password", secret)
	runs := submit("job.sh", secret)
	line := submit("-b", "y", "-N", "line", "touch "+out+"/$JOB_ID; sleep 1000; : "+secret)
	fails := submit("-b", "y", "-shell", "n", "-N", "fails", "/nowhere/program --password="+secret, secret)
	script := submit("-N", "script", "-S", "/nowhere/shell", "job.sh", secret)
	exits := submit("-b", "y", "-N", "exits", "-shell", "n", "/bin/sh", "-c", "exit 3; : "+secret)
	m.until("two jobs run", func() bool { return exists(filepath.Join(out, runs)) && exists(filepath.Join(out, line)) })
	m.until("the others have ended", func() bool {
		qacct := m.root("qacct", "-f", filepath.Join(m.dir, "spool", "accounting"), "-j", exits).stdout
		qstat := m.root("qstat", "-u", "*").stdout
		return strings.Contains(qacct, "exit_status") && (strings.Count(qstat, " Eqw ") == 2 || strings.Count(qstat, " qw ")+strings.Count(qstat, " r ") == 2)
	})

	programs := [][]string{}
	for _, id := range []string{waits, runs, line, fails, script, exits, "*"} {
		for _, format := range []string{"", "-xml", "-json"} {
			programs = append(programs, strings.Fields("qstat "+format+" -j "+id))
		}
		programs = append(programs, []string{"qacct", "-j", id}, []string{"qacct", "-json", "-j", id})
	}
	for _, options := range []string{"", "-xml", "-json"} {
		for _, what := range []string{
			"qstat -u * -r -ext -pri -urg -t", "qstat -u * -f -F -explain aAcE", "qstat -u * -s z", "qstat -j", "qhost -j -q", "qquota", "qstat -g c",
		} {
			programs = append(programs, strings.Fields(what+" "+options))
		}
	}
	for _, id := range []string{waits, runs, line} {
		programs = append(programs,
			[]string{"qresub", id}, []string{"qalter", "-verify", "-p", "0", id}, []string{"qalter", "-ac", "a=b", id}, []string{"qhold", id},
			[]string{"qmod", "-sj", id}, []string{"qdel", id}, []string{"qalter", "-v", "A=1", id}, []string{"execd", "attach", id})
	}
	programs = append(programs,
		[]string{"execd", "jobs"}, []string{"execd", "jobs", "--all"}, []string{"execd", "jobs", "--json"}, []string{"execd", "status"}, []string{"execd", "status", "--json"})
	says := func(u *user.User, words []string) string {
		t.Helper()
		cmd := m.command(t.Context(), u, words[0], words[1:]...)
		if words[0] == "execd" || words[0] == "qresub" {
			cmd.Path = filepath.Join(m.bin, "execd")
			cmd.Args = append([]string{"execd"}, words...)
			if words[0] == "execd" {
				cmd.Args = words
			}
		}
		text, _ := cmd.CombinedOutput()
		return string(text)
	}
	for _, p := range programs {
		if text := says(stranger, p); strings.Contains(text, secret) {
			t.Errorf("a stranger sees it with %q:\n%s", p, marked(text))
		}
	}
	for _, id := range []string{waits, runs} {
		for _, format := range []string{"", "-xml", "-json"} {
			p := strings.Fields("qstat " + format + " -j " + id)
			if text := says(stranger, p); !strings.Contains(text, "PASSWORD") || !strings.Contains(text, "EXPORTED") || !strings.Contains(text, "token") {
				t.Errorf("a stranger does not see the names with %q:\n%s", p, text)
			}
			for who, u := range map[string]*user.User{"the owner": owner, "a manager": manager, "root": {Uid: "0", Gid: "0", Username: "root"}} {
				if text := says(u, p); strings.Count(text, secret) < 5 {
					t.Errorf("%s does not see all of it with %q:\n%s", who, p, text)
				}
			}
		}
	}
	var document struct {
		Details []struct{ Withheld []string }
	}
	if err := json.Unmarshal([]byte(says(stranger, []string{"qstat", "-json", "-j", waits})), &document); err != nil || len(document.Details) != 1 ||
		strings.Join(document.Details[0].Withheld, " ") != "path mail environment arguments context" {
		t.Errorf("what is withheld is not said: %+v, %v", document, err)
	}

	// This project's files, as the stranger finds them.
	grep := exec.CommandContext(t.Context(), "grep", "-rl", secret, filepath.Join(m.dir, "spool"), filepath.Join(m.dir, "run"), filepath.Join(m.dir, "log"))
	grep.SysProcAttr = credential(t, stranger)
	if text, _ := grep.Output(); len(text) > 0 {
		t.Errorf("a stranger can read it in:\n%s", text)
	}
	if text, _ := exec.CommandContext(t.Context(), "grep", "-c", secret, filepath.Join(m.dir, "log")).Output(); strings.TrimSpace(string(text)) != "0" {
		t.Errorf("the log of the daemon has it %s times", text)
	}
	// Command lines and environments of this project's processes, which /proc shows to everybody.
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	ours := 0
	for _, path := range paths {
		comm, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "comm"))
		if name := strings.TrimSpace(string(comm)); name != "execd" && name != "sge_shepherd-go" {
			continue
		}
		ours++
		for _, file := range []string{"cmdline", "comm"} {
			if text, _ := os.ReadFile(filepath.Join(filepath.Dir(path), file)); strings.Contains(string(text), secret) {
				t.Errorf("%s is %q", path, text)
			}
		}
	}
	if ours < 3 {
		t.Errorf("there are %d processes of ours, want a daemon and two supervisors", ours)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// marked returns the lines of a text that contain a secret.
func marked(text string) string {
	var list []string
	for l := range strings.Lines(text) {
		if strings.Contains(l, secret) {
			list = append(list, strings.TrimRight(l[:min(len(l), 400)], "\n"))
		}
	}
	return strings.Join(list, "\n")
}
