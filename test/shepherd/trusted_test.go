package shepherd

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/job"
)

// reserved lists all names of variables that Grid Engine sets for jobs and procedures:
// sge_submit(1), sge_pe(5), sge_ckpt(1), queue_conf(5), sge_intro(1) and the code of 8.1.9.
var reserved = []string{
	"ARC", "COD_CKPT_ENV", "COD_ROOT", "CODINE_ROOT", "DISPLAY", "ENVIRONMENT", "GRD_ROOT", "HOME", "HOSTNAME", "JOB_ID",
	"JOB_NAME", "JOB_SCRIPT", "LOGNAME", "NHOSTS", "NQUEUES", "NSLOTS", "PATH", "PE", "PE_HOSTFILE", "PWD", "QRSH_COMMAND", "QRSH_PORT",
	"QRSH_WRAPPER", "QUEUE", "REQNAME", "REQUEST", "RESTARTED", "SGE_ACCOUNT", "SGE_ARCH", "SGE_BINARY_PATH", "SGE_BINDING", "SGE_CELL",
	"SGE_CKPT_DIR", "SGE_CKPT_ENV", "SGE_COMPRESSED_CORE", "SGE_CWD_PATH", "SGE_DEBUG_LEVEL", "SGE_EXECD_PIDFILE",
	"SGE_EXECD_PORT", "SGE_HGR_gpu", "SGE_JOBEXIT_STAT", "SGE_JOB_SPOOL_DIR", "SGE_JOB_TASK_ID", "SGE_NOTIFY_KILL_SIGNAL",
	"SGE_NOTIFY_SUSP_SIGNAL", "SGE_O_HOME", "SGE_O_HOST", "SGE_O_LOGNAME", "SGE_O_MAIL", "SGE_O_PATH", "SGE_O_SHELL", "SGE_O_TZ",
	"SGE_O_WORKDIR", "SGE_QMASTER_PORT", "SGE_ROOT", "SGE_RSH_COMMAND", "SGE_STARTER_SHELL_PATH",
	"SGE_STARTER_SHELL_START_MODE", "SGE_STARTER_USE_LOGIN_SHELL", "SGE_STDERR_PATH", "SGE_STDIN_PATH", "SGE_STDOUT_PATH",
	"SGE_TASK_FIRST", "SGE_TASK_ID", "SGE_TASK_LAST", "SGE_TASK_STEPSIZE", "SHELL", "TERM", "TMP", "TMPDIR", "TZ", "USER",
}

// ofTheUser lists the names in reserved whose values the owner's own procedures get from the job:
// they describe the place of the submission, or the user's session.
var ofTheUser = []string{
	"COD_CKPT_ENV", "COD_ROOT", "CODINE_ROOT", "DISPLAY", "GRD_ROOT", "HOME", "LOGNAME", "PWD", "QRSH_COMMAND", "QRSH_PORT", "QRSH_WRAPPER",
	"SGE_COMPRESSED_CORE", "SGE_DEBUG_LEVEL", "SGE_EXECD_PIDFILE", "SGE_HGR_gpu", "SGE_JOB_TASK_ID", "SGE_O_HOME", "SGE_O_HOST", "SGE_O_LOGNAME",
	"SGE_O_MAIL", "SGE_O_PATH", "SGE_O_SHELL", "SGE_O_TZ", "SGE_O_WORKDIR", "SHELL", "TERM", "TMP", "TMPDIR", "USER",
}

// dumper creates a procedure that writes its arguments and its environment to a file named by the
// first argument. It returns the command and the directory of the files.
func (j *testJob) dumper() (command, dir string) {
	j.t.Helper()
	dir = j.top + "/seen"
	j.check(os.Mkdir(dir, 0o777))
	j.check(os.Chmod(dir, 0o777))
	return j.script("dump", `f=`+dir+`/$1.$$; { echo "args=$*"; /usr/bin/env; } >$f && /bin/mv $f ${f%.*}`), dir
}

// seen returns the environment that dumper has written under a label.
func (j *testJob) seen(dir, label string) map[string]string {
	j.t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, label))
	j.check(err)
	return environmentOf(strings.Split(string(b), "\n"))
}

func environmentOf(list []string) map[string]string {
	vars := map[string]string{}
	for _, v := range list {
		if name, value, ok := strings.Cut(v, "="); ok {
			vars[name] = value
		}
	}
	return vars
}

// TestTrustedVariables gives every variable of Grid Engine a value of the job's choice. Under this
// project's daemon, which records the variables that it sets, and under sge_execd, whose
// environment file may be entirely the user's, no procedure of another user gets such a value under
// its name. No procedure at all gets it for variables that identify the job and its place.
func TestTrustedVariables(t *testing.T) {
	needRoot(t)
	kinds := map[string]func(d *job.Description){
		"a script":           func(*job.Description) {},
		"a command":          func(d *job.Description) { d.Command.Binary = true },
		"a task of an array": func(d *job.Description) { d.ID.Task = 7 },
		"a parallel job": func(d *job.Description) {
			d.PE = &job.ParallelEnvironment{Name: "smp", Slots: 3, HostFile: "/spool/hosts"}
		},
		"a checkpointing job": func(d *job.Description) {
			d.Ckpt = &job.Checkpoint{Name: "ck", Interface: "application-level", Dir: "/ckpt", Interval: time.Second}
		},
		"a job with a starter method": func(d *job.Description) { d.StarterMethod = base + "/bin/run" },
		"a restarted job":             func(d *job.Description) { d.Restarted = job.RestartedJob },
	}
	starter := "#!/bin/sh\nexec \"$@\"\n"
	if err := os.WriteFile(base+"/bin/run", []byte(starter), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, m := range []mode{asRoot, asAdmin} {
		for kind, edit := range kinds {
			t.Run(string(m)+", "+kind, func(t *testing.T) {
				t.Parallel()
				testTrusted(t, m, edit)
			})
		}
	}
}

func testTrusted(t *testing.T, m mode, edit func(d *job.Description)) {
	j := newJob(t, m, "")
	ready, release := j.fifo("ready"), j.fifo("release")
	j.d.Command.File = j.script("script", "echo ready >"+ready.path+"; read x <"+release.path)
	edit(j.d)
	dump, dir := j.dumper()
	j.d.Prolog, j.d.Epilog = "root@"+dump+" prolog $sge_root $sge_cell $queue $job_id", "site@"+dump+" epilog $sge_root $sge_cell $host"
	j.d.SuspendMethod, j.d.ResumeMethod = dump+" suspend $sge_root $sge_cell", dump+" resume"
	if j.d.PE != nil {
		j.d.PE.Start, j.d.PE.Stop = dump+" pe_start $sge_root", "root@"+dump+" pe_stop $sge_root"
	}
	if j.d.Ckpt != nil {
		j.d.Ckpt.Command, j.d.Ckpt.CleanCommand = dump+" ckpt $sge_root", dump+" clean"
	}

	sge := j.top + "/sge"
	j.check(os.MkdirAll(sge+"/default/common", 0o755))
	j.check(os.WriteFile(sge+"/default/common/bootstrap", []byte("admin_user root\nbinary_path             "+sge+"/bin\n"), 0o644))
	want := j.trust(m, sge)
	j.write()
	j.start()
	ready.expect("ready")
	ran := func(label string) {
		t.Helper()
		await(t, label+" to have run", func() bool { _, err := os.Stat(dir + "/" + label); return err == nil })
	}
	if j.d.Ckpt != nil {
		ran("ckpt")
	}
	j.signal(unix.SIGWINCH)
	ran("suspend")
	j.signal(unix.SIGCONT)
	ran("resume")
	release.say("end")
	j.wait()
	j.expect(0)

	// What runs as another user, and what runs as the owner but is held against the queue.
	steps := map[string]bool{"prolog": true, "epilog": true}
	methods := []string{"suspend", "resume"}
	if j.d.PE != nil {
		steps["pe_start"], steps["pe_stop"] = false, true
	}
	if j.d.Ckpt != nil {
		methods = append(methods, "ckpt", "clean")
	}
	for label, other := range steps {
		vars := j.seen(dir, label)
		if strings.Contains(vars["args"], "evil") {
			t.Errorf("%s has the arguments %q", label, vars["args"])
		}
		for name, value := range vars {
			if strings.Contains(value, "evil") && !strings.HasPrefix(name, "SGE_JOB_ENV_") && (other || !slices.Contains(ofTheUser, name)) {
				t.Errorf("%s has %s=%s", label, name, value)
			}
		}
		for name, value := range want {
			if got, ok := vars[name]; got != value && (ok || value != "-") {
				t.Errorf("%s has %s=%s (%v), want %s", label, name, got, ok, value)
			}
		}
		if value := vars["SGE_JOB_ENV_SGE_RSH_COMMAND"]; other != strings.Contains(value, "evil") {
			t.Errorf("%s has the user's SGE_RSH_COMMAND as SGE_JOB_ENV_SGE_RSH_COMMAND=%s", label, value)
		}
	}
	for _, label := range methods {
		vars := j.seen(dir, label)
		if strings.Contains(vars["args"], "evil") {
			t.Errorf("%s has the arguments %q", label, vars["args"])
		}
		for name, value := range want {
			if got := vars[name]; value != "-" && got != value {
				t.Errorf("%s has %s=%s, want %s", label, name, got, value)
			}
		}
	}
}

// trust gives the job its environment, in which every reserved name that its daemon does not
// set has a value of the user's, and returns what procedures are to get; "-" for nothing.
func (j *testJob) trust(m mode, sge string) map[string]string {
	d := j.d
	task := "undefined"
	if d.ID.Task != 0 {
		task = strconv.Itoa(d.ID.Task)
	}
	want := map[string]string{
		"JOB_ID": strconv.Itoa(d.ID.Job), "JOB_NAME": d.Name, "QUEUE": "all.q", "HOSTNAME": "node1", "SGE_TASK_ID": task,
		"SGE_ACCOUNT": "sge", "ENVIRONMENT": "BATCH", "NSLOTS": "1", "PE": "-", "PE_HOSTFILE": "-", "SGE_CKPT_DIR": "-", "SGE_RSH_COMMAND": "-",
		"JOB_SCRIPT": d.Command.File, "SGE_BINDING": "-", "SGE_STARTER_SHELL_PATH": "-", "SGE_EXECD_PORT": "-",
	}
	if d.PE != nil {
		want["PE"], want["PE_HOSTFILE"], want["NSLOTS"] = d.PE.Name, d.PE.HostFile, "3"
	}
	if d.Ckpt != nil {
		want["SGE_CKPT_DIR"] = d.Ckpt.Dir
	}
	var env []string
	d.Trusted = nil
	if m == asRoot {
		for name, value := range want {
			if value != "-" {
				env = append(env, name+"="+value)
				d.Trusted = append(d.Trusted, name)
			}
		}
		want["SGE_ROOT"], want["SGE_CELL"], want["SGE_BINARY_PATH"], want["SGE_QMASTER_PORT"] = "-", "-", "-", "-"
	} else {
		j.noArguments = true
		j.execdEnviron = []string{"SGE_ROOT=" + sge, "SGE_QMASTER_PORT=6444"}
		want["SGE_ROOT"], want["SGE_CELL"], want["SGE_QMASTER_PORT"] = sge, "default", "6444"
		want["SGE_JOB_SPOOL_DIR"] = j.active
	}
	for _, v := range d.Environment {
		if name, _, _ := strings.Cut(v, "="); name == "LOG" {
			env = append(env, v)
		}
	}
	for _, name := range reserved {
		if slices.Contains(d.Trusted, name) {
			continue
		}
		env = append(env, name+"=/evil/"+name)
	}
	d.Environment = env
	return want
}

// TestTaskOfAnArrayUnderAnExecd checks that the range of an array, which is not in the config file, is
// taken from the environment if it fits the number of the task.
func TestTaskOfAnArrayUnderAnExecd(t *testing.T) {
	needRoot(t)
	for text, ok := range map[string]bool{
		"1 9 2": true, "7 7 1": true, "1 9 3": true, "2 9 3": false, "8 9 1": false, "1 6 1": false, "1 9 0": false,
		"1 9 x": false, "-1 9 1": false, "1 9 ": false, "1 $(id) 1": false,
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, asAdmin, "exit 0")
			j.d.ID.Task = 7
			dump, dir := j.dumper()
			j.d.Prolog = "root@" + dump + " prolog"
			f := strings.SplitN(text, " ", 3)
			j.setenv("SGE_TASK_FIRST="+f[0], "SGE_TASK_LAST="+f[1], "SGE_TASK_STEPSIZE="+f[2])
			j.run()
			j.expect(0)
			vars := j.seen(dir, "prolog")
			for i, name := range []string{"SGE_TASK_FIRST", "SGE_TASK_LAST", "SGE_TASK_STEPSIZE"} {
				if got, there := vars[name]; there != ok || ok && got != f[i] {
					t.Errorf("%s is %q, %v", name, got, there)
				}
			}
		})
	}
}

// TestOriginalShepherdIsNotTheUsers checks that a job of qrsh under a real execd is handed over to the
// original shepherd, and that SGE_BINARY_PATH of the job does not choose that program.
func TestOriginalShepherdIsNotTheUsers(t *testing.T) {
	needRoot(t)
	j := newJob(t, asAdmin, "")
	j.noArguments = true
	planted := j.work + "/bin"
	j.check(os.Mkdir(planted, 0o755))
	// The link belongs to the user, and its target to root.
	j.check(os.Symlink(j.script("evil", "id -u >>"+j.log), planted+"/sge_shepherd"))
	j.d.Command.File = "QRSH"
	j.d.Interactive = &job.Interactive{MasterHost: "node1", ControlPort: "node1:1", Daemon: "builtin"}
	j.setenv("SGE_BINARY_PATH=" + planted)
	j.change = func(cmd *exec.Cmd) {
		// Without the one that the machine may have.
		under("/bin/sh", "-c", `[ ! -d /usr/lib/gridengine ] || mount -t tmpfs none /usr/lib/gridengine; p=$1; shift 2; exec "$p" "$@"`, "sh")(cmd)
		cmd.SysProcAttr.Unshareflags |= syscall.CLONE_NEWNS
	}
	j.run()
	if got := j.logged(); got[0] != "" {
		t.Errorf("the program of the user ran as user id %q", got)
	}
	j.expectError("was not found")
}

// TestEditedEnvironment makes procedures edit the file environment of the job directory, as sites
// do to set CUDA_VISIBLE_DEVICES. The changes apply from the next step on, for the job and, under
// their own names, for procedures that run as the job's owner. Procedures of other users do not
// trust them.
func TestEditedEnvironment(t *testing.T) {
	everyMode(t, func(t *testing.T, m mode) {
		j := newJob(t, m, "")
		dump, dir := j.dumper()
		other := "root@"
		if m == asUser {
			other = ""
		}
		edit := j.script("edit", `cd `+j.active+` && case $1 in
prolog) printf 'ADDED=prolog\nEMPTY=\n\nno variable\n=none\nTWO=a\\nb\\\\c\nUSERS=changed\nSGE_ROOT=/evil\nQUEUE=/evil\nPATH=/evil\nLAST=unfinished' >>environment; sed -i /^GONE=/d environment;;
pe_start) printf '\nADDED=pe_start\n' >>environment;;
pe_stop) echo ADDED=pe_stop >>environment;;
esac; `+dump+` $1; [ $1 != pe_stop ] || exit 3`)
		j.setenv("USERS=mine", "GONE=soon")
		j.d.Command.File = j.script("script", dump+" job")
		j.d.Prolog, j.d.Epilog = other+edit+" prolog", dump+" epilog"
		j.d.PE = &job.ParallelEnvironment{Name: "pe", Slots: 1, HostFile: "/hosts", Start: other + edit + " pe_start", Stop: other + edit + " pe_stop", StdoutPath: j.work, StderrPath: j.work}
		j.run()
		j.expect(13)
		for label, want := range map[string]map[string]string{
			"job":    {"ADDED": "pe_start", "EMPTY": "", "TWO": "a", "USERS": "changed", "LAST": "unfinished", "SGE_ROOT": "/evil", "GONE": "-", "PATH": "/evil"},
			"epilog": {"ADDED": "pe_stop", "USERS": "changed", "SGE_ROOT": "/sge", "QUEUE": "all.q", "GONE": "-", "PATH": cleanPath},
		} {
			vars := j.seen(dir, label)
			for name, value := range want {
				if got, ok := vars[name]; got != value && (ok || value != "-") {
					t.Errorf("%s has %s=%s (%v), want %s", label, name, got, ok, value)
				}
			}
		}
		if m == asUser {
			return
		}
		vars := j.seen(dir, "pe_stop")
		for name, value := range map[string]string{
			"ADDED": "-", "SGE_JOB_ENV_ADDED": "pe_start", "SGE_JOB_ENV_LAST": "unfinished", "SGE_ROOT": "/sge", "QUEUE": "all.q", "PATH": cleanPath, "USERS": "-",
		} {
			if got, ok := vars[name]; got != value && (ok || value != "-") {
				t.Errorf("pe_stop of root has %s=%s (%v), want %s", name, got, ok, value)
			}
		}
		if trace := j.file("trace"); !strings.Contains(trace, "expected NAME=value; prolog may have written it") {
			t.Error("the trace does not tell of the lines that are no variables")
		}
	})
}

// TestEnvironmentIsNotTheUsers checks that neither a procedure of the owner nor the job can write
// to the file. If the file is missing, the failure is attributed to the procedure that removed it.
func TestEnvironmentIsNotTheUsers(t *testing.T) {
	needRoot(t)
	for _, m := range []mode{asRoot, asAdmin} {
		t.Run(string(m), func(t *testing.T) {
			t.Parallel()
			j := newJob(t, m, "")
			dump, dir := j.dumper()
			write := "cd " + j.active + "; { echo MINE=1 >>environment; chmod 666 environment; rm -f environment; mv environment x; ln -sf /etc/passwd environment; } 2>/dev/null; exit 0"
			j.d.Command.File = j.script("script", write)
			j.d.Prolog, j.d.Epilog = j.script("prolog", write), "root@"+dump+" epilog"
			j.run()
			j.expect(0)
			if vars := j.seen(dir, "epilog"); vars["SGE_JOB_ENV_MINE"] != "" || vars["SGE_JOB_ENV_LOG"] != j.log {
				t.Errorf("the epilog has %q", vars)
			}
		})
		t.Run(string(m)+", removed by root", func(t *testing.T) {
			t.Parallel()
			j := newJob(t, m, "echo job >>$LOG")
			j.d.Prolog = "root@" + j.script("prolog", "rm "+j.active+"/environment")
			j.run()
			j.expect(8)
			j.expectError("environment")
			if got := j.logged(); got[0] != "" {
				t.Errorf("steps %q", got)
			}
		})
	}
}

// TestEditedConfig checks that the description of a job is read only once.
func TestEditedConfig(t *testing.T) {
	everyMode(t, func(t *testing.T, m mode) {
		j := newJob(t, m, "pwd >>$LOG")
		other := "root@"
		if m == asUser {
			other = ""
		}
		j.d.Epilog = j.script("epilog", "echo epilog >>"+j.log)
		j.d.Prolog = other + j.script("prolog", "cd "+j.active+"; sed -i -e s,^cwd=.*,cwd=/, -e s,^epilog=.*,epilog=none, config; grep -c -e ^cwd=/$ -e ^epilog=none config >>"+j.log)
		j.run()
		j.expect(0)
		if got := j.logged(); !slices.Equal(got, []string{"2", j.work, "epilog"}) {
			t.Errorf("steps %q", got)
		}
	})
}
