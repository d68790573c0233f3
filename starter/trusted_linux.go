package starter

import (
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/oslite"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
)

// trustedEnvironment returns Grid Engine's variables as the daemon set them. The execd agent
// records which variables it has set. A real execd does not, and its environment file cannot be
// used: with -v __SGE_PREFIX2__BINARY_PATH=... a user of 8.1.9 chooses SGE_BINARY_PATH in it. Under
// a real execd the variables are deduced from files that no user writes.
func (s *Shepherd) trustedEnvironment() *environment {
	if len(s.d.Trusted) == 0 {
		return s.deducedEnvironment()
	}
	recorded := newEnvironment(s.d.Environment)
	e := newEnvironment()
	for _, name := range s.d.Trusted {
		if recorded.has(name) && slices.Contains(gridEngineNames, name) {
			e.set(name, recorded.get(name))
		}
	}
	return e
}

// deducedEnvironment deduces Grid Engine's variables from the config file, pe_hostfile, and the
// daemon's own environment and bootstrap file. Other variables are taken from the job's environment
// if they are numbers in the valid range; SGE_RSH_COMMAND and the like are absent.
func (s *Shepherd) deducedEnvironment() *environment {
	d := s.d
	e, daemons := newEnvironment(), newEnvironment(s.daemonEnvironment())
	arch, ofJob := job.Arch(runtime.GOARCH), newEnvironment(d.Environment)
	e.set("ARC", arch)
	e.set("SGE_ARCH", arch)
	e.set("ENVIRONMENT", "BATCH")
	e.set("HOSTNAME", d.Host)
	e.set("QUEUE", d.Queue)
	e.set("JOB_ID", itoa(d.ID.Job))
	for _, name := range []string{"JOB_NAME", "REQNAME", "REQUEST"} {
		e.set(name, d.Name)
	}
	e.set("JOB_SCRIPT", d.Command.File)
	e.set("SGE_ACCOUNT", d.Account)
	e.set("RESTARTED", restarted(d, ofJob))
	e.set("SGE_CELL", orWord(daemons.get("SGE_CELL"), defaultCell))
	for _, name := range []string{"SGE_ROOT", "SGE_QMASTER_PORT", "SGE_EXECD_PORT", "TZ"} {
		if daemons.has(name) {
			e.set(name, daemons.get(name))
		}
	}
	if path := binaryPath(daemons); path != "" {
		e.set("SGE_BINARY_PATH", path)
	}
	if cwd, err := unix.Getwd(); err == nil {
		e.set("SGE_JOB_SPOOL_DIR", cwd) // the directory in which a real execd starts this process
	}
	setTask(e, d.ID.Task, ofJob)
	e.set("NSLOTS", "1")
	if d.PE != nil {
		e.set("NSLOTS", itoa(d.PE.Slots))
		e.set("PE", d.PE.Name)
		e.set("PE_HOSTFILE", d.PE.HostFile)
	}
	if hosts, queues := s.granted(); queues > 0 {
		e.set("NHOSTS", itoa(hosts))
		e.set("NQUEUES", itoa(queues))
	}
	if c := d.Ckpt; c != nil && c.Dir != "" {
		e.set("SGE_CKPT_DIR", c.Dir)
	}
	return e
}

// defaultCell is the cell if SGE_CELL is not set (sge_intro(1)).
const defaultCell = "default"

// restarted returns RESTARTED, which the config file contains for checkpointing jobs only.
func restarted(d *job.Description, ofJob *environment) string {
	switch v := ofJob.get("RESTARTED"); v {
	case "1", "2":
		if d.Ckpt == nil {
			return v
		}
	}
	return itoa(int(d.Restarted))
}

// setTask sets the variables of array jobs. For other jobs they contain the word "undefined"
// (sge_submit(1), -t). The config file contains only the task ID.
func setTask(e *environment, task int, ofJob *environment) {
	names := [...]string{"SGE_TASK_FIRST", "SGE_TASK_LAST", "SGE_TASK_STEPSIZE"}
	if task == 0 {
		e.set("SGE_TASK_ID", "undefined")
		for _, name := range names {
			e.set(name, "undefined")
		}
		return
	}
	e.set("SGE_TASK_ID", itoa(task))
	var of [len(names)]int
	for i, name := range names {
		n, err := strconv.Atoi(ofJob.get(name))
		if err != nil || n < 1 {
			return
		}
		of[i] = n
	}
	if first, last, step := of[0], of[1], of[2]; first <= task && task <= last && (task-first)%step == 0 {
		for i, name := range names {
			e.set(name, itoa(of[i]))
		}
	}
}

// granted counts the hosts and queue instances of the job; 0 if that is not known.
func (s *Shepherd) granted() (hosts, queues int) {
	b, err := s.dir.ReadFile(jobdir.FilePEHosts)
	if err != nil {
		return 0, 0
	}
	list, err := jobdir.ParsePEHosts(jobdir.FilePEHosts, b)
	if err != nil {
		s.trace(err.Error())
		return 0, 0
	}
	seen := map[string]bool{}
	for _, h := range list {
		seen[h.Host] = true
	}
	return len(seen), len(list)
}

// binaryPath returns the directory of the executables of a real Grid Engine, as its execd sets
// SGE_BINARY_PATH: binary_path of bootstrap(5) and the architecture. It is empty if the environment
// of the daemon does not lead to that file.
func binaryPath(daemons *environment) string {
	root := daemons.get("SGE_ROOT")
	if !strings.HasPrefix(root, "/") {
		return ""
	}
	b, err := oslite.Read(root + "/" + orWord(daemons.get("SGE_CELL"), defaultCell) + "/common/bootstrap")
	if err != nil {
		return ""
	}
	for line := range strings.SplitSeq(string(b), "\n") {
		if f := strings.Fields(line); len(f) == 2 && f[0] == "binary_path" && strings.HasPrefix(f[1], "/") {
			return f[1] + "/" + job.Arch(runtime.GOARCH)
		}
	}
	return ""
}
