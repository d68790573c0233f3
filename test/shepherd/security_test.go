package shepherd

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/job"
)

// TestInjectedConfig uses a config file that 8.1.9 writes for a value with a newline: it contains
// lines of the submitter. The whole job is refused.
func TestInjectedConfig(t *testing.T) {
	for name, c := range map[string]struct {
		line  string // of the genuine file, behind which the others come
		added string // % for a script that writes to the log
	}{
		"another owner, behind an argument":     {"job_arg1=argument", "job_owner=bob"},
		"root as the owner, behind an argument": {"job_arg1=argument", "job_owner=root"},
		"an epilog of root":                     {"job_arg1=argument", "epilog=root@%"},
		"a prolog of root":                      {"job_arg1=argument", "prolog=root@%"},
		"no least user id":                      {"job_arg1=argument", "min_uid=0\njob_owner=low"},
		"a terminate_method":                    {"job_arg1=argument", "terminate_method=%"},
		"another argument":                      {"job_arg1=argument", "job_arg2=%"},
		"more arguments":                        {"job_arg1=argument", "njob_args=3"},
		"all that follows, once more": {"job_arg1=argument", "queue_tmpdir=/tmp\nuse_afs=0\nadmin_user=none\nnotify_kill_type=1\n" +
			"notify_kill=default\nnotify_susp_type=1\nnotify_susp=default\nqsub_gid=0\npty=0\nwrite_osjob_id=1\ninherit_env=0"},
		"limits of ours":          {"job_arg1=argument", "s_rt=1"},
		"behind the output path":  {"stdout_path=", "prolog=root@%"},
		"behind the name":         {"job_name=", "epilog=root@%"},
		"behind the account":      {"account=", "epilog=root@%"},
		"behind the project":      {"acct_project=", "epilog=root@%"},
		"behind the mail list":    {"mail_list=", "epilog=root@%"},
		"behind the directory":    {"cwd=", "prolog=root@%"},
		"behind the shell":        {"shell_path=", "script_file=%"},
		"a key that is not known": {"job_arg1=argument", "whatever=1"},
		"an invalid line":         {"job_arg1=argument", "line two"},
		"an empty line":           {"job_arg1=argument", ""},
	} {
		for _, m := range []mode{asRoot, asAdmin} {
			t.Run(name+" "+string(m), func(t *testing.T) {
				needRoot(t)
				t.Parallel()
				j := newJob(t, m, "echo job $(id -u) >>$LOG")
				j.noArguments = true
				j.d.Command.Args = []string{"argument"}
				evil := j.script("evil", "echo evil $(id -u) >>"+j.log)
				j.write()
				var lines []string
				for line := range strings.Lines(j.file("config")) {
					lines = append(lines, line)
					if strings.HasPrefix(line, c.line) {
						lines = append(lines, strings.ReplaceAll(c.added, "%", evil)+"\n")
					}
				}
				j.overwrite("config", strings.Join(lines, ""))
				j.start()
				j.wait()
				j.expect(30)
				j.expectError("config:")
				j.nothingRan()
			})
		}
	}
}

// stateFiles lists all files of a job directory that affect a job's result.
var stateFiles = []string{
	"config", "environment", "arguments", "pid", "trace", "error", "exit_status", "usage", "signal", "addgrpid", "job_pid",
	"checkpointed", "noresources", "pe_hostfile",
}

// TestJobCannotForgeItsVerdict tries attacks that work on 8.1.9, and others.
func TestJobCannotForgeItsVerdict(t *testing.T) {
	needRoot(t)
	for _, m := range []mode{asRoot, asAdmin} {
		t.Run(string(m), func(t *testing.T) {
			t.Parallel()
			j := newJob(t, m, "")
			j.noArguments = m == asAdmin // an additional file of this project
			j.d.Command.File = j.script("script", "cd "+j.active+`
for f in `+strings.Join(stateFiles, " ")+`; do
	(echo 7 >>$f) && echo "wrote $f" >>$LOG
	(echo 7 >$f) && echo "overwrote $f" >>$LOG
	rm -f $f && [ ! -e $f ] && [ -e $LOG.$f ] && echo "removed $f" >>$LOG
	mv $f x && echo "moved $f" >>$LOG
	ln -s /etc/passwd $f.link && echo "linked $f" >>$LOG
	chmod 777 $f && echo "chmod $f" >>$LOG
done 2>/dev/null
for f in config environment arguments; do cat $f >/dev/null 2>&1 && echo "read $f" >>$LOG; done
mv . ../elsewhere 2>/dev/null && echo moved >>$LOG
mkdir sub 2>/dev/null && echo made >>$LOG
exit 3`)
			j.run()
			j.expect(0)
			j.expectUsage(3, 0)
			if got := j.logged(); got[0] != "" {
				t.Errorf("the job has: %q", got)
			}
			id := 0
			if m == asAdmin {
				id = admin
			}
			for _, name := range stateFiles {
				var st syscall.Stat_t
				if err := syscall.Lstat(j.active+"/"+name, &st); err != nil {
					continue
				}
				want := uint32(0o100644)
				if slices.Contains([]string{"config", "environment", "arguments"}, name) {
					want = 0o100600
				}
				if int(st.Uid) != id || int(st.Gid) != id || st.Mode != want {
					t.Errorf("%s is %d:%d with mode 0%o, want %d with 0%o", name, st.Uid, st.Gid, st.Mode, id, want)
				}
			}
		})
	}
}

// TestSubmissionIsPrivate checks that other users cannot read the submitted data, even if sge_execd
// has left it readable.
func TestSubmissionIsPrivate(t *testing.T) {
	needRoot(t)
	for _, m := range []mode{asRoot, asAdmin} {
		t.Run(string(m), func(t *testing.T) {
			t.Parallel()
			j := newJob(t, m, "exit 0")
			j.noArguments = m == asAdmin
			j.setenv("SECRET=password")
			j.d.Prolog = "bob@" + j.script("prolog", "cat "+j.active+"/config "+j.active+"/environment >>"+j.log+" 2>/dev/null; exit 0")
			j.run()
			j.expect(0)
			if got := j.logged(); got[0] != "" {
				t.Errorf("another user has read %q", got[0])
			}
		})
	}
}

// TestShepherdIsOutOfReach checks that the job can neither signal nor trace the shepherd. It can
// signal the shepherd of an ordinary user, but not trace it.
func TestShepherdIsOutOfReach(t *testing.T) {
	everyMode(t, func(t *testing.T, m mode) {
		j := newJob(t, m, "")
		signals := "for s in KILL STOP TERM TSTP TTIN CONT 0; do kill -$s $PPID && echo kill $s; done;"
		if m == asUser {
			signals = ""
		}
		j.d.Command.File = j.script("script", "{ "+signals+`
for f in environ mem maps auxv syscall stack io; do head -c 1 /proc/$PPID/$f && echo $f; done
ls /proc/$PPID/fd/ && echo fd
ls -l /proc/$PPID/cwd /proc/$PPID/root /proc/$PPID/exe | grep -e '->' && echo links
} >>$LOG 2>/dev/null; exit 0`)
		if private || os.Geteuid() != 0 {
			j.run()
			j.expect(0)
			if got := j.logged(); got[0] != "" {
				t.Errorf("the job could: %q", got)
			}
		}
	})
}

// TestDescriptorsStayWithTheShepherd checks that the job does not inherit descriptors with which
// the shepherd was started.
func TestDescriptorsStayWithTheShepherd(t *testing.T) {
	everyMode(t, func(t *testing.T, m mode) {
		j := newJob(t, m, "#!"+base+"/bin/interpreter\n")
		for i := range 20 {
			f, err := os.Open(j.log)
			j.check(err)
			defer f.Close()
			if i%3 != 1 { // with gaps
				j.extraFiles = append(j.extraFiles, f)
			} else {
				j.extraFiles = append(j.extraFiles, nil)
			}
		}
		probe := base + "/bin/command"
		j.d.Prolog, j.d.Epilog = probe, probe
		j.d.PE = &job.ParallelEnvironment{Name: "pe", Start: probe, Stop: probe, StdoutPath: j.work + "/out", StderrPath: j.work + "/err"}
		j.run()
		j.expect(0)
		reports := j.reports("out")
		if len(reports) != 5 {
			t.Errorf("%d reports", len(reports))
		}
		for i, r := range reports {
			if !slices.Equal(r.Fds, []string{"0", "1", "2"}) {
				t.Errorf("step %d has descriptors %v", i, r.Fds)
			}
		}
	})
}

// TestStrangerWithTheGroupOfTheJob runs a process with the job's additional group ID that belongs
// to another job.
func TestStrangerWithTheGroupOfTheJob(t *testing.T) {
	needRoot(t)
	for _, m := range []mode{asRoot, asAdmin} {
		t.Run(string(m), func(t *testing.T) {
			t.Parallel()
			j := count(t, m)
			stranger := exec.Command(base+"/bin/counter", j.told.path, "stranger")
			stranger.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{
				Uid: bob, Gid: bob, Groups: []uint32{uint32(j.d.AddGroupID)},
			}}
			j.check(stranger.Start())
			defer func() {
				_ = stranger.Process.Kill()
				_ = stranger.Wait()
			}()
			j.awaitReady("stranger")
			j.begin("job")
			j.signal(unix.SIGUSR1)
			j.hears(unix.SIGUSR1)
			j.signal(unix.SIGTSTP)
			j.wait()
			j.expectUsage(137, 9)
			for j.moreLines() {
			}
			if !alive(j.pids["stranger"]) {
				t.Error("the stranger was killed")
			}
		})
	}
}

// TestRefusedOwners checks that no step runs for these owners, whatever user the steps would run
// as.
func TestRefusedOwners(t *testing.T) {
	for name, c := range map[string]struct {
		mode  mode
		owner string
		edit  func(d *job.Description)
		says  string
	}{
		"root":                              {asRoot, "root", nil, "root"},
		"root, and no least user id":        {asRoot, "root", func(d *job.Description) { d.MinUID, d.MinGID = 0, 0 }, "root"},
		"root, under a real execd":          {asAdmin, "root", func(d *job.Description) { d.MinUID, d.MinGID = 0, 0 }, "root"},
		"a user below min_uid":              {asRoot, "low", nil, "below min_uid 1000"},
		"a user with a group below min_gid": {asRoot, "alice", func(d *job.Description) { d.MinGID = alice + 1 }, "below min_gid"},
		"nobody knows":                      {asRoot, "nosuchuser", nil, "nosuchuser"},
		"a number":                          {asRoot, strconv.Itoa(bob), nil, strconv.Itoa(bob)},
		"a name with a colon":               {asRoot, "alice:x", nil, "alice:x"},
		"another user, without root":        {asUser, "bob", nil, "only root may"},
		"root, without being root":          {asUser, "root", nil, "only root may"},
		"the same user id is enough":        {asUser, "alice", func(d *job.Description) { d.MinUID = alice + 1 }, "below min_uid"},
		"an owner below, as himself":        {asUser, "alice", func(d *job.Description) { d.MinGID = alice + 1 }, "below min_gid"},
		"a user of an odd upper name":       {asRoot, "ALICE", nil, "ALICE"},
	} {
		t.Run(name, func(t *testing.T) {
			needRoot(t)
			t.Parallel()
			j := newJob(t, c.mode, "echo job >>$LOG")
			j.d.Owner = c.owner
			j.d.Prolog, j.d.Epilog = j.script("prolog", "echo prolog >>"+j.log), j.script("epilog", "echo epilog >>"+j.log)
			if c.mode != asUser {
				j.d.Prolog = "root@" + j.d.Prolog
			}
			if c.edit != nil {
				c.edit(j.d)
			}
			j.run()
			j.expect(job.FailedInJobChild)
			j.expectError(c.says)
			j.nothingRan()
		})
	}
}

// TestGroupOfTheSubmitter checks USE_QSUB_GID. The submit client names the group: it is ignored if
// the user is not a member of it on this host.
func TestGroupOfTheSubmitter(t *testing.T) {
	needRoot(t)
	for name, c := range map[string]struct {
		gid    int
		groups string
	}{
		"none":                {0, "20001 20001 20100"},
		"a group of the user": {staff, "20100 20100"},
		"the user's own":      {alice, "20001 20001 20100"},
		"a group of others":   {bob, "20001 20001 20100"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, asRoot, "echo $(id -g) $(id -G) >>$LOG")
			j.d.QsubGID = c.gid
			j.d.Prolog = j.script("prolog", "echo $(id -g) $(id -G) >>"+j.log)
			j.run()
			j.expect(0)
			want := []string{c.groups, fmt.Sprint(c.groups, " ", j.d.AddGroupID)}
			if got := j.logged(); !slices.Equal(got, want) {
				t.Errorf("groups %q, want %q", got, want)
			}
			var st syscall.Stat_t
			j.check(syscall.Stat(j.work+"/out", &st))
			if gid, _ := strconv.Atoi(strings.Fields(c.groups)[0]); int(st.Gid) != gid {
				t.Errorf("the output has group %d", st.Gid)
			}
		})
	}
}

// TestJobWithoutPrivileges checks that the job has none of the shepherd's rights.
func TestJobWithoutPrivileges(t *testing.T) {
	needRoot(t)
	for _, m := range []mode{asRoot, asAdmin} {
		t.Run(string(m), func(t *testing.T) {
			t.Parallel()
			j := newJob(t, m, "grep Cap /proc/self/status >>$LOG; cat /proc/self/status | grep -e Uid -e Gid -e FSUID >>$LOG")
			j.run()
			j.expect(0)
			for _, line := range j.logged() {
				f := strings.Fields(line)
				switch f[0] {
				case "CapPrm:", "CapEff:", "CapAmb:":
					if strings.Trim(f[1], "0") != "" {
						t.Errorf("the job has %s", line)
					}
				case "Uid:", "Gid:":
					if !slices.Equal(f[1:], []string{"20001", "20001", "20001", "20001"}) {
						t.Errorf("the job has %s", line)
					}
				}
			}
		})
	}
}

// TestModesOfFiles checks that files below a directory of sge_execd belong to the admin user, the
// only user who may write there if the file server maps root to nobody.
func TestModesOfFiles(t *testing.T) {
	everyMode(t, func(t *testing.T, m mode) {
		j := newJob(t, m, "exit 0").run()
		j.expect(0)
		_, uid, gid := owner()
		switch m {
		case asRoot:
			uid, gid = 0, 0
		case asAdmin:
			uid, gid = admin, admin
		}
		for _, name := range []string{"pid", "trace", "error", "exit_status", "usage", "addgrpid", "job_pid"} {
			var st syscall.Stat_t
			j.check(syscall.Lstat(j.active+"/"+name, &st))
			if int(st.Uid) != uid || int(st.Gid) != gid || st.Mode != 0o100644 {
				t.Errorf("%s is %d:%d with mode 0%o, want %d:%d with 0100644", name, st.Uid, st.Gid, st.Mode, uid, gid)
			}
		}
	})
}
