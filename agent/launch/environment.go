package launch

import (
	"cmp"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/submit"
)

// defaultPath is PATH of a job that does not bring its own.
const defaultPath = "/usr/local/bin:/bin:/usr/bin"

// variables is an environment under construction: each name is there once.
type variables struct {
	list    []string // NAME=value
	at      map[string]int
	trusted []string // names, see job.Description.Trusted
}

func newVariables(room int) *variables {
	return &variables{list: make([]string, 0, room), at: make(map[string]int, room)}
}

// set sets a variable to a value that the user chose, or had a part in.
func (v *variables) set(name, value string) {
	i, ok := v.at[name]
	if !ok {
		i = len(v.list)
		v.at[name] = i
		v.list = append(v.list, "")
	}
	v.list[i] = name + "=" + value
}

// defaultCell is the cell where SGE_CELL names none (sge_intro(1)).
const defaultCell = "default"

// say sets a variable of execd about the job. Procedures of other users trust these variables.
func (v *variables) say(name, value string) {
	v.set(name, value)
	v.trusted = append(v.trusted, name)
}

// environment returns the environment of the job: with INHERIT_ENV that of the submission, what -v
// and -V passed on, then the SGE_O_ variables of the submission, then Grid Engine's variables about
// the job. Later variables replace earlier ones (sge_submit(1), ENVIRONMENT VARIABLES).
//
// A user may set any variable that is not set here, whatever its name.
func (o *Assignment) environment(d *job.Description, spool jobdir.Area) *variables {
	const ours = 48 // more than are set below
	v := newVariables(len(o.Request.Env) + ours)
	if o.inheritsEnv() {
		for _, s := range o.SubmitEnv {
			if name, value, ok := strings.Cut(s, "="); ok && name != "" {
				v.set(name, value)
			}
		}
	}
	path := defaultPath
	for _, e := range o.Request.Env {
		v.set(e.Name, e.Value)
		if e.Name == "PATH" {
			path = e.Value
		}
	}
	for _, e := range submit.SubmitEnvironment(o.SubmitEnv, o.Host, o.SubmitDir) {
		v.set(e.Name, e.Value)
	}
	v.set("PATH", d.Tmpdir+":"+path)
	if o.Request.WorkingDir != "" {
		v.set("PWD", d.Cwd)
	}
	v.set("HOME", o.Owner.Home)
	v.set("USER", o.Owner.Name)
	v.set("LOGNAME", o.Owner.Name)
	v.set("SHELL", d.Command.Shell)
	v.set("TMPDIR", d.Tmpdir)
	v.set("TMP", d.Tmpdir)
	if o.Interactive != nil {
		v.set("TERM", cmp.Or(o.Interactive.Term, DefaultTerm))
	}
	if o.Config.ExecdParams.SetLibPath && o.SGERoot != "" {
		lib := o.SGERoot + "/lib/" + o.Arch
		if old, ok := v.at["LD_LIBRARY_PATH"]; ok {
			_, value, _ := strings.Cut(v.list[old], "=")
			lib += ":" + value
		}
		v.set("LD_LIBRARY_PATH", lib)
	}

	v.say("JOB_ID", strconv.Itoa(d.ID.Job))
	for _, name := range []string{"JOB_NAME", "REQNAME", "REQUEST"} {
		v.say(name, d.Name)
	}
	v.say("JOB_SCRIPT", d.Command.File)
	v.say("QUEUE", d.Queue)
	v.say("HOSTNAME", d.Host)
	v.say("ARC", o.Arch)
	v.say("SGE_ARCH", o.Arch)
	v.say("ENVIRONMENT", "BATCH")
	hosts, queues := o.granted()
	v.say("NSLOTS", strconv.Itoa(o.allSlots()))
	v.say("NHOSTS", strconv.Itoa(hosts))
	v.say("NQUEUES", strconv.Itoa(queues))
	v.say("RESTARTED", strconv.Itoa(int(d.Restarted)))
	v.say("SGE_ACCOUNT", d.Account)
	v.say("SGE_CELL", cmp.Or(o.SGECell, defaultCell))
	if o.SGERoot != "" {
		v.say("SGE_ROOT", o.SGERoot)
	}
	v.say("SGE_BINARY_PATH", o.BinaryPath)
	v.say("SGE_JOB_SPOOL_DIR", spool.JobPath(d.ID))
	o.sayTask(v, d)
	o.sayParallel(v, d)
	if d.Ckpt != nil {
		v.say("SGE_CKPT_ENV", d.Ckpt.Name)
		if d.Ckpt.Dir != "" {
			v.say("SGE_CKPT_DIR", d.Ckpt.Dir)
		}
	}
	for _, name := range []string{"TZ", "SGE_QMASTER_PORT", "SGE_EXECD_PORT"} {
		if value, ok := os.LookupEnv(name); ok {
			v.say(name, value)
		}
	}
	return v
}

// sayParallel sets the variables of parallel jobs (sge_pe(5)).
func (o *Assignment) sayParallel(v *variables, d *job.Description) {
	if d.PE == nil {
		return
	}
	v.say("PE", d.PE.Name)
	v.say("PE_HOSTFILE", d.PE.HostFile)
	if !o.PE.ControlSlaves {
		return
	}
	rsh := o.Config.RshCommand
	if rsh == "" {
		rsh = o.SGERoot + "/utilbin/" + o.Arch + "/rsh"
	}
	v.say("SGE_RSH_COMMAND", rsh)
	if n := d.NotifyKill; n.Kind == job.NotifySignal {
		v.say("SGE_NOTIFY_KILL_SIGNAL", n.Signal)
	}
	if n := d.NotifySusp; n.Kind == job.NotifySignal {
		v.say("SGE_NOTIFY_SUSP_SIGNAL", n.Signal)
	}
}

// inheritsEnv reports whether INHERIT_ENV of execd_params is set to true by a configuration. Grid
// Engine's default is true, too, but there it concerns the environment of a daemon. A foreground
// job would get the user's whole environment by accident; -V requests it explicitly.
//
// The variables are put into the environment of the description: the shepherd
// is not started with them, so that Description.InheritEnv stays false.
func (o *Assignment) inheritsEnv() bool {
	text, _ := o.Config.Value("execd_params")
	named := slices.ContainsFunc(strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(",; \t", r) }),
		func(item string) bool {
			name, _, _ := strings.Cut(item, "=")
			return strings.EqualFold(name, "INHERIT_ENV")
		})
	return named && o.Config.ExecdParams.InheritEnv
}

// sayTask sets the variables of array jobs; a job that is none has the word
// "undefined" in them (sge_submit(1), -t).
func (o *Assignment) sayTask(v *variables, d *job.Description) {
	values := [4]string{"undefined", "undefined", "undefined", "undefined"}
	if a := o.Request.Array; a != nil && d.ID.Task != 0 {
		values = [4]string{strconv.Itoa(d.ID.Task), strconv.Itoa(a.First), strconv.Itoa(a.Last), strconv.Itoa(a.Step)}
	}
	for i, name := range []string{"SGE_TASK_ID", "SGE_TASK_FIRST", "SGE_TASK_LAST", "SGE_TASK_STEPSIZE"} {
		v.say(name, values[i])
	}
}
