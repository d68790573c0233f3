package shepherd

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/execd-project/execd/job"
)

// stepNames lists the steps in their order.
var stepNames = []string{"prolog", "pe_start", "job", "pe_stop", "epilog"}

// outcome is the outcome of a step.
type outcome string

const (
	absent   outcome = "is not configured"
	zero     outcome = "exit 0"
	missing  outcome = "is missing"
	noExec   outcome = "may not be executed"
	stranger outcome = "is to run as nobody knows"
)

func exits(n int) outcome      { return outcome("exit " + strconv.Itoa(n)) }
func dies(name string) outcome { return outcome("kill -" + name + " $$") }

// status returns the status that a shell reports for a step that ran.
func (o outcome) status() (status, signal int) {
	if s, ok := strings.CutPrefix(string(o), "exit "); ok {
		n, _ := strconv.Atoi(s)
		return n, 0
	}
	signal = map[outcome]int{dies("KILL"): 9, dies("SEGV"): 11, dies("TERM"): 15, dies("ABRT"): 6}[o]
	return 128 + signal, signal
}

func (o outcome) starts() bool { return o != missing && o != noExec && o != stranger && o != absent }

// life is a combination of outcomes of a job's steps.
type life struct {
	outcomes         map[string]outcome
	noReschedule     bool // FORBID_RESCHEDULE
	noAppError       bool // FORBID_APPERROR
	parallel, binary bool
}

// fate is the expected result of a life.
type fate struct {
	ran   []string     // the steps that run
	codes []job.Failed // the failures, in their order: all of the file exit_status
	usage bool         // the job itself ran
}

// model implements sge_shepherd(8) and queue_conf(5) independently, without processes.
func (l life) model() fate {
	var f fate
	// step runs one of the site's procedures; it returns whether it has
	// succeeded, and whether it ran at all.
	step := func(name string, notStarted, failed, signalled job.Failed) (ok, started bool) {
		o := l.outcomes[name]
		switch {
		case o == absent:
			return true, true
		case !o.starts():
			f.codes = append(f.codes, notStarted)
			return false, false
		}
		f.ran = append(f.ran, name)
		switch status, _ := o.status(); {
		case status == 0:
			return true, true
		case status == 99:
			f.codes = append(f.codes, 25)
		case status == 100:
			f.codes = append(f.codes, 30)
		case status > 128 && status <= 128+64: // they run as the owner, who can send signals
			f.codes = append(f.codes, signalled)
		default:
			f.codes = append(f.codes, failed)
		}
		return false, true
	}
	theJob := func() {
		o := l.outcomes["job"]
		if !o.starts() {
			f.codes = append(f.codes, 27)
			return
		}
		f.ran, f.usage = append(f.ran, "job"), true
		switch status, _ := o.status(); {
		case status == 99 && !l.noReschedule:
			f.codes = append(f.codes, 25)
		case status == 100 && !l.noAppError:
			f.codes = append(f.codes, 30)
		}
	}
	ok, started := step("prolog", 8, 8, 30)
	if !started {
		return f
	}
	if ok && !l.parallel {
		theJob()
	}
	if ok && l.parallel {
		ok, started := step("pe_start", 9, 10, 30)
		if ok {
			theJob()
		}
		if started {
			step("pe_stop", 12, 13, 12)
		}
	}
	step("epilog", 14, 15, 14)
	return f
}

// build creates the job.
func (l life) build(t *testing.T, m mode) *testJob {
	t.Helper()
	j := newJob(t, m, "")
	j.d.ForbidReschedule, j.d.ForbidAppError = l.noReschedule, l.noAppError
	if l.parallel {
		j.d.PE = &job.ParallelEnvironment{Name: "pe", Slots: 1, HostFile: j.active + "/pe_hostfile", StdoutPath: j.work, StderrPath: j.work}
	}
	procedures := map[string]*string{"prolog": &j.d.Prolog, "epilog": &j.d.Epilog}
	if l.parallel {
		procedures["pe_start"], procedures["pe_stop"] = &j.d.PE.Start, &j.d.PE.Stop
	}
	for _, name := range stepNames {
		o := l.outcomes[name]
		if name != "job" && procedures[name] == nil || o == absent {
			continue
		}
		text := fmt.Sprintf("echo %s >>%s\n", name, j.log)
		if o.starts() {
			text += string(o)
		}
		path := j.script(name, text)
		switch o {
		case missing:
			j.check(os.Remove(path))
		case noExec:
			j.check(os.Chmod(path, 0o644))
		case stranger:
			path = "nosuchuser@" + path
		}
		if name != "job" {
			*procedures[name] = path
			continue
		}
		j.d.Command.File = path
		if l.binary {
			j.d.Command.Binary, j.d.Command.NoShell = true, true
		}
	}
	return j
}

// compare runs the job and compares its fate with the one that is expected.
func (l life) compare(t *testing.T, j *testJob, want fate) {
	t.Helper()
	j.run()
	if got := j.logged(); !slices.Equal(got, want.ran) && (len(want.ran) > 0 || got[0] != "") {
		t.Errorf("steps %v, want %v", got, want.ran)
	}
	var codes []job.Failed
	for f := range strings.FieldsSeq(j.file("exit_status")) {
		n, err := strconv.Atoi(f)
		j.check(err)
		codes = append(codes, job.Failed(n))
	}
	expected := want.codes
	if len(expected) == 0 {
		expected = []job.Failed{0}
	}
	if !slices.Equal(codes, expected) {
		t.Errorf("failed %v, want %v", codes, expected)
	}
	if j.code != int(expected[0]) {
		t.Errorf("the shepherd ended with %d, want %d", j.code, expected[0])
	}
	if got := strings.Count(j.file("error"), "\n"); got != len(want.codes) {
		t.Errorf("%d lines in the error file, want %d", got, len(want.codes))
	}
	if (j.usage() != nil) != want.usage {
		t.Errorf("usage file is there: %v, want %v", !want.usage, want.usage)
	} else if want.usage {
		j.expectUsage(l.outcomes["job"].status())
	}
}

// TestStepsEnd checks the table of exit codes (queue_conf(5) and sge_shepherd(8)).
func TestStepsEnd(t *testing.T) {
	all := []string{"prolog", "pe_start", "job", "pe_stop", "epilog"}
	afterProlog := []string{"prolog", "epilog"}
	afterStart := []string{"prolog", "pe_start", "pe_stop", "epilog"}
	type row struct {
		ran    []string
		failed []job.Failed
	}
	table := map[string]map[outcome]row{
		"prolog": {
			exits(1): {afterProlog, []job.Failed{8}}, exits(99): {afterProlog, []job.Failed{25}},
			exits(100): {afterProlog, []job.Failed{30}}, exits(255): {afterProlog, []job.Failed{8}},
			dies("KILL"): {afterProlog, []job.Failed{30}}, dies("SEGV"): {afterProlog, []job.Failed{30}}, exits(143): {afterProlog, []job.Failed{30}},
			missing: {nil, []job.Failed{8}}, noExec: {nil, []job.Failed{8}}, stranger: {nil, []job.Failed{8}},
		},
		"pe_start": {
			exits(1): {afterStart, []job.Failed{10}}, exits(99): {afterStart, []job.Failed{25}},
			exits(100): {afterStart, []job.Failed{30}}, exits(255): {afterStart, []job.Failed{10}},
			dies("KILL"): {afterStart, []job.Failed{30}}, dies("SEGV"): {afterStart, []job.Failed{30}}, exits(143): {afterStart, []job.Failed{30}},
			missing: {afterProlog, []job.Failed{9}}, noExec: {afterProlog, []job.Failed{9}}, stranger: {afterProlog, []job.Failed{9}},
		},
		"job": {
			exits(1): {all, nil}, exits(99): {all, []job.Failed{25}}, exits(100): {all, []job.Failed{30}}, exits(255): {all, nil},
			dies("KILL"): {all, nil}, dies("SEGV"): {all, nil}, dies("TERM"): {all, nil}, dies("ABRT"): {all, nil},
			missing: {afterStart, []job.Failed{27}}, noExec: {afterStart, []job.Failed{27}},
		},
		"pe_stop": {
			exits(1): {all, []job.Failed{13}}, exits(99): {all, []job.Failed{25}}, exits(100): {all, []job.Failed{30}},
			exits(255): {all, []job.Failed{13}}, dies("KILL"): {all, []job.Failed{12}}, dies("SEGV"): {all, []job.Failed{12}}, exits(143): {all, []job.Failed{12}},
			missing: {[]string{"prolog", "pe_start", "job", "epilog"}, []job.Failed{12}},
			noExec:  {[]string{"prolog", "pe_start", "job", "epilog"}, []job.Failed{12}},
		},
		"epilog": {
			exits(1): {all, []job.Failed{15}}, exits(99): {all, []job.Failed{25}}, exits(100): {all, []job.Failed{30}},
			exits(255): {all, []job.Failed{15}}, dies("KILL"): {all, []job.Failed{14}}, dies("SEGV"): {all, []job.Failed{14}}, exits(143): {all, []job.Failed{14}},
			missing: {all[:4], []job.Failed{14}}, noExec: {all[:4], []job.Failed{14}}, stranger: {all[:4], []job.Failed{14}},
		},
	}
	for name, outcomes := range table {
		for o, want := range outcomes {
			for _, binary := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s %s, binary %v", name, o, binary), func(t *testing.T) {
					t.Parallel()
					l := life{outcomes: map[string]outcome{}, parallel: true, binary: binary}
					for _, n := range stepNames {
						l.outcomes[n] = zero
					}
					l.outcomes[name] = o
					f := fate{want.ran, want.failed, slices.Contains(want.ran, "job")}
					if m := l.model(); fmt.Sprint(m) != fmt.Sprint(f) {
						t.Errorf("the model says %v, the table %v", m, f)
					}
					l.compare(t, l.build(t, best()), f)
				})
			}
		}
	}
}

// TestProceduresOfOthersEnd checks that a signal to a procedure that runs as a user other than the
// owner of the job is attributed to the queue: only the site can send it.
func TestProceduresOfOthersEnd(t *testing.T) {
	needRoot(t)
	codes := map[string]job.Failed{"prolog": 8, "pe_start": 10, "pe_stop": 13, "epilog": 15}
	for _, as := range []string{"root@", "site@"} {
		for _, text := range []string{"kill -KILL $$", "exit 143", "kill -STOP $$", "sh -c 'kill -STOP $$'; sleep 9"} {
			for name, want := range codes {
				t.Run(as+" "+name+" "+text, func(t *testing.T) {
					t.Parallel()
					j := newJob(t, asRoot, "exit 0")
					j.d.ScriptTimeout = 2 * time.Second
					j.d.PE = &job.ParallelEnvironment{Name: "pe", StdoutPath: j.work, StderrPath: j.work}
					*map[string]*string{"prolog": &j.d.Prolog, "pe_start": &j.d.PE.Start, "pe_stop": &j.d.PE.Stop, "epilog": &j.d.Epilog}[name] = as + j.script("procedure", text)
					j.run()
					j.expect(want)
				})
			}
		}
	}
}

func TestForbiddenExitCodes(t *testing.T) {
	for name, c := range map[string]struct {
		exit                     int
		noReschedule, noAppError bool
		failed                   job.Failed
	}{
		"99 with FORBID_RESCHEDULE is an exit code":  {99, true, false, 0},
		"100 with FORBID_APPERROR is an exit code":   {100, false, true, 0},
		"99 with FORBID_APPERROR reschedules":        {99, false, true, 25},
		"100 with FORBID_RESCHEDULE is an error":     {100, true, false, 30},
		"101 means nothing":                          {101, false, false, 0},
		"a job that exits like a killed one is not":  {137, false, false, 0},
		"a job that exits like one over a limit too": {37, false, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, best(), fmt.Sprint("exit ", c.exit))
			j.d.ForbidReschedule, j.d.ForbidAppError = c.noReschedule, c.noAppError
			j.run()
			j.expect(c.failed)
			j.expectUsage(c.exit, 0)
		})
	}
}

// TestAnyLife checks random combinations: the order of steps and the results agree with the model,
// whatever the five steps do.
func TestAnyLife(t *testing.T) {
	outcomes := []outcome{zero, zero, zero, zero, absent, exits(1), exits(2), exits(99), exits(100), exits(255), dies("KILL"), dies("TERM"), missing, noExec}
	rapid.Check(t, func(r *rapid.T) {
		l := life{
			outcomes:     map[string]outcome{},
			noReschedule: rapid.Bool().Draw(r, "FORBID_RESCHEDULE"),
			noAppError:   rapid.Bool().Draw(r, "FORBID_APPERROR"),
			parallel:     rapid.Bool().Draw(r, "parallel"),
			binary:       rapid.Bool().Draw(r, "binary"),
		}
		for _, name := range stepNames {
			o := rapid.SampledFrom(outcomes).Draw(r, name)
			if name == "job" && o == absent {
				o = zero
			}
			l.outcomes[name] = o
		}
		ok := t.Run("life", func(t *testing.T) { l.compare(t, l.build(t, best()), l.model()) })
		if !ok {
			r.Fatalf("a life that the model does not know: %+v", l)
		}
	})
}

// TestJobExitStat checks that the procedures after the job get its exit status.
func TestJobExitStat(t *testing.T) {
	for o, want := range map[outcome]string{zero: "0", exits(7): "7", exits(99): "99", dies("SEGV"): "139", missing: "unset"} {
		t.Run(string(o), func(t *testing.T) {
			t.Parallel()
			l := life{outcomes: map[string]outcome{"prolog": zero, "pe_start": zero, "job": o, "pe_stop": zero, "epilog": zero}, parallel: true}
			j := l.build(t, best())
			// A value chosen by the user.
			j.setenv("SGE_JOBEXIT_STAT=made up")
			show := func(name string) string {
				return j.script(name, "echo "+name+" ${SGE_JOBEXIT_STAT-unset} >>"+j.log)
			}
			j.d.Prolog, j.d.PE.Start, j.d.PE.Stop, j.d.Epilog = show("a"), show("b"), show("c"), show("d")
			if j.mode == asRoot {
				j.d.Epilog, j.d.PE.Start = "root@"+j.d.Epilog, "site@"+j.d.PE.Start
			}
			j.run()
			got := slices.DeleteFunc(j.logged(), func(s string) bool { return s == "job" })
			if want := []string{"a unset", "b unset", "c " + want, "d " + want}; !slices.Equal(got, want) {
				t.Errorf("SGE_JOBEXIT_STAT is %q, want %q", got, want)
			}
		})
	}
}

// TestUsers checks the user of each step.
func TestUsers(t *testing.T) {
	everyMode(t, func(t *testing.T, m mode) {
		j := newJob(t, m, "echo job $(id -u) $(id -G) >>$LOG")
		j.d.PE = &job.ParallelEnvironment{Name: "pe", Slots: 1, StdoutPath: j.work, StderrPath: j.work}
		show := func(as, name string) string {
			if m == asUser {
				as = ""
			}
			return as + j.script(name, "echo "+name+" $(id -ru) $(id -u) $(id -G) >>"+j.log)
		}
		j.d.Prolog = show("root@", "prolog")
		j.d.PE.Start = show("site@", "pe_start")
		j.d.PE.Stop = show("", "pe_stop")
		j.d.Epilog = show(j.d.Owner+"@", "epilog")
		j.run()
		j.expect(0)
		want := []string{
			"prolog 0 0 0",
			"pe_start 20003 20003 20003",
			fmt.Sprintf("job 20001 20001 20100 %d", j.d.AddGroupID),
			"pe_stop 20001 20001 20001 20100",
			"epilog 20001 20001 20001 20100",
		}
		if m == asUser {
			if !private {
				return
			}
			want[0], want[1] = "prolog 20001 20001 20001 20100", "pe_start 20001 20001 20001 20100"
			want[2] = "job 20001 20001 20100"
		}
		if got := j.logged(); !slices.Equal(got, want) {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

func TestUserPrefixes(t *testing.T) {
	for name, c := range map[string]struct {
		prolog string // % is the path of the prolog
		mode   mode
		failed job.Failed
		says   string
		ran    string
	}{
		"a user that does not exist":                   {"nosuchuser@%", asRoot, 8, `"nosuchuser"`, ""},
		"another user without root":                    {"root@%", asUser, 8, "not root", ""},
		"a name that is a number is not a user id":     {"20002@%", asRoot, 8, `"20002"`, ""},
		"an @ further back is part of the path":        {"%-at@home", asRoot, 0, "", "prolog 20001"},
		"nothing in front of the @":                    {"@%", asRoot, 8, "", ""},
		"a user below min_uid may run procedures":      {"low@%", asRoot, 0, "", "prolog 500"},
		"nothing behind the @":                         {"root@", asRoot, 8, "", ""},
		"a blank prolog does not end the shepherd":     {" ", asRoot, 8, "", ""},
		"blanks and tabs in front":                     {" \t root@%", asRoot, 0, "", "prolog 0"},
		"a no-break space does not separate words":     {"%\u00a0x", asRoot, 8, "", ""},
		"a relative path is searched along fixed PATH": {"true", asRoot, 0, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, c.mode, "echo job >>$LOG")
			path := j.script("prolog", "echo prolog $(id -u) >>"+j.log)
			j.script("prolog-at@home", "echo prolog $(id -u) >>"+j.log)
			j.d.Prolog = strings.ReplaceAll(c.prolog, "%", path)
			j.run()
			j.expect(c.failed)
			var want []string
			if c.ran != "" {
				want = append(want, c.ran)
			}
			if c.failed == 0 {
				want = append(want, "job")
			} else {
				want = []string{""}
				j.expectError(c.says)
			}
			if got := j.logged(); !slices.Equal(got, want) {
				t.Errorf("steps %q, want %q", got, want)
			}
		})
	}
}

// TestPseudoVariables compares the arguments of procedures.
func TestPseudoVariables(t *testing.T) {
	j := newJob(t, best(), "exit 0")
	j.check(os.Mkdir(j.top+"/dir ectory", 0o755))
	j.d.Name, j.d.ID.Task, j.d.Processors = "a name", 7, "0-1"
	j.d.Environment = append(j.d.Environment, "SGE_ROOT=/the root", "SGE_CELL=cell")
	j.d.PE = &job.ParallelEnvironment{Name: "mpi", Slots: 12, HostFile: "/the/host file", StdoutPath: j.work, StderrPath: j.work + "/pe.err"}
	j.d.Streams[1].Path = j.work // a directory: the default name is put there
	j.d.Streams[1].Staging = job.Staging{Host: "fshost", Path: "/fs/path", TmpPath: "/fs/tmp"}
	common := "$host $ja_task_id $job_owner $job_id $job_name $processors $queue $sge_root $sge_cell $unknown $ $$ x$host.y ${host} $hostx"
	streams := " $stdin_path $stdout_path $stderr_path $merge_stderr --out=$stdout_path:$stderr_path"
	staging := " $fs_stdin_host $fs_stdin_path $fs_stdout_host $fs_stdout_path $fs_stdout_tmp_path $fs_stdout_file_staging $fs_stderr_file_staging"
	pe := " $pe_hostfile $pe $pe_slots"
	show := func(name string) string {
		return j.script(name, `for a; do echo "$a"; done >`+j.top+`/`+name+`.args; chmod 644 `+j.top+`/`+name+`.args`) + " "
	}
	j.check(os.Chmod(j.top, 0o777))
	j.d.Prolog = show("prolog") + common + streams + staging + pe
	j.d.PE.Start = show("pe_start") + common + streams + pe
	j.run()
	j.expect(0)

	id := strconv.Itoa(j.d.ID.Job)
	wantCommon := []string{"node1", "7", j.d.Owner, id, "a name", "0-1", "all.q", "/the root", "cell", "$unknown", "$", "$$", "xnode1.y", "${host}", "$hostx"}
	out, err := j.work+"/a name.o"+id+".7", j.work+"/err"
	po := j.work + "/a name.po" + id + ".7"
	for name, want := range map[string][]string{
		"prolog": slices.Concat(wantCommon, []string{"/dev/null", out, err, "0", "--out=" + out + ":" + err},
			[]string{`""`, `""`, "fshost", "/fs/path", `""`, "0", "0"}, []string{"/the/host file", "mpi", "12"}),
		"pe_start": slices.Concat(wantCommon, []string{"/dev/null", po, j.work + "/pe.err", "0", "--out=" + po + ":" + j.work + "/pe.err"},
			[]string{"/the/host file", "mpi", "12"}),
	} {
		b, err := os.ReadFile(j.top + "/" + name + ".args")
		j.check(err)
		got := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
		for i := range max(len(got), len(want)) {
			if i >= len(got) || i >= len(want) || got[i] != want[i] {
				t.Errorf("%s: argument %d of %q\nwant %q", name, i+1, got, want)
				break
			}
		}
	}
}

// TestScriptTimeout ends a procedure with all that it has started.
func TestScriptTimeout(t *testing.T) {
	const hang = "sleep 1000 & (sleep 1000; :) & setsid sleep 1000 & sleep 1000; sleep 1000"
	for name, c := range map[string]struct {
		script string
		code   job.Failed
		step   string
	}{
		"a prolog that hangs":                   {hang, 8, "prolog"},
		"a prolog that ignores SIGTERM":         {"trap '' TERM; " + hang, 8, "prolog"},
		"a prolog whose children ignore it":     {"sh -c \"trap '' TERM; " + hang + "\"; " + hang, 8, "prolog"},
		"a prolog that answers it with success": {"trap 'exit 0' TERM; sleep 1000 & wait", 8, "prolog"},
		"a pe_start that hangs":                 {hang, 10, "pe_start"},
		"a pe_stop that hangs":                  {hang, 13, "pe_stop"},
		"an epilog that hangs":                  {hang, 15, "epilog"},
		"a prolog that is stopped":              {"kill -STOP $$", 30, "prolog"}, // as its owner may do
		"a prolog that forks without end":       {"i=0; trap '' TERM; while :; do sleep 0.05 & i=$((i+1)); [ $i -gt 50 ] && wait && i=0; done", 8, "prolog"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, best(), "echo job >>$LOG")
			j.d.ScriptTimeout = 3 * time.Second // long enough for any procedure to have begun
			path := j.script("procedure", c.script)
			j.d.PE = &job.ParallelEnvironment{Name: "pe", StdoutPath: j.work, StderrPath: j.work}
			*map[string]*string{"prolog": &j.d.Prolog, "pe_start": &j.d.PE.Start, "pe_stop": &j.d.PE.Stop, "epilog": &j.d.Epilog}[c.step] = path
			j.run()
			j.expect(c.code)
			j.expectError("script_timeout")
			ran := j.logged()[0] == "job"
			if want := c.step == "pe_stop" || c.step == "epilog"; ran != want {
				t.Errorf("the job ran: %v", ran)
			}
			j.nothingLeft()
		})
	}
}
