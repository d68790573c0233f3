package jobdir

import (
	"strings"
	"time"

	"github.com/execd-project/execd/job"
)

// configKeys is every key of the config file in the order in which 8.1.9
// writes them, followed by our own. Reader and writer both follow it.
//
// The order is what makes the file safe to read. The original writes values of
// users unescaped, so whoever gets a newline into one writes lines of the file.
// Every key has one place, none may appear twice and (nearly) none may be
// missing: an added line is in the wrong place, or the genuine one after it is.
// An optional key is therefore never allowed right behind a value that a user
// controls; TestNoLineCanBeAdded tries every key in every place.
func configKeys() []configKey {
	keys := make([]configKey, 0, 144)
	add := func(more ...configKey) { keys = append(keys, more...) }

	add(
		unless(func(d *job.Description) bool { return d.AddGroupID == 0 },
			id("add_grp_id", func(d *job.Description) *int { return &d.AddGroupID })),
		unless(func(d *job.Description) bool { return !d.SkipGroupLimit },
			skipGroupLimit()),
	)
	for i, stream := range []string{"stdin", "stdout", "stderr"} {
		staging := func(d *job.Description) *job.Staging { return &d.Streams[i].Staging }
		add(
			worded("fs_"+stream+"_host", `""`, func(d *job.Description) *string { return &staging(d).Host }),
			text("fs_"+stream+"_path", func(d *job.Description) *string { return &staging(d).Path }),
			text("fs_"+stream+"_tmp_path", func(d *job.Description) *string { return &staging(d).TmpPath }),
			flag("fs_"+stream+"_file_staging", func(d *job.Description) *bool { return &staging(d).Enabled }),
		)
	}
	cwd := func(d *job.Description) string { return d.Cwd }
	add(
		instead(text("stdout_path", func(d *job.Description) *string { return &d.Streams[1].Path }), cwd),
		instead(text("stderr_path", func(d *job.Description) *string { return &d.Streams[2].Path }), cwd),
		instead(text("stdin_path", func(d *job.Description) *string { return &d.Streams[0].Path }),
			func(*job.Description) string { return "/dev/null" }),
		flag("merge_stderr", func(d *job.Description) *bool { return &d.MergeError }),
		text("tmpdir", func(d *job.Description) *string { return &d.Tmpdir }),
		flag("handle_as_binary", func(d *job.Description) *bool { return &d.Command.Binary }),
		flag("no_shell", func(d *job.Description) *bool { return &d.Command.NoShell }),
	)
	add(checkpointKeys()...)
	for _, r := range []job.Resource{job.Vmem, job.CPU, job.Stack, job.Data} {
		add(limit(r, true), perJob(r, true), limit(r, false), perJob(r, false))
	}
	for _, r := range []job.Resource{job.Core, job.RSS, job.Fsize} {
		add(limit(r, true), limit(r, false))
	}
	for _, r := range []job.Resource{job.Descriptors, job.MaxProc, job.MemoryLocked, job.Locks} {
		add(limit(r, false), limit(r, true))
	}
	add(
		number("priority", -1<<15, 1<<15, func(d *job.Description) *int { return &d.Nice }),
		text("shell_path", func(d *job.Description) *string { return &d.Command.Shell }),
		text("script_file", func(d *job.Description) *string { return &d.Command.File }),
		required("job_owner", func(d *job.Description) *string { return &d.Owner }),
		id("min_gid", func(d *job.Description) *int { return &d.MinGID }),
		id("min_uid", func(d *job.Description) *int { return &d.MinUID }),
		text("cwd", func(d *job.Description) *string { return &d.Cwd }),
		worded("prolog", "none", func(d *job.Description) *string { return &d.Prolog }),
		worded("epilog", "none", func(d *job.Description) *string { return &d.Epilog }),
		worded("starter_method", "NONE", func(d *job.Description) *string { return &d.StarterMethod }),
		worded("suspend_method", "NONE", func(d *job.Description) *string { return &d.SuspendMethod }),
		worded("resume_method", "NONE", func(d *job.Description) *string { return &d.ResumeMethod }),
		worded("terminate_method", "NONE", func(d *job.Description) *string { return &d.TerminateMethod }),
		seconds("script_timeout", func(d *job.Description) *time.Duration { return &d.ScriptTimeout }),
	)
	add(parallelKeys()...)
	add(
		shellStartMode(),
		flag("use_login_shell", func(d *job.Description) *bool { return &d.Command.LoginShell }),
		worded("mail_list", "none", func(d *job.Description) *string { return &d.MailList }),
		number("mail_options", 0, mostNumber, func(d *job.Description) *int { return (*int)(&d.MailOptions) }),
		flag("forbid_reschedule", func(d *job.Description) *bool { return &d.ForbidReschedule }),
		flag("forbid_apperror", func(d *job.Description) *bool { return &d.ForbidAppError }),
		text("queue", func(d *job.Description) *string { return &d.Queue }),
		text("host", func(d *job.Description) *string { return &d.Host }),
		worded("processors", "UNDEFINED", func(d *job.Description) *string { return &d.Processors }),
		worded("binding", "NULL", func(d *job.Description) *string { return &d.Binding }),
		text("job_name", func(d *job.Description) *string { return &d.Name }),
		number("job_id", 1, mostNumber, func(d *job.Description) *int { return &d.ID.Job }),
		natural("ja_task_id", func(d *job.Description) *int { return &d.ID.Task }),
		unless(func(d *job.Description) bool { return d.ID.PETask == "" },
			required("pe_task_id", func(d *job.Description) *string { return &d.ID.PETask })),
		text("account", func(d *job.Description) *string { return &d.Account }),
		instant("submission_time", func(d *job.Description) *time.Time { return &d.SubmissionTime }),
		seconds("notify", func(d *job.Description) *time.Duration { return &d.Notify }),
	)
	add(only(isKind("INTERACTIVE"), unless(notInteractive, interactive("exec_file",
		func(i *job.Interactive) *string { return &i.Xterm })))...)
	add(
		worded("acct_project", "none", func(d *job.Description) *string { return &d.Project }),
		argumentCount(),
		configKey{name: "job_arg", arguments: true},
		text("queue_tmpdir", func(d *job.Description) *string { return &d.QueueTmpdir }),
	)
	add(only(isInteractive("INTERACTIVE"),
		interactive("display", func(i *job.Interactive) *string { return &i.Display }))...)
	add(
		constant("use_afs", "0", func(v string) string {
			if v == "1" {
				return "AFS is not supported"
			}
			return zeroOrOne(v)
		}),
		worded("admin_user", "none", func(d *job.Description) *string { return &d.AdminUser }),
	)
	for _, n := range []struct {
		name  string
		field func(d *job.Description) *job.Notification
	}{
		{"notify_kill", func(d *job.Description) *job.Notification { return &d.NotifyKill }},
		{"notify_susp", func(d *job.Description) *job.Notification { return &d.NotifySusp }},
	} {
		add(
			number(n.name+"_type", 0, 2, func(d *job.Description) *int { return (*int)(&n.field(d).Kind) }),
			worded(n.name, "default", func(d *job.Description) *string { return &n.field(d).Signal }),
		)
	}
	add(
		qsubGID(),
		peTaskAgain(),
		number("pty", 0, 2, func(d *job.Description) *int { return (*int)(&d.PTY) }),
	)
	add(interactiveKeys()...)
	add(
		constant("write_osjob_id", "1", zeroOrOne),
		flag("inherit_env", func(d *job.Description) *bool { return &d.InheritEnv }),
		constant("enable_windomacc", "0", zeroOrOne),
		flag("enable_addgrp_kill", func(d *job.Description) *bool { return &d.AddGroupKill }),
		constant("csp", "0", zeroOrOne),
		constant("ignore_fqdn", "0", zeroOrOne),
		constant("default_domain", "none", anything),
	)
	add(ownKeys()...)
	return keys
}

// checkpointKeys are those of a job submitted with -ckpt.
func checkpointKeys() []configKey {
	has := func(d *job.Description) bool { return d.Ckpt != nil }
	command := func(name string, field func(c *job.Checkpoint) *string) configKey {
		return worded(name, "none", func(d *job.Description) *string { return field(d.Ckpt) })
	}
	return append([]configKey{{
		name: "ckpt_job",
		get: func(d *job.Description) (string, string) {
			if has(d) {
				return "1", ""
			}
			return "0", ""
		},
		set: func(d *job.Description, v string) string {
			if v == "1" {
				d.Ckpt = &job.Checkpoint{}
			}
			return zeroOrOne(v)
		},
	}}, only(has,
		number("ckpt_restarted", 0, 2, func(d *job.Description) *int { return (*int)(&d.Restarted) }),
		natural("ckpt_pid", func(d *job.Description) *int { return &d.Ckpt.PID }),
		id("ckpt_osjobid", func(d *job.Description) *int { return &d.Ckpt.OSJobID }),
		text("ckpt_interface", func(d *job.Description) *string { return &d.Ckpt.Interface }),
		command("ckpt_command", func(c *job.Checkpoint) *string { return &c.Command }),
		command("ckpt_migr_command", func(c *job.Checkpoint) *string { return &c.MigrationCommand }),
		command("ckpt_rest_command", func(c *job.Checkpoint) *string { return &c.RestartCommand }),
		command("ckpt_clean_command", func(c *job.Checkpoint) *string { return &c.CleanCommand }),
		command("ckpt_dir", func(c *job.Checkpoint) *string { return &c.Dir }),
		command("ckpt_signal", func(c *job.Checkpoint) *string { return &c.Signal }),
		seconds("ckpt_interval", func(d *job.Description) *time.Duration { return &d.Ckpt.Interval }),
	)...)
}

// parallelKeys are those of sge_pe(5). A serial job has the first three, too.
func parallelKeys() []configKey {
	has := func(d *job.Description) bool { return d.PE != nil }
	procedure := func(name string, field func(p *job.ParallelEnvironment) *string) configKey {
		return worded(name, "none", func(d *job.Description) *string { return field(d.PE) })
	}
	slots := natural("pe_slots", func(d *job.Description) *int {
		if d.PE != nil {
			return &d.PE.Slots
		}
		one := 1 // of a serial job: always this, and never looked at
		return &one
	})
	return append([]configKey{
		{
			name: "pe",
			get: func(d *job.Description) (string, string) {
				switch {
				case d.PE == nil:
					return "none", ""
				case d.PE.Name == "" || strings.EqualFold(d.PE.Name, "none"):
					return "", "a parallel environment needs a name other than " + quote(d.PE.Name)
				}
				return d.PE.Name, ""
			},
			set: func(d *job.Description, v string) string {
				if v == "" {
					return "it is empty"
				}
				if !strings.EqualFold(v, "none") {
					d.PE = &job.ParallelEnvironment{Name: v}
				}
				return ""
			},
		},
		slots,
		natural("host_slots", func(d *job.Description) *int { return &d.HostSlots }),
	}, only(has,
		text("pe_hostfile", func(d *job.Description) *string { return &d.PE.HostFile }),
		procedure("pe_start", func(p *job.ParallelEnvironment) *string { return &p.Start }),
		procedure("pe_stop", func(p *job.ParallelEnvironment) *string { return &p.Stop }),
		// Only in builds with the interface for sorting (Debian's has it).
		unless(func(*job.Description) bool { return false },
			procedure("pe_qsort", func(p *job.ParallelEnvironment) *string { return &p.Qsort })),
		text("pe_stdout_path", func(d *job.Description) *string { return &d.PE.StdoutPath }),
		text("pe_stderr_path", func(d *job.Description) *string { return &d.PE.StderrPath }),
	)...)
}

// The macros that stand in script_file for an interactive job, and the key that
// names the daemon for each.
var interactiveDaemon = [...]struct{ macro, key string }{
	{"QLOGIN", "qlogin_daemon"},
	{"QRSH", "rsh_daemon"},
	{"QRLOGIN", "rlogin_daemon"},
}

func notInteractive(d *job.Description) bool { return d.Interactive == nil }

func isKind(macros ...string) func(d *job.Description) bool {
	return func(d *job.Description) bool {
		for _, m := range macros {
			if d.Command.File == m {
				return true
			}
		}
		return false
	}
}

func isInteractive(macros ...string) func(d *job.Description) bool {
	kind := isKind(macros...)
	return func(d *job.Description) bool { return d.Interactive != nil && kind(d) }
}

// interactive is a text of an interactive job; reading one makes the job such.
func interactive(name string, field func(i *job.Interactive) *string) configKey {
	return configKey{
		name: name,
		get:  func(d *job.Description) (string, string) { return *field(d.Interactive), "" },
		set: func(d *job.Description, v string) string {
			if d.Interactive == nil {
				d.Interactive = &job.Interactive{}
			}
			*field(d.Interactive) = v
			return ""
		},
	}
}

// interactiveKeys are those of qrsh, qlogin and the tasks of qrsh -inherit.
// master_host says whether they are there at all: a binary job may well be a
// command that is called QRSH. qrsh_control_port is a variable of the user;
// only one daemon can come behind it.
func interactiveKeys() []configKey {
	var macros []string
	for _, k := range interactiveDaemon {
		macros = append(macros, k.macro)
	}
	has := isInteractive(macros...)
	keys := append(
		only(isKind(macros...), unless(notInteractive,
			interactive("master_host", func(i *job.Interactive) *string { return &i.MasterHost }))),
		only(has,
			constant("commd_port", "-1", anything),
			unless(func(d *job.Description) bool { return d.Interactive.ControlPort == "" },
				interactive("qrsh_control_port", func(i *job.Interactive) *string { return &i.ControlPort })),
		)...)
	for _, k := range interactiveDaemon {
		keys = append(keys, only(isInteractive(k.macro),
			interactive(k.key, func(i *job.Interactive) *string { return &i.Daemon }))...)
	}
	return append(keys, only(isInteractive("QRSH"),
		interactive("qrsh_tmpdir", func(i *job.Interactive) *string { return &i.Tmpdir }),
		interactive("qrsh_pid_file", func(i *job.Interactive) *string { return &i.PIDFile }),
	)...)
}

// ownKeys stand behind the last key of the original, which does not look at
// keys that it does not ask for. They are written where they say something.
func ownKeys() []configKey {
	keys := []configKey{
		ownLimit(job.RT, false),
		ownLimit(job.RT, true),
		unless(func(d *job.Description) bool { return d.LimitGrace == 0 },
			seconds("limit_grace", func(d *job.Description) *time.Duration { return &d.LimitGrace })),
		onlyIfSet("s_rt_warns", func(d *job.Description) *bool { return &d.SoftRTWarns }),
	}
	for r := range job.NumResources {
		switch r {
		case job.Vmem, job.CPU, job.Stack, job.Data: // have theirs above
			continue
		}
		for _, hard := range []bool{false, true} {
			k := perJob(r, hard)
			keys = append(keys, unless(func(d *job.Description) bool {
				v, _ := k.get(d)
				return v == "0"
			}, k))
		}
	}
	for i, stream := range []string{"stdin", "stdout", "stderr"} {
		keys = append(keys, onlyIfSet(stream+"_inherit", func(d *job.Description) *bool { return &d.Streams[i].Inherit }))
	}
	keys = append(keys, only(func(d *job.Description) bool { return d.Ckpt == nil },
		unless(func(d *job.Description) bool { return d.Restarted == job.FirstRun },
			number("restarted", 0, 2, func(d *job.Description) *int { return (*int)(&d.Restarted) })))...)
	return append(keys, only(func(d *job.Description) bool { return d.Ckpt != nil },
		unless(func(d *job.Description) bool { return d.Ckpt.Name == "" },
			text("ckpt_name", func(d *job.Description) *string { return &d.Ckpt.Name })),
		unless(func(d *job.Description) bool { return d.Ckpt.When == "" },
			text("ckpt_when", func(d *job.Description) *string { return &d.Ckpt.When })),
	)...)
}

// ownLimit is a limit that the original keeps to its daemon. No limit is no key.
func ownLimit(r job.Resource, hard bool) configKey {
	k := limit(r, hard)
	return unless(func(d *job.Description) bool {
		v, _ := k.get(d)
		return v == "INFINITY"
	}, k)
}

func skipGroupLimit() configKey {
	return configKey{
		name: "skip_ngroups_max_silently",
		get:  func(*job.Description) (string, string) { return "yes", "" },
		set: func(d *job.Description, v string) string {
			d.SkipGroupLimit = v == "yes"
			if v != "yes" {
				return quote(v) + " is not yes"
			}
			return ""
		},
	}
}

func shellStartMode() configKey {
	return configKey{
		name: "shell_start_mode",
		get: func(d *job.Description) (string, string) {
			if m := d.Command.StartMode; !m.Valid() {
				return "", quote(string(m)) + " is no shell_start_mode of queue_conf(5)"
			}
			return string(d.Command.StartMode), ""
		},
		set: func(d *job.Description, v string) string {
			d.Command.StartMode = job.ShellStartMode(strings.ToLower(v))
			if !d.Command.StartMode.Valid() {
				return quote(v) + " is no shell_start_mode of queue_conf(5)"
			}
			return ""
		},
	}
}

// argumentCount is njob_args. What the reader does with it is in ParseConfig,
// since a description knows the arguments themselves only.
func argumentCount() configKey {
	count := func(d *job.Description) *int {
		n := len(d.Command.Args)
		return &n
	}
	return natural("njob_args", count)
}

// qsubGID is the group of USE_QSUB_GID, or "no".
func qsubGID() configKey {
	k := id("qsub_gid", func(d *job.Description) *int { return &d.QsubGID })
	get, set := k.get, k.set
	k.get = func(d *job.Description) (string, string) {
		if d.QsubGID == 0 {
			return "no", ""
		}
		return get(d)
	}
	k.set = func(d *job.Description, v string) string {
		if v == "no" {
			d.QsubGID = 0
			return ""
		}
		return set(d, v)
	}
	return k
}

// peTaskAgain is the second pe_task_id: the original writes it twice.
func peTaskAgain() configKey {
	return configKey{
		name: "pe_task_id",
		when: func(d *job.Description) bool { return d.ID.PETask != "" },
		get:  func(d *job.Description) (string, string) { return d.ID.PETask, "" },
		set: func(d *job.Description, v string) string {
			if v != d.ID.PETask {
				return quote(v) + " is not the " + quote(d.ID.PETask) + " of its first line"
			}
			return ""
		},
	}
}
