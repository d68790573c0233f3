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

// environment is what the job finds in its environment: with INHERIT_ENV that
// of the submission, what was passed on by -v and -V, then the SGE_O_ variables
// of the submission, then what Grid Engine says about the job, each replacing
// those before (sge_submit(1), ENVIRONMENT).
func (o *Order) environment(d *job.Description, spool jobdir.Area) []string {
	const ours = 48 // more than are set below
	list := make([]string, 0, len(o.Request.Env)+ours)
	at := make(map[string]int, len(o.Request.Env)+ours)
	set := func(name, value string) {
		if i, ok := at[name]; ok {
			list[i] = name + "=" + value
			return
		}
		at[name] = len(list)
		list = append(list, name+"="+value)
	}
	if o.inheritsEnv() {
		for _, s := range o.SubmitEnv {
			if name, value, ok := strings.Cut(s, "="); ok && name != "" {
				set(name, value)
			}
		}
	}
	path := defaultPath
	for _, v := range o.Request.Env {
		set(v.Name, v.Value)
		if v.Name == "PATH" {
			path = v.Value
		}
	}
	for _, v := range submit.SubmitEnvironment(o.SubmitEnv, o.Host, o.SubmitDir) {
		set(v.Name, v.Value)
	}
	set("PATH", d.Tmpdir+":"+path)
	if o.Request.WorkingDir != "" {
		set("PWD", d.Cwd)
	}
	set("HOME", o.Owner.Home)
	set("USER", o.Owner.Name)
	set("LOGNAME", o.Owner.Name)
	set("SHELL", d.Command.Shell)

	if o.Interactive != nil {
		set("TERM", cmp.Or(o.Interactive.Term, DefaultTerm))
	}

	set("JOB_ID", strconv.Itoa(d.ID.Job))
	for _, name := range []string{"JOB_NAME", "REQNAME", "REQUEST"} {
		set(name, d.Name)
	}
	set("JOB_SCRIPT", d.Command.File)
	set("QUEUE", d.Queue)
	set("HOSTNAME", d.Host)
	set("ARC", o.Arch)
	set("SGE_ARCH", o.Arch)
	set("ENVIRONMENT", "BATCH")
	hosts, queues := o.granted()
	set("NSLOTS", strconv.Itoa(o.allSlots()))
	set("NHOSTS", strconv.Itoa(hosts))
	set("NQUEUES", strconv.Itoa(queues))
	set("RESTARTED", strconv.Itoa(int(d.Restarted)))
	set("TMPDIR", d.Tmpdir)
	set("TMP", d.Tmpdir)
	set("SGE_ACCOUNT", d.Account)
	set("SGE_CELL", o.SGECell)
	if o.SGERoot != "" {
		set("SGE_ROOT", o.SGERoot)
	}
	set("SGE_BINARY_PATH", o.BinaryPath)
	set("SGE_JOB_SPOOL_DIR", spool.JobPath(d.ID))
	o.setTask(set, d)
	if d.PE != nil {
		set("PE", d.PE.Name)
		set("PE_HOSTFILE", d.PE.HostFile)
		if o.PE.ControlSlaves {
			rsh := o.Config.RshCommand
			if rsh == "" {
				rsh = o.SGERoot + "/utilbin/" + o.Arch + "/rsh"
			}
			set("SGE_RSH_COMMAND", rsh)
			if n := d.NotifyKill; n.Kind == job.NotifySignal {
				set("SGE_NOTIFY_KILL_SIGNAL", n.Signal)
			}
			if n := d.NotifySusp; n.Kind == job.NotifySignal {
				set("SGE_NOTIFY_SUSP_SIGNAL", n.Signal)
			}
		}
	}
	if d.Ckpt != nil {
		set("SGE_CKPT_ENV", d.Ckpt.Name)
		if d.Ckpt.Dir != "" {
			set("SGE_CKPT_DIR", d.Ckpt.Dir)
		}
	}
	if o.Config.ExecdParams.SetLibPath && o.SGERoot != "" {
		lib := o.SGERoot + "/lib/" + o.Arch
		if i, ok := at["LD_LIBRARY_PATH"]; ok {
			_, old, _ := strings.Cut(list[i], "=")
			lib += ":" + old
		}
		set("LD_LIBRARY_PATH", lib)
	}
	for _, name := range []string{"TZ", "SGE_QMASTER_PORT", "SGE_EXECD_PORT"} {
		if v, ok := os.LookupEnv(name); ok {
			set(name, v)
		}
	}
	return list
}

// inheritsEnv reports whether INHERIT_ENV of execd_params is set to true by a
// configuration. Grid Engine's default is true, too, but there it is about the
// environment of a daemon. A job in the foreground would get all of its user's
// by accident, where -V asks for it.
//
// The variables are put into the environment of the description: the shepherd
// is not started with them, so that Description.InheritEnv stays false.
func (o *Order) inheritsEnv() bool {
	text, _ := o.Config.Value("execd_params")
	named := slices.ContainsFunc(strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(",; \t", r) }),
		func(item string) bool {
			name, _, _ := strings.Cut(item, "=")
			return strings.EqualFold(name, "INHERIT_ENV")
		})
	return named && o.Config.ExecdParams.InheritEnv
}

// setTask sets the variables of array jobs; a job that is none has the word
// "undefined" in them (sge_submit(1), -t).
func (o *Order) setTask(set func(name, value string), d *job.Description) {
	values := [4]string{"undefined", "undefined", "undefined", "undefined"}
	if a := o.Request.Array; a != nil && d.ID.Task != 0 {
		values = [4]string{strconv.Itoa(d.ID.Task), strconv.Itoa(a.First), strconv.Itoa(a.Last), strconv.Itoa(a.Step)}
	}
	for i, name := range []string{"SGE_TASK_ID", "SGE_TASK_FIRST", "SGE_TASK_LAST", "SGE_TASK_STEPSIZE"} {
		set(name, values[i])
	}
}
