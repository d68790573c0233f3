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
var configKeys = [...]configKey{
	{name: "add_grp_id", value: number{0, mostID, func(d *job.Description) *int { return &d.AddGroupID }}, unless: isZero},
	{name: "skip_ngroups_max_silently", value: special{getSkipGroupLimit, setSkipGroupLimit}, unless: isEmpty},

	{name: "fs_stdin_host", value: worded{`""`, func(d *job.Description) *string { return &d.Streams[0].Staging.Host }}},
	{name: "fs_stdin_path", value: text(func(d *job.Description) *string { return &d.Streams[0].Staging.Path })},
	{name: "fs_stdin_tmp_path", value: text(func(d *job.Description) *string { return &d.Streams[0].Staging.TmpPath })},
	{name: "fs_stdin_file_staging", value: flag(func(d *job.Description) *bool { return &d.Streams[0].Staging.Enabled })},
	{name: "fs_stdout_host", value: worded{`""`, func(d *job.Description) *string { return &d.Streams[1].Staging.Host }}},
	{name: "fs_stdout_path", value: text(func(d *job.Description) *string { return &d.Streams[1].Staging.Path })},
	{name: "fs_stdout_tmp_path", value: text(func(d *job.Description) *string { return &d.Streams[1].Staging.TmpPath })},
	{name: "fs_stdout_file_staging", value: flag(func(d *job.Description) *bool { return &d.Streams[1].Staging.Enabled })},
	{name: "fs_stderr_host", value: worded{`""`, func(d *job.Description) *string { return &d.Streams[2].Staging.Host }}},
	{name: "fs_stderr_path", value: text(func(d *job.Description) *string { return &d.Streams[2].Staging.Path })},
	{name: "fs_stderr_tmp_path", value: text(func(d *job.Description) *string { return &d.Streams[2].Staging.TmpPath })},
	{name: "fs_stderr_file_staging", value: flag(func(d *job.Description) *bool { return &d.Streams[2].Staging.Enabled })},

	{name: "stdout_path", value: path{func(d *job.Description) *string { return &d.Streams[1].Path }, workingDirectory}},
	{name: "stderr_path", value: path{func(d *job.Description) *string { return &d.Streams[2].Path }, workingDirectory}},
	{name: "stdin_path", value: path{func(d *job.Description) *string { return &d.Streams[0].Path }, nullDevice}},
	{name: "merge_stderr", value: flag(func(d *job.Description) *bool { return &d.MergeError })},
	{name: "tmpdir", value: text(func(d *job.Description) *string { return &d.Tmpdir })},
	{name: "handle_as_binary", value: flag(func(d *job.Description) *bool { return &d.Command.Binary })},
	{name: "no_shell", value: flag(func(d *job.Description) *bool { return &d.Command.NoShell })},

	// Of a job submitted with -ckpt.
	{name: "ckpt_job", value: special{getCkptJob, setCkptJob}},
	{name: "ckpt_restarted", value: number{0, 2, func(d *job.Description) *int { return (*int)(&d.Restarted) }}, when: hasCkpt},
	{name: "ckpt_pid", value: number{0, mostNumber, func(d *job.Description) *int { return &d.Ckpt.PID }}, when: hasCkpt},
	{name: "ckpt_osjobid", value: number{0, mostID, func(d *job.Description) *int { return &d.Ckpt.OSJobID }}, when: hasCkpt},
	{name: "ckpt_interface", value: text(func(d *job.Description) *string { return &d.Ckpt.Interface }), when: hasCkpt},
	{name: "ckpt_command", value: worded{"none", func(d *job.Description) *string { return &d.Ckpt.Command }}, when: hasCkpt},
	{name: "ckpt_migr_command", value: worded{"none", func(d *job.Description) *string { return &d.Ckpt.MigrationCommand }}, when: hasCkpt},
	{name: "ckpt_rest_command", value: worded{"none", func(d *job.Description) *string { return &d.Ckpt.RestartCommand }}, when: hasCkpt},
	{name: "ckpt_clean_command", value: worded{"none", func(d *job.Description) *string { return &d.Ckpt.CleanCommand }}, when: hasCkpt},
	{name: "ckpt_dir", value: worded{"none", func(d *job.Description) *string { return &d.Ckpt.Dir }}, when: hasCkpt},
	{name: "ckpt_signal", value: worded{"none", func(d *job.Description) *string { return &d.Ckpt.Signal }}, when: hasCkpt},
	{name: "ckpt_interval", value: seconds(func(d *job.Description) *time.Duration { return &d.Ckpt.Interval }), when: hasCkpt},

	{name: "h_vmem", value: hard(job.Vmem)},
	{name: "h_vmem_is_consumable_job", value: hardPerJob(job.Vmem)},
	{name: "s_vmem", value: soft(job.Vmem)},
	{name: "s_vmem_is_consumable_job", value: softPerJob(job.Vmem)},
	{name: "h_cpu", value: hard(job.CPU)},
	{name: "h_cpu_is_consumable_job", value: hardPerJob(job.CPU)},
	{name: "s_cpu", value: soft(job.CPU)},
	{name: "s_cpu_is_consumable_job", value: softPerJob(job.CPU)},
	{name: "h_stack", value: hard(job.Stack)},
	{name: "h_stack_is_consumable_job", value: hardPerJob(job.Stack)},
	{name: "s_stack", value: soft(job.Stack)},
	{name: "s_stack_is_consumable_job", value: softPerJob(job.Stack)},
	{name: "h_data", value: hard(job.Data)},
	{name: "h_data_is_consumable_job", value: hardPerJob(job.Data)},
	{name: "s_data", value: soft(job.Data)},
	{name: "s_data_is_consumable_job", value: softPerJob(job.Data)},
	{name: "h_core", value: hard(job.Core)},
	{name: "s_core", value: soft(job.Core)},
	{name: "h_rss", value: hard(job.RSS)},
	{name: "s_rss", value: soft(job.RSS)},
	{name: "h_fsize", value: hard(job.Fsize)},
	{name: "s_fsize", value: soft(job.Fsize)},
	{name: "s_descriptors", value: soft(job.Descriptors)},
	{name: "h_descriptors", value: hard(job.Descriptors)},
	{name: "s_maxproc", value: soft(job.MaxProc)},
	{name: "h_maxproc", value: hard(job.MaxProc)},
	{name: "s_memorylocked", value: soft(job.MemoryLocked)},
	{name: "h_memorylocked", value: hard(job.MemoryLocked)},
	{name: "s_locks", value: soft(job.Locks)},
	{name: "h_locks", value: hard(job.Locks)},

	{name: "priority", value: number{-1 << 15, 1 << 15, func(d *job.Description) *int { return &d.Nice }}},
	{name: "shell_path", value: text(func(d *job.Description) *string { return &d.Command.Shell })},
	{name: "script_file", value: text(func(d *job.Description) *string { return &d.Command.File })},
	{name: "job_owner", value: required(func(d *job.Description) *string { return &d.Owner })},
	{name: "min_gid", value: number{0, mostID, func(d *job.Description) *int { return &d.MinGID }}},
	{name: "min_uid", value: number{0, mostID, func(d *job.Description) *int { return &d.MinUID }}},
	{name: "cwd", value: text(func(d *job.Description) *string { return &d.Cwd })},
	{name: "prolog", value: worded{"none", func(d *job.Description) *string { return &d.Prolog }}},
	{name: "epilog", value: worded{"none", func(d *job.Description) *string { return &d.Epilog }}},
	{name: "starter_method", value: worded{"NONE", func(d *job.Description) *string { return &d.StarterMethod }}},
	{name: "suspend_method", value: worded{"NONE", func(d *job.Description) *string { return &d.SuspendMethod }}},
	{name: "resume_method", value: worded{"NONE", func(d *job.Description) *string { return &d.ResumeMethod }}},
	{name: "terminate_method", value: worded{"NONE", func(d *job.Description) *string { return &d.TerminateMethod }}},
	{name: "script_timeout", value: seconds(func(d *job.Description) *time.Duration { return &d.ScriptTimeout })},

	// Of sge_pe(5); a serial job has the first three, too.
	{name: "pe", value: special{getPE, setPE}},
	{name: "pe_slots", value: number{0, mostNumber, peSlots}},
	{name: "host_slots", value: number{0, mostNumber, func(d *job.Description) *int { return &d.HostSlots }}},
	{name: "pe_hostfile", value: text(func(d *job.Description) *string { return &d.PE.HostFile }), when: hasPE},
	{name: "pe_start", value: worded{"none", func(d *job.Description) *string { return &d.PE.Start }}, when: hasPE},
	{name: "pe_stop", value: worded{"none", func(d *job.Description) *string { return &d.PE.Stop }}, when: hasPE},
	// Only in builds with the interface for sorting (Debian's has it).
	{name: "pe_qsort", value: worded{"none", func(d *job.Description) *string { return &d.PE.Qsort }}, when: hasPE, unless: never},
	{name: "pe_stdout_path", value: text(func(d *job.Description) *string { return &d.PE.StdoutPath }), when: hasPE},
	{name: "pe_stderr_path", value: text(func(d *job.Description) *string { return &d.PE.StderrPath }), when: hasPE},

	{name: "shell_start_mode", value: special{getStartMode, setStartMode}},
	{name: "use_login_shell", value: flag(func(d *job.Description) *bool { return &d.Command.LoginShell })},
	{name: "mail_list", value: worded{"none", func(d *job.Description) *string { return &d.MailList }}},
	{name: "mail_options", value: number{0, mostNumber, func(d *job.Description) *int { return (*int)(&d.MailOptions) }}},
	{name: "forbid_reschedule", value: flag(func(d *job.Description) *bool { return &d.ForbidReschedule })},
	{name: "forbid_apperror", value: flag(func(d *job.Description) *bool { return &d.ForbidAppError })},
	{name: "queue", value: text(func(d *job.Description) *string { return &d.Queue })},
	{name: "host", value: text(func(d *job.Description) *string { return &d.Host })},
	{name: "processors", value: worded{"UNDEFINED", func(d *job.Description) *string { return &d.Processors }}},
	{name: "binding", value: worded{"NULL", func(d *job.Description) *string { return &d.Binding }}},
	{name: "job_name", value: text(func(d *job.Description) *string { return &d.Name })},
	{name: "job_id", value: number{1, mostNumber, func(d *job.Description) *int { return &d.ID.Job }}},
	{name: "ja_task_id", value: number{0, mostNumber, func(d *job.Description) *int { return &d.ID.Task }}},
	{name: "pe_task_id", value: required(func(d *job.Description) *string { return &d.ID.PETask }), unless: isEmpty},
	{name: "account", value: text(func(d *job.Description) *string { return &d.Account })},
	{name: "submission_time", value: instant(func(d *job.Description) *time.Time { return &d.SubmissionTime })},
	{name: "notify", value: seconds(func(d *job.Description) *time.Duration { return &d.Notify })},
	{name: "exec_file", value: interactive(func(i *job.Interactive) *string { return &i.Xterm }), when: namedQsh, unless: notInteractive},
	{name: "acct_project", value: worded{"none", func(d *job.Description) *string { return &d.Project }}},
	{name: "njob_args", value: number{0, mostNumber, argumentCount}},
	{name: "job_arg", arguments: true},
	{name: "queue_tmpdir", value: text(func(d *job.Description) *string { return &d.QueueTmpdir })},
	{name: "display", value: interactive(func(i *job.Interactive) *string { return &i.Display }), when: isQsh},
	{name: "use_afs", value: constant{"0", withoutAFS}},
	{name: "admin_user", value: worded{"none", func(d *job.Description) *string { return &d.AdminUser }}},
	{name: "notify_kill_type", value: number{0, 2, func(d *job.Description) *int { return (*int)(&d.NotifyKill.Kind) }}},
	{name: "notify_kill", value: worded{"default", func(d *job.Description) *string { return &d.NotifyKill.Signal }}},
	{name: "notify_susp_type", value: number{0, 2, func(d *job.Description) *int { return (*int)(&d.NotifySusp.Kind) }}},
	{name: "notify_susp", value: worded{"default", func(d *job.Description) *string { return &d.NotifySusp.Signal }}},
	{name: "qsub_gid", value: special{getQsubGID, setQsubGID}},
	// The original writes it twice.
	{name: "pe_task_id", value: special{getPETask, samePETask}, when: isPETask},
	{name: "pty", value: number{0, 2, func(d *job.Description) *int { return (*int)(&d.PTY) }}},

	// Of qrsh, qlogin and the tasks of qrsh -inherit. master_host says whether
	// they are there at all: a binary job may well be a command that is called
	// QRSH. qrsh_control_port is a variable of the user; only one daemon can
	// come behind it.
	{name: "master_host", value: interactive(func(i *job.Interactive) *string { return &i.MasterHost }), when: namedRemote, unless: notInteractive},
	{name: "commd_port", value: constant{"-1", anything}, when: isRemote},
	{name: "qrsh_control_port", value: interactive(func(i *job.Interactive) *string { return &i.ControlPort }), when: isRemote, unless: isEmpty},
	{name: "qlogin_daemon", value: interactive(func(i *job.Interactive) *string { return &i.Daemon }), when: isQlogin},
	{name: "rsh_daemon", value: interactive(func(i *job.Interactive) *string { return &i.Daemon }), when: isQrsh},
	{name: "rlogin_daemon", value: interactive(func(i *job.Interactive) *string { return &i.Daemon }), when: isQrlogin},
	{name: "qrsh_tmpdir", value: interactive(func(i *job.Interactive) *string { return &i.Tmpdir }), when: isQrsh},
	{name: "qrsh_pid_file", value: interactive(func(i *job.Interactive) *string { return &i.PIDFile }), when: isQrsh},

	{name: "write_osjob_id", value: constant{"1", zeroOrOne}},
	{name: "inherit_env", value: flag(func(d *job.Description) *bool { return &d.InheritEnv })},
	{name: "enable_windomacc", value: constant{"0", zeroOrOne}},
	{name: "enable_addgrp_kill", value: flag(func(d *job.Description) *bool { return &d.AddGroupKill })},
	{name: "csp", value: constant{"0", zeroOrOne}},
	{name: "ignore_fqdn", value: constant{"0", zeroOrOne}},
	{name: "default_domain", value: constant{"none", anything}},

	// Our own stand behind the last key of the original, which does not look
	// at keys that it does not ask for. They are written where they say
	// something.
	{name: "s_rt", value: soft(job.RT), unless: isInfinite}, // the original keeps these to its daemon
	{name: "h_rt", value: hard(job.RT), unless: isInfinite},
	{name: "limit_grace", value: seconds(func(d *job.Description) *time.Duration { return &d.LimitGrace }), unless: isZero},
	{name: "s_rt_warns", value: flag(func(d *job.Description) *bool { return &d.SoftRTWarns }), unless: isZero},
	{name: "s_rt_is_consumable_job", value: softPerJob(job.RT), unless: isZero},
	{name: "h_rt_is_consumable_job", value: hardPerJob(job.RT), unless: isZero},
	{name: "s_fsize_is_consumable_job", value: softPerJob(job.Fsize), unless: isZero},
	{name: "h_fsize_is_consumable_job", value: hardPerJob(job.Fsize), unless: isZero},
	{name: "s_core_is_consumable_job", value: softPerJob(job.Core), unless: isZero},
	{name: "h_core_is_consumable_job", value: hardPerJob(job.Core), unless: isZero},
	{name: "s_rss_is_consumable_job", value: softPerJob(job.RSS), unless: isZero},
	{name: "h_rss_is_consumable_job", value: hardPerJob(job.RSS), unless: isZero},
	{name: "s_descriptors_is_consumable_job", value: softPerJob(job.Descriptors), unless: isZero},
	{name: "h_descriptors_is_consumable_job", value: hardPerJob(job.Descriptors), unless: isZero},
	{name: "s_maxproc_is_consumable_job", value: softPerJob(job.MaxProc), unless: isZero},
	{name: "h_maxproc_is_consumable_job", value: hardPerJob(job.MaxProc), unless: isZero},
	{name: "s_memorylocked_is_consumable_job", value: softPerJob(job.MemoryLocked), unless: isZero},
	{name: "h_memorylocked_is_consumable_job", value: hardPerJob(job.MemoryLocked), unless: isZero},
	{name: "s_locks_is_consumable_job", value: softPerJob(job.Locks), unless: isZero},
	{name: "h_locks_is_consumable_job", value: hardPerJob(job.Locks), unless: isZero},
	{name: "stdin_inherit", value: flag(func(d *job.Description) *bool { return &d.Streams[0].Inherit }), unless: isZero},
	{name: "stdout_inherit", value: flag(func(d *job.Description) *bool { return &d.Streams[1].Inherit }), unless: isZero},
	{name: "stderr_inherit", value: flag(func(d *job.Description) *bool { return &d.Streams[2].Inherit }), unless: isZero},
	{name: "restarted", value: number{0, 2, func(d *job.Description) *int { return (*int)(&d.Restarted) }}, when: hasNoCkpt, unless: isZero},
	{name: "ckpt_name", value: text(func(d *job.Description) *string { return &d.Ckpt.Name }), when: hasCkpt, unless: isEmpty},
	{name: "ckpt_when", value: text(func(d *job.Description) *string { return &d.Ckpt.When }), when: hasCkpt, unless: isEmpty},
}

func workingDirectory(d *job.Description) string { return d.Cwd }
func nullDevice(*job.Description) string         { return "/dev/null" }

func hasCkpt(d *job.Description) bool   { return d.Ckpt != nil }
func hasNoCkpt(d *job.Description) bool { return d.Ckpt == nil }
func hasPE(d *job.Description) bool     { return d.PE != nil }
func isPETask(d *job.Description) bool  { return d.ID.PETask != "" }

func getCkptJob(d *job.Description) (string, string) {
	if d.Ckpt != nil {
		return "1", ""
	}
	return "0", ""
}

func setCkptJob(d *job.Description, v string) string {
	if v == "1" {
		d.Ckpt = &job.Checkpoint{}
	}
	return zeroOrOne(v)
}

func getPE(d *job.Description) (string, string) {
	switch {
	case d.PE == nil:
		return "none", ""
	case d.PE.Name == "" || strings.EqualFold(d.PE.Name, "none"):
		return "", "a parallel environment needs a name other than " + quote(d.PE.Name)
	}
	return d.PE.Name, ""
}

func setPE(d *job.Description, v string) string {
	if v == "" {
		return "it is empty"
	}
	if !strings.EqualFold(v, "none") {
		d.PE = &job.ParallelEnvironment{Name: v}
	}
	return ""
}

func peSlots(d *job.Description) *int {
	if d.PE != nil {
		return &d.PE.Slots
	}
	one := 1 // of a serial job: always this, and never looked at
	return &one
}

// An interactive job has one of these macros in place of its command. A batch
// job may have a command that is called so.
const (
	macroQsh    = "INTERACTIVE"
	macroQlogin = "QLOGIN"
	macroQrsh   = "QRSH"
	macroRlogin = "QRLOGIN"
)

func namedQsh(d *job.Description) bool { return d.Command.File == macroQsh }

func namedRemote(d *job.Description) bool {
	return d.Command.File == macroQlogin || d.Command.File == macroQrsh || d.Command.File == macroRlogin
}

func isInteractive(d *job.Description, macro string) bool {
	return d.Interactive != nil && d.Command.File == macro
}

func isQsh(d *job.Description) bool     { return isInteractive(d, macroQsh) }
func isQlogin(d *job.Description) bool  { return isInteractive(d, macroQlogin) }
func isQrsh(d *job.Description) bool    { return isInteractive(d, macroQrsh) }
func isQrlogin(d *job.Description) bool { return isInteractive(d, macroRlogin) }
func isRemote(d *job.Description) bool  { return d.Interactive != nil && namedRemote(d) }

// interactive is a text of an interactive job; reading one makes the job such.
type interactive func(i *job.Interactive) *string

func (field interactive) get(d *job.Description) (string, string) { return *field(d.Interactive), "" }

func (field interactive) set(d *job.Description, v string) string {
	if d.Interactive == nil {
		d.Interactive = &job.Interactive{}
	}
	*field(d.Interactive) = v
	return ""
}

func getSkipGroupLimit(d *job.Description) (string, string) {
	if d.SkipGroupLimit {
		return "yes", ""
	}
	return "", ""
}

func setSkipGroupLimit(d *job.Description, v string) string {
	d.SkipGroupLimit = v == "yes"
	if v != "yes" {
		return quote(v) + " is not yes"
	}
	return ""
}

func getStartMode(d *job.Description) (string, string) {
	if m := d.Command.StartMode; !m.Valid() {
		return "", quote(string(m)) + " is no shell_start_mode of queue_conf(5)"
	}
	return string(d.Command.StartMode), ""
}

func setStartMode(d *job.Description, v string) string {
	d.Command.StartMode = job.ShellStartMode(strings.ToLower(v))
	if !d.Command.StartMode.Valid() {
		return quote(v) + " is no shell_start_mode of queue_conf(5)"
	}
	return ""
}

// argumentCount is njob_args. What the reader does with it is in ParseConfig,
// since a description knows the arguments themselves only.
func argumentCount(d *job.Description) *int {
	n := len(d.Command.Args)
	return &n
}

func withoutAFS(v string) string {
	if v == "1" {
		return "AFS is not supported"
	}
	return zeroOrOne(v)
}

var qsubGID = number{0, mostID, func(d *job.Description) *int { return &d.QsubGID }}

// getQsubGID is the group of USE_QSUB_GID, or "no".
func getQsubGID(d *job.Description) (string, string) {
	if d.QsubGID == 0 {
		return "no", ""
	}
	return qsubGID.get(d)
}

func setQsubGID(d *job.Description, v string) string {
	if v == "no" {
		d.QsubGID = 0
		return ""
	}
	return qsubGID.set(d, v)
}

func getPETask(d *job.Description) (string, string) { return d.ID.PETask, "" }

func samePETask(d *job.Description, v string) string {
	if v != d.ID.PETask {
		return quote(v) + " is not the " + quote(d.ID.PETask) + " of its first line"
	}
	return ""
}
