package standalone

import (
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/execd-project/execd/internal/testenv"
)

// TestHostileTexts puts terminal control sequences and forged lines into every text that a user can
// set: options, names of files, the output of a load sensor, a verifier and a prolog, the
// configuration, and a foreign accounting file. Another user and root then run every command that
// prints: no output and no log line contains a control sequence or a forged line.
func TestHostileTexts(t *testing.T) {
	testenv.Require(t, testenv.Root)
	m := newMachine(t, 2)
	users := someUsers(t, 2)
	owner, other := users[0], users[1]
	const evil = "\x1b]0;owned\a\x9b2J\u009b2J\u202e\r\nFORGED: 1\n\t\u2028FORGED"
	const line = "\x1b]0;owned\a\x9b2J\u009b2J\u202e\r\t\u2028FORGED" // where a line break ends the text anyway
	open := m.open("open")
	m.write("sensor.sh", "#!/bin/sh\nwhile read -r l; do [ \"$l\" = quit ] && exit\n"+
		"printf 'begin\\n"+hostName+":said:%s\\n%s\\n"+hostName+":%s:1\\nend\\n' '"+line+"' '"+line+"' '"+line+"'; done\n")
	m.write("prolog.sh", "#!/bin/sh\nprintf '%s' '"+line+"'; printf '%s' '"+line+"' >&2; [ \"$JOB_NAME\" != prolog ]\n")
	m.write("conf/conf/global", groupIDs()+"min_uid 1\nmin_gid 1\nload_sensor "+filepath.Join(m.dir, "sensor.sh")+"\nload_report_time 0:0:1\n")
	m.write("conf/complexes", "said said RESTRING == YES NO NONE 0\n")
	m.write("conf/queues/failing", "qname failing\nhostlist "+hostName+"\nslots 1\nshell /bin/sh\nload_thresholds NONE\nprolog "+filepath.Join(m.dir, "prolog.sh")+"\ntmpdir "+filepath.Join(m.dir, "tmp")+"\n")
	verifiers := map[string]string{ // each says it in another way
		"log": "LOG INFO {}\nLOG WARNING {}\nLOG ERROR {}\nRESULT STATE ACCEPT", "reject": "RESULT STATE REJECT {}", "wait": "RESULT STATE REJECT_WAIT {}",
		"correct": "PARAM N n\nPARAM A {}\nPARAM ac a={}\nPARAM l_hard said={}\nENV ADD B {}\nRESULT STATE CORRECT {}", "name": "PARAM N {}\nRESULT STATE CORRECT",
		"error": "ERROR {}", "odd": "{}", "queue": "PARAM q_hard {}\nPARAM {} x\nRESULT STATE CORRECT", "state": "RESULT STATE {}",
	}
	scripts := []string{"sensor.sh", "prolog.sh"}
	for name, says := range verifiers {
		scripts = append(scripts, name+".jsv")
		m.write(name+".jsv", "#!/bin/sh\nprintf '%s' '"+line+"' >&2\nwhile read -r w rest; do case $w in START) echo STARTED;; BEGIN) printf '%s\\n' '"+
			strings.ReplaceAll(strings.ReplaceAll(says, "{}", line), "\n", "' '")+"';; QUIT) exit;; esac; done\n")
	}
	for kind, text := range map[string]string{"calendars/": "calendar_name {}\nyear NONE\nweek NONE\n", "projects/": "name {}\noticket 0\nfshare 0\nacl NONE\nxacl NONE\n"} {
		m.write("hostile/"+kind+"x"+line, strings.ReplaceAll(text, "{}", "x"+line))
		m.write("hostile/"+kind+"y", strings.ReplaceAll(text, "{}", line))
	}
	m.write("hostile/queues/q", "qname q\nhostlist "+hostName+"\nslots 1\ncalendar "+line+"\nprojects "+line+"\n")
	for _, name := range scripts {
		if err := os.Chmod(filepath.Join(m.dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	m.args = []string{"--log-level", "debug"}
	m.start()

	submit := func(args ...string) result {
		t.Helper()
		r := m.as(owner, "qsub", args...)
		harmlessOutput(t, "qsub", r)
		return r
	}
	dir := filepath.Join(open, "d"+strings.ReplaceAll(evil, "/", ""))
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	good := 0
	// Each option with a hostile value: those that are refused must be so in harmless words.
	for _, args := range [][]string{
		{"-ac", "a=" + evil},
		{"-ac", evil},
		{"-v", "A=" + evil},
		{"-o", "/tmp/" + line},
		{"-o", "/tmp/" + evil},
		{"-e", ":/tmp/" + line},
		{"-i", "/tmp/" + line},
		{"-wd", dir},
		{"-wd", "/tmp/" + line},
		{"-M", line + "@" + line},
		{"-A", evil},
		{"-N", evil},
		{"-P", evil},
		{"-l", "said=" + line},
		{"-l", evil},
		{"-soft", "-l", "said=" + line},
		{"-q", evil},
		{"-q", line + "*"},
		{"-pe", evil, "1"},
		{"-pe", "*" + line, "1"},
		{"-ckpt", evil},
		{"-hold_jid", evil},
		{"-hold_jid", "x" + line + "*"},
		{"-C", evil},
		{"-S", "/bin/" + line},
		{"-a", evil},
		{"-binding", evil},
		{"-c", evil},
		{"-dl", evil},
		{"-js", evil},
		{"-m", evil},
		{"-p", evil},
		{"-r", evil},
		{"-t", evil},
		{"-tc", evil},
		{"-w", evil},
		{"-jsv", "/tmp/" + line},
		{"-@", "/tmp/" + line},
		{"-" + evil},
		{"-masterq", line},
		{"-u", evil},
		{"-display", evil},
		{"-ar", evil},
	} {
		if r := submit(append(append([]string{"-h"}, args...), "-b", "y", "-shell", "n", "-N", "n", "/bin/true", evil)...); r.status == 0 {
			good++
		}
	}
	if good < 10 {
		t.Errorf("only %d jobs were taken", good)
	}
	submit("-h", "-b", "y", "-shell", "n", "-N", "command", "/tmp/"+evil, evil)
	submit("-verify", "-ac", "a="+evil, "-v", "A="+evil, "-b", "y", "-N", "n", "/bin/true", evil)
	submit("/tmp/" + evil)
	asked := 0
	for name := range verifiers {
		r := submit("-h", "-jsv", filepath.Join(m.dir, name+".jsv"), "-b", "y", "-N", "n", "true")
		if strings.Contains(r.stdout+r.stderr, "owned") {
			asked++
		}
	}
	if asked < 5 {
		t.Errorf("the words of only %d verifiers are printed", asked)
	}
	// Jobs that fail, each with a reason of the user's choice.
	for _, args := range [][]string{
		{"-b", "y", "-shell", "n", "-N", "exec", "/nowhere/" + line},
		{"-o", "/nowhere/" + line, "-b", "y", "-N", "output", "true"},
		{"-wd", "/nowhere/" + line, "-b", "y", "-N", "wd", "true"},
		{"-S", "/nowhere/" + line, "-N", "shell"},
	} {
		if args[len(args)-1] == "shell" {
			m.write("job.sh", "#!/bin/sh\ntrue\n")
			args = append(args, "job.sh")
		}
		submit(append([]string{"-q", "all.q", "-j", "y"}, args...)...)
	}
	m.until("the jobs are in error state", func() bool { return strings.Count(m.root("qstat", "-u", "*").stdout, "Eqw") >= 3 })
	submit("-q", "failing", "-b", "y", "-N", "prolog", "-j", "y", "-o", filepath.Join(open, "prolog"), "true")
	m.until("the job with the prolog has failed", func() bool {
		return strings.Contains(m.root("qstat", "-f", "-q", "failing").stdout, " E") || strings.Contains(m.root("qstat", "-j", "prolog").stdout, "error reason")
	})
	m.until("the sensor has reported", func() bool {
		cmd := m.command(t.Context(), &user.User{Uid: "0", Gid: "0", Username: "root"}, "execd", "status")
		cmd.Path, cmd.Err = filepath.Join(m.bin, "execd"), nil
		text, _ := cmd.Output()
		return strings.Contains(string(text), "violation") || strings.Contains(string(text), " ago") || strings.Contains(string(text), "fault")
	})

	accounting := filepath.Join(m.dir, "spool", "accounting")
	foreign := filepath.Join(open, "foreign"+line)
	text := strings.Repeat(line+":", 5) + "7" + strings.Repeat(":1", 50) + "\n{\"job_number\":7,\"owner\":\"\\u001b]0;x\\u0007\\nFORGED\",\"account\":\"\u202e\u009b\"}\n" + line + "\n"
	if err := os.WriteFile(foreign, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	var commands [][]string
	for _, options := range []string{"", "-xml", "-json"} {
		for _, l := range []string{
			"qstat -u *", "qstat -u * -r -ext -urg -pri -t", "qstat -f -u * -F -explain aAcE", "qstat -j *", "qstat -j", "qstat -g c -ext", "qstat -s z -u *",
			"qhost -F", "qhost -j -q", "qquota -u *", "qrstat -u *",
		} {
			commands = append(commands, strings.Fields(l+" "+options))
		}
	}
	for _, l := range []string{
		"qconf -sconf", "qconf -sq failing", "qconf -sc", "qconf -se " + hostName, "qconf -sql", "qconf -sm", "qselect", "sge_share_mon -c 1 -h",
		"execd jobs", "execd jobs --json", "execd status", "execd status --json", "execd doctor", "execd config check " + filepath.Join(m.dir, "conf"),
		"qacct -f " + accounting + " -j", "qacct -f " + accounting + " -json -j", "qacct -f " + accounting + " -o -A -g",
	} {
		commands = append(commands, strings.Fields(l))
	}
	commands = append(commands, []string{"qacct", "-f", foreign, "-j"}, []string{"qacct", "-json", "-f", foreign, "-j"}, []string{"qacct", "-o", "-A", "-f", foreign},
		[]string{"execd", "sensor", "check", filepath.Join(m.dir, "sensor.sh")}, []string{"execd", "sensor", "check", "--json", filepath.Join(m.dir, "sensor.sh")},
		[]string{"execd", line}, []string{"execd", "import", "/tmp/" + line}, []string{"execd", "simulate", "--conf", "/tmp/" + line}, []string{"execd", "config", "check", "/tmp/" + line},
		[]string{"execd", "attach", line}, []string{"execd", "run", "/tmp/" + line},
	)
	for _, kind := range []string{"cal", "prj"} {
		for _, verb := range []string{"s", "d"} {
			commands = append(commands, []string{"qconf", "-" + verb + kind, evil})
		}
		for _, name := range []string{"x" + line, "y"} {
			file := filepath.Join(m.dir, "hostile", map[string]string{"cal": "calendars", "prj": "projects"}[kind], name)
			commands = append(commands, []string{"qconf", "-A" + kind, file}, []string{"qconf", "-M" + kind, file})
		}
	}
	hostile := filepath.Join(m.dir, "hostile")
	commands = append(commands, []string{"qconf", "-Aq", hostile + "/queues/q"}, []string{"qmod", "-d", evil}, []string{"execd", "config", "check", hostile}, []string{"execd", "simulate", "--conf", hostile},
		[]string{"execd", "import", "--from", hostile, "--conf", filepath.Join(m.dir, "imported")}, []string{"execd", "run", "--conf", hostile, "-b", "y", "true"})
	// What is said of what somebody types who was sent a line to paste.
	for _, name := range []string{"qstat", "qhost", "qdel", "qalter", "qhold", "qrls", "qmod", "qresub", "qconf", "qselect", "qquota", "qrstat", "qrsub", "qrdel", "qacct"} {
		commands = append(commands, []string{name, evil}, []string{name, "-" + evil}, []string{name, "-j", evil}, []string{name, "-u", evil}, []string{name, "-l", evil}, []string{name, "-q", evil},
			[]string{name, "-sq", evil}, []string{name, "-f", evil}, []string{name, "-s", evil})
	}
	commands = append(commands, []string{"qmod", "-cj", "*"}, []string{"qhold", "-u", "*"}, []string{"qalter", "-ac", "a=" + evil, "*"}, []string{"qdel", "-u", owner.Username})
	for _, u := range []*user.User{other, {Uid: "0", Gid: "0", Username: "root"}} {
		for _, words := range commands {
			cmd := m.command(t.Context(), u, words[0], words[1:]...)
			if words[0] != "execd" { // some have no link
				cmd.Args = append([]string{"execd"}, words...)
			}
			cmd.Path, cmd.Err = filepath.Join(m.bin, "execd"), nil
			var stdout, stderr strings.Builder
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			_ = cmd.Run()
			harmlessOutput(t, strings.Join(words, " "), result{stdout: stdout.String(), stderr: stderr.String()})
		}
	}
	log, err := os.ReadFile(filepath.Join(m.dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	harmlessOutput(t, "the log", result{stdout: string(log)})
	for _, pattern := range []string{"active_jobs/*/trace", "active_jobs/*/error"} {
		paths, _ := filepath.Glob(filepath.Join(m.dir, "spool", pattern))
		for _, path := range paths {
			b, _ := os.ReadFile(path)
			harmlessOutput(t, path, result{stdout: string(b)})
		}
	}
	if out, err := exec.CommandContext(t.Context(), "grep", "-c", "FORGED", filepath.Join(m.dir, "log")).Output(); err != nil {
		t.Errorf("the log has none of the texts: %s, %v", out, err)
	}
}

// harmlessOutput fails where text is an order to a terminal, or a line is forged.
func harmlessOutput(t *testing.T, what string, r result) {
	t.Helper()
	for _, text := range []string{r.stdout, r.stderr} {
		for l := range strings.Lines(text) {
			l = strings.TrimSuffix(l, "\n")
			i := strings.IndexFunc(l, func(r rune) bool {
				return r != '\t' && (unicode.IsControl(r) || unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp))
			})
			if i >= 0 || !utf8.ValidString(l) {
				t.Errorf("%q prints an order to the terminal: %q", what, l)
			}
			if strings.HasPrefix(strings.TrimSpace(l), "FORGED") {
				t.Errorf("%q prints a line that is forged: %q", what, l)
			}
		}
	}
}
