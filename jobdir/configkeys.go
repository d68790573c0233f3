package jobdir

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/execd-project/execd/job"
)

// configKeys lists every key of the config file in the order in which 8.1.9 writes them, followed
// by this project's own keys. Reader and writer both follow this order.
//
// The order makes the file safe to read. The original writes users' values without escaping, so a
// user who gets a newline into a value adds lines to the file. Every key has one place, none may be
// repeated and almost none may be missing. An added line is therefore in the wrong place, or the
// genuine line after it is. For the same reason an optional key is never allowed directly after a
// value that a user controls; TestConfigWithAddedLineIsRefused tries every key in every place.
//
// Some keys are of the sge_execd of Open Cluster Scheduler 9.0 or 9.1 alone, whose file begins with sge_root. This
// package only reads such files.
var configKeys = [...]configKey{
	{name: "sge_root", get: getForeign, set: setOCS, unless: notOCS},
	{name: "sge_cell", get: getForeign, set: ignore, when: isOCS},
	{name: "usage_collection", get: getForeign, set: setUsageCollection, when: isOCS, unless: notOCS91},
	{name: "add_grp_id", number: func(d *job.Description) *int { return &d.AddGroupID }, most: mostID, unless: isZero},
	{name: "skip_ngroups_max_silently", get: getSkipGroupLimit, set: setSkipGroupLimit, unless: isEmpty},

	{name: "fs_stdin_host", text: func(d *job.Description) *string { return &d.Streams[0].Staging.Host }, word: `""`},
	{name: "fs_stdin_path", text: func(d *job.Description) *string { return &d.Streams[0].Staging.Path }},
	{name: "fs_stdin_tmp_path", text: func(d *job.Description) *string { return &d.Streams[0].Staging.TmpPath }},
	{name: "fs_stdin_file_staging", flag: func(d *job.Description) *bool { return &d.Streams[0].Staging.Enabled }},
	{name: "fs_stdout_host", text: func(d *job.Description) *string { return &d.Streams[1].Staging.Host }, word: `""`},
	{name: "fs_stdout_path", text: func(d *job.Description) *string { return &d.Streams[1].Staging.Path }},
	{name: "fs_stdout_tmp_path", text: func(d *job.Description) *string { return &d.Streams[1].Staging.TmpPath }},
	{name: "fs_stdout_file_staging", flag: func(d *job.Description) *bool { return &d.Streams[1].Staging.Enabled }},
	{name: "fs_stderr_host", text: func(d *job.Description) *string { return &d.Streams[2].Staging.Host }, word: `""`},
	{name: "fs_stderr_path", text: func(d *job.Description) *string { return &d.Streams[2].Staging.Path }},
	{name: "fs_stderr_tmp_path", text: func(d *job.Description) *string { return &d.Streams[2].Staging.TmpPath }},
	{name: "fs_stderr_file_staging", flag: func(d *job.Description) *bool { return &d.Streams[2].Staging.Enabled }},

	{name: "stdout_path", text: func(d *job.Description) *string { return &d.Streams[1].Path }, get: workingDirectory},
	{name: "stderr_path", text: func(d *job.Description) *string { return &d.Streams[2].Path }, get: workingDirectory},
	{name: "stdin_path", text: func(d *job.Description) *string { return &d.Streams[0].Path }, get: nullDevice},
	{name: "merge_stderr", flag: func(d *job.Description) *bool { return &d.MergeError }},
	{name: "tmpdir", text: func(d *job.Description) *string { return &d.Tmpdir }},
	{name: "handle_as_binary", flag: func(d *job.Description) *bool { return &d.Command.Binary }},
	{name: "no_shell", flag: func(d *job.Description) *bool { return &d.Command.NoShell }},

	// Present for a job submitted with -ckpt.
	{name: "ckpt_job", get: getCkptJob, set: setCkptJob},
	{name: "ckpt_restarted", number: func(d *job.Description) *int { return (*int)(&d.Restarted) }, most: 2, when: hasCkpt},
	{name: "ckpt_pid", number: func(d *job.Description) *int { return &d.Ckpt.PID }, most: mostNumber, when: hasCkpt},
	{name: "ckpt_osjobid", number: func(d *job.Description) *int { return &d.Ckpt.OSJobID }, most: mostID, when: hasCkpt},
	{name: "ckpt_interface", text: func(d *job.Description) *string { return &d.Ckpt.Interface }, when: hasCkpt},
	{name: "ckpt_command", text: func(d *job.Description) *string { return &d.Ckpt.Command }, word: "none", when: hasCkpt},
	{name: "ckpt_migr_command", text: func(d *job.Description) *string { return &d.Ckpt.MigrationCommand }, word: "none", when: hasCkpt},
	{name: "ckpt_rest_command", text: func(d *job.Description) *string { return &d.Ckpt.RestartCommand }, word: "none", when: hasCkpt},
	{name: "ckpt_clean_command", text: func(d *job.Description) *string { return &d.Ckpt.CleanCommand }, word: "none", when: hasCkpt},
	{name: "ckpt_dir", text: func(d *job.Description) *string { return &d.Ckpt.Dir }, word: "none", when: hasCkpt},
	{name: "ckpt_signal", text: func(d *job.Description) *string { return &d.Ckpt.Signal }, word: "none", when: hasCkpt},
	{name: "ckpt_interval", seconds: func(d *job.Description) *time.Duration { return &d.Ckpt.Interval }, when: hasCkpt},

	{name: "h_vmem", limit: hard, resource: job.Vmem},
	{name: "h_vmem_is_consumable_job", limit: hardPerJob, resource: job.Vmem},
	{name: "s_vmem", limit: soft, resource: job.Vmem},
	{name: "s_vmem_is_consumable_job", limit: softPerJob, resource: job.Vmem},
	{name: "h_cpu", limit: hard, resource: job.CPU},
	{name: "h_cpu_is_consumable_job", limit: hardPerJob, resource: job.CPU},
	{name: "s_cpu", limit: soft, resource: job.CPU},
	{name: "s_cpu_is_consumable_job", limit: softPerJob, resource: job.CPU},
	{name: "h_stack", limit: hard, resource: job.Stack},
	{name: "h_stack_is_consumable_job", limit: hardPerJob, resource: job.Stack},
	{name: "s_stack", limit: soft, resource: job.Stack},
	{name: "s_stack_is_consumable_job", limit: softPerJob, resource: job.Stack},
	{name: "h_data", limit: hard, resource: job.Data},
	{name: "h_data_is_consumable_job", limit: hardPerJob, resource: job.Data},
	{name: "s_data", limit: soft, resource: job.Data},
	{name: "s_data_is_consumable_job", limit: softPerJob, resource: job.Data},
	{name: "h_core", limit: hard, resource: job.Core},
	{name: "s_core", limit: soft, resource: job.Core},
	{name: "h_rss", limit: hard, resource: job.RSS},
	{name: "s_rss", limit: soft, resource: job.RSS},
	{name: "h_fsize", limit: hard, resource: job.Fsize},
	{name: "s_fsize", limit: soft, resource: job.Fsize},
	{name: "s_descriptors", limit: soft, resource: job.Descriptors},
	{name: "h_descriptors", limit: hard, resource: job.Descriptors},
	{name: "s_maxproc", limit: soft, resource: job.MaxProc},
	{name: "h_maxproc", limit: hard, resource: job.MaxProc},
	{name: "s_memorylocked", limit: soft, resource: job.MemoryLocked},
	{name: "h_memorylocked", limit: hard, resource: job.MemoryLocked},
	{name: "s_locks", limit: soft, resource: job.Locks},
	{name: "h_locks", limit: hard, resource: job.Locks},

	{name: "priority", number: func(d *job.Description) *int { return &d.Nice }, least: -1 << 15, most: 1 << 15},
	{name: "shell_path", text: func(d *job.Description) *string { return &d.Command.Shell }},
	{name: "script_file", text: func(d *job.Description) *string { return &d.Command.File }},
	{name: "job_owner", text: func(d *job.Description) *string { return &d.Owner }, required: true},
	{name: "min_gid", number: func(d *job.Description) *int { return &d.MinGID }, most: mostID},
	{name: "min_uid", number: func(d *job.Description) *int { return &d.MinUID }, most: mostID},
	{name: "cwd", text: func(d *job.Description) *string { return &d.Cwd }},
	{name: "prolog", text: func(d *job.Description) *string { return &d.Prolog }, word: "none"},
	{name: "epilog", text: func(d *job.Description) *string { return &d.Epilog }, word: "none"},
	{name: "starter_method", text: func(d *job.Description) *string { return &d.StarterMethod }, word: "NONE"},
	{name: "suspend_method", text: func(d *job.Description) *string { return &d.SuspendMethod }, word: "NONE"},
	{name: "resume_method", text: func(d *job.Description) *string { return &d.ResumeMethod }, word: "NONE"},
	{name: "terminate_method", text: func(d *job.Description) *string { return &d.TerminateMethod }, word: "NONE"},
	{name: "script_timeout", seconds: func(d *job.Description) *time.Duration { return &d.ScriptTimeout }},

	// Settings of sge_pe(5); a serial job has the first three, too.
	{name: "pe", get: getPE, set: setPE},
	{name: "pe_slots", number: peSlots, most: mostNumber},
	{name: "host_slots", number: func(d *job.Description) *int { return &d.HostSlots }, most: mostNumber},
	{name: "pe_hostfile", text: func(d *job.Description) *string { return &d.PE.HostFile }, when: hasPE},
	{name: "pe_start", text: func(d *job.Description) *string { return &d.PE.Start }, word: "none", when: hasPE},
	{name: "pe_stop", text: func(d *job.Description) *string { return &d.PE.Stop }, word: "none", when: hasPE},
	// Present only in builds of Grid Engine with the qsort interface, such as Debian's.
	{name: "pe_qsort", text: func(d *job.Description) *string { return &d.PE.Qsort }, word: "none", when: hasPE, unless: never},
	{name: "pe_stdout_path", text: func(d *job.Description) *string { return &d.PE.StdoutPath }, when: hasPE},
	{name: "pe_stderr_path", text: func(d *job.Description) *string { return &d.PE.StderrPath }, when: hasPE},

	{name: "shell_start_mode", get: getStartMode, set: setStartMode},
	{name: "use_login_shell", flag: func(d *job.Description) *bool { return &d.Command.LoginShell }},
	{name: "enable_systemd", get: getForeign, set: setSystemd, when: isOCS91, unless: notOCS91},
	{name: "mail_list", text: func(d *job.Description) *string { return &d.MailList }, word: "none"},
	{name: "mail_options", number: func(d *job.Description) *int { return (*int)(&d.MailOptions) }, most: mostNumber},
	{name: "forbid_reschedule", flag: func(d *job.Description) *bool { return &d.ForbidReschedule }},
	{name: "forbid_apperror", flag: func(d *job.Description) *bool { return &d.ForbidAppError }},
	{name: "queue", text: func(d *job.Description) *string { return &d.Queue }},
	{name: "host", text: func(d *job.Description) *string { return &d.Host }},
	{name: "processors", text: func(d *job.Description) *string { return &d.Processors }, word: "UNDEFINED"},
	{name: "binding", get: getBinding, set: setBinding, when: notBy91},
	{name: "binding_instance", get: getForeign, set: setBindingInstance, when: isOCS91},
	{name: "binding_to_use", get: getForeign, set: ignore, when: isOCS91},
	{name: "binding_cpuset", get: getForeign, set: setBindingMask, when: isOCS91},
	{name: "job_name", text: func(d *job.Description) *string { return &d.Name }},
	{name: "job_id", number: func(d *job.Description) *int { return &d.ID.Job }, least: 1, most: mostNumber},
	{name: "ja_task_id", number: func(d *job.Description) *int { return &d.ID.Task }, most: mostNumber},
	{name: "pe_task_id", text: func(d *job.Description) *string { return &d.ID.PETask }, required: true, unless: isEmpty},
	{name: "account", text: func(d *job.Description) *string { return &d.Account }},
	{name: "submission_time", instant: func(d *job.Description) *time.Time { return &d.SubmissionTime }},
	{name: "notify", seconds: func(d *job.Description) *time.Duration { return &d.Notify }},
	{name: "exec_file", interactive: func(i *job.Interactive) *string { return &i.Xterm }, when: namedQsh, unless: notInteractive},
	{name: "acct_project", text: func(d *job.Description) *string { return &d.Project }, word: "none"},
	{name: "njob_args", number: argumentCount, most: mostNumber},
	{name: "job_arg", arguments: true},
	{name: "queue_tmpdir", text: func(d *job.Description) *string { return &d.QueueTmpdir }},
	{name: "display", interactive: func(i *job.Interactive) *string { return &i.Display }, when: isQsh},
	{name: "use_afs", word: "0", set: withoutAFS},
	{name: "admin_user", text: func(d *job.Description) *string { return &d.AdminUser }, word: "none"},
	{name: "notify_kill_type", number: func(d *job.Description) *int { return (*int)(&d.NotifyKill.Kind) }, most: 2},
	{name: "notify_kill", text: func(d *job.Description) *string { return &d.NotifyKill.Signal }, word: "default"},
	{name: "notify_susp_type", number: func(d *job.Description) *int { return (*int)(&d.NotifySusp.Kind) }, most: 2},
	{name: "notify_susp", text: func(d *job.Description) *string { return &d.NotifySusp.Signal }, word: "default"},
	{name: "qsub_gid", get: getQsubGID, set: setQsubGID},
	// The original writes it twice.
	{name: "pe_task_id", get: getPETask, set: samePETask, when: isPETask},
	{name: "pty", number: func(d *job.Description) *int { return (*int)(&d.PTY) }, most: 2},

	// Keys of qrsh, qlogin and the tasks of qrsh -inherit. They are present if master_host is: the
	// command of a batch job may also be named QRSH. qrsh_control_port is a variable of the user;
	// only one key, for the daemon, may follow it.
	{name: "master_host", interactive: func(i *job.Interactive) *string { return &i.MasterHost }, when: namedRemote, unless: notInteractive},
	{name: "commd_port", word: "-1", set: ignore, when: isRemote},
	{name: "qrsh_control_port", interactive: func(i *job.Interactive) *string { return &i.ControlPort }, when: isRemote, unless: isEmpty},
	{name: "qlogin_daemon", interactive: func(i *job.Interactive) *string { return &i.Daemon }, when: isQlogin},
	{name: "rsh_daemon", interactive: func(i *job.Interactive) *string { return &i.Daemon }, when: isQrsh},
	{name: "rlogin_daemon", interactive: func(i *job.Interactive) *string { return &i.Daemon }, when: isQrlogin},
	{name: "qrsh_tmpdir", interactive: func(i *job.Interactive) *string { return &i.Tmpdir }, when: isQrsh},
	{name: "qrsh_pid_file", interactive: func(i *job.Interactive) *string { return &i.PIDFile }, when: isQrsh},

	{name: "write_osjob_id", word: "1", set: ignoreFlag},
	{name: "inherit_env", flag: func(d *job.Description) *bool { return &d.InheritEnv }},
	{name: "enable_windomacc", word: "0", set: ignoreFlag, when: notByOCS},
	{name: "enable_addgrp_kill", flag: func(d *job.Description) *bool { return &d.AddGroupKill }},
	{name: "csp", word: "0", set: ignoreFlag},
	{name: "tls", get: getForeign, set: setTLS, when: isOCS91},
	{name: "ignore_fqdn", word: "0", set: ignoreFlag},
	{name: "default_domain", word: "none", set: ignore},

	// This project's own keys follow the last key of the original, which ignores unknown keys. The
	// writer omits them if they have no value.
	{name: "trusted_variables", get: getTrusted, set: setTrusted, unless: isEmpty},
	{name: "procedure_limits", get: getProcedureLimits, set: setProcedureLimits, unless: isEmpty},
	{name: "s_rt", limit: soft, resource: job.RT, unless: isInfinite}, // the original keeps s_rt, h_rt in its daemon
	{name: "h_rt", limit: hard, resource: job.RT, unless: isInfinite},
	{name: "limit_grace", seconds: func(d *job.Description) *time.Duration { return &d.LimitGrace }, unless: isZero},
	{name: "s_rt_warns", flag: func(d *job.Description) *bool { return &d.SoftRTWarns }, unless: isZero},
	{name: "usage_interval", seconds: func(d *job.Description) *time.Duration { return &d.UsageInterval }, unless: isZero},
	{name: "user_processes", number: func(d *job.Description) *int { return &d.UserProcesses }, most: math.MaxUint32, unless: isZero},
	{name: "vmem_limit", text: func(d *job.Description) *string { return (*string)(&d.VmemLimit) }, unless: isEmpty},
	{name: "h_vmem_complex", text: func(d *job.Description) *string { return &d.VmemComplex }, unless: isEmpty},
	{name: "binding_cpus", text: func(d *job.Description) *string { return &d.BindingCPUs }, unless: isEmpty},
	{name: "s_rt_is_consumable_job", limit: softPerJob, resource: job.RT, unless: isZero},
	{name: "h_rt_is_consumable_job", limit: hardPerJob, resource: job.RT, unless: isZero},
	{name: "s_fsize_is_consumable_job", limit: softPerJob, resource: job.Fsize, unless: isZero},
	{name: "h_fsize_is_consumable_job", limit: hardPerJob, resource: job.Fsize, unless: isZero},
	{name: "s_core_is_consumable_job", limit: softPerJob, resource: job.Core, unless: isZero},
	{name: "h_core_is_consumable_job", limit: hardPerJob, resource: job.Core, unless: isZero},
	{name: "s_rss_is_consumable_job", limit: softPerJob, resource: job.RSS, unless: isZero},
	{name: "h_rss_is_consumable_job", limit: hardPerJob, resource: job.RSS, unless: isZero},
	{name: "s_descriptors_is_consumable_job", limit: softPerJob, resource: job.Descriptors, unless: isZero},
	{name: "h_descriptors_is_consumable_job", limit: hardPerJob, resource: job.Descriptors, unless: isZero},
	{name: "s_maxproc_is_consumable_job", limit: softPerJob, resource: job.MaxProc, unless: isZero},
	{name: "h_maxproc_is_consumable_job", limit: hardPerJob, resource: job.MaxProc, unless: isZero},
	{name: "s_memorylocked_is_consumable_job", limit: softPerJob, resource: job.MemoryLocked, unless: isZero},
	{name: "h_memorylocked_is_consumable_job", limit: hardPerJob, resource: job.MemoryLocked, unless: isZero},
	{name: "s_locks_is_consumable_job", limit: softPerJob, resource: job.Locks, unless: isZero},
	{name: "h_locks_is_consumable_job", limit: hardPerJob, resource: job.Locks, unless: isZero},
	{name: "private_tmp", flag: func(d *job.Description) *bool { return &d.PrivateTmp }, unless: isZero},
	{name: "private_tmp_share", text: func(d *job.Description) *string { return &d.PrivateTmpShare }, unless: isEmpty},
	{name: "scratch", get: getScratch, set: setScratch, unless: isZero},
	{name: "scratch_limit", text: func(d *job.Description) *string { return &d.ScratchLimit }, unless: isEmpty},
	{name: "terminal", get: getTerminal, set: setTerminal, unless: isEmpty},
	{name: "terminal_pipes", flag: func(d *job.Description) *bool { return &d.Terminal.Pipes }, when: hasTerminal, unless: isZero},
	{name: "terminal_login", flag: func(d *job.Description) *bool { return &d.Terminal.Login }, when: hasTerminal},
	{name: "relayed", flag: func(d *job.Description) *bool { return &d.Relayed }, unless: isZero},
	{name: "stdin_inherit", flag: func(d *job.Description) *bool { return &d.Streams[0].Inherit }, unless: isZero},
	{name: "stdout_inherit", flag: func(d *job.Description) *bool { return &d.Streams[1].Inherit }, unless: isZero},
	{name: "stderr_inherit", flag: func(d *job.Description) *bool { return &d.Streams[2].Inherit }, unless: isZero},
	{name: "restarted", number: func(d *job.Description) *int { return (*int)(&d.Restarted) }, most: 2, when: hasNoCkpt, unless: isZero},
	{name: "ckpt_name", text: func(d *job.Description) *string { return &d.Ckpt.Name }, when: hasCkpt, unless: isEmpty},
	{name: "ckpt_when", text: func(d *job.Description) *string { return &d.Ckpt.When }, when: hasCkpt, unless: isEmpty},
}

func workingDirectory(d *job.Description) (string, string) { return d.Cwd, "" }
func nullDevice(*job.Description) (string, string)         { return "/dev/null", "" }

func isOCS(d *job.Description) bool              { return d.Daemon != job.DaemonGridEngine }
func isOCS91(d *job.Description) bool            { return d.Daemon == job.DaemonOCS91 }
func notByOCS(d *job.Description) bool           { return !isOCS(d) }
func notBy91(d *job.Description) bool            { return !isOCS91(d) }
func notOCS(d *job.Description, _ string) bool   { return !isOCS(d) }
func notOCS91(d *job.Description, _ string) bool { return !isOCS91(d) }

// getForeign refuses to write a file of Open Cluster Scheduler.
func getForeign(*job.Description) (value, problem string) {
	return "", "only its sge_execd writes files of Open Cluster Scheduler"
}

func setOCS(d *job.Description, _ string) string {
	d.Daemon = job.DaemonOCS90
	return ""
}

// setUsageCollection reads the way in which sge_execd 9.1 collects the usage of running jobs, which does
// not concern the supervisor.
func setUsageCollection(d *job.Description, v string) string {
	d.Daemon = job.DaemonOCS91
	var n int
	return setNumber(&n, v, 0, mostNumber)
}

// setSystemd refuses scopes of systemd: sge_execd would look for the job's processes in a scope, and
// the supervisor has no way to put them there.
func setSystemd(_ *job.Description, v string) string {
	if v == "1" {
		return "scopes of systemd (systemd_slice, systemd_scope, devices_allow) are not supported: set ENABLE_SYSTEMD=false in execd_params"
	}
	return zeroOrOne(v)
}

func setTLS(_ *job.Description, v string) string {
	if v == "1" {
		return "security_mode tls is not supported"
	}
	return zeroOrOne(v)
}

// getBinding and setBinding convert the text for no binding, which a sge_execd of 9.0 may print as nullptr.
func getBinding(d *job.Description) (value, problem string) {
	if d.Binding == "" {
		return "NULL", ""
	}
	return d.Binding, ""
}

func setBinding(d *job.Description, v string) string {
	if d.Binding = v; strings.EqualFold(v, "NULL") || isOCS(d) && v == "nullptr" {
		d.Binding = ""
	}
	return ""
}

// bindingHere is the binding instance with which the supervisor binds the job. With the others, env
// and pe, sge_execd has set variables that the job reads.
const bindingHere = "set"

func setBindingInstance(d *job.Description, v string) string {
	switch v {
	case bindingHere:
		d.BindingMask = v // binding_cpuset replaces it
	case "env", "pe", "NONE":
	default:
		return quote(v) + " is unknown, expected set, env, pe or NONE"
	}
	return ""
}

func setBindingMask(d *job.Description, v string) string {
	here := d.BindingMask == bindingHere
	if d.BindingMask = ""; !here || v == "NONE" || v == "0x0" {
		return ""
	}
	if strings.Trim(v, "0123456789abcdefABCDEFx,") != "" {
		return quote(v) + " is not a mask of processors"
	}
	d.BindingMask = v
	return ""
}

func hasCkpt(d *job.Description) bool     { return d.Ckpt != nil }
func hasNoCkpt(d *job.Description) bool   { return d.Ckpt == nil }
func hasTerminal(d *job.Description) bool { return d.Terminal != nil }
func hasPE(d *job.Description) bool       { return d.PE != nil }
func isPETask(d *job.Description) bool    { return d.ID.PETask != "" }

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

// getTrusted returns the names, separated by commas.
func getTrusted(d *job.Description) (value, problem string) {
	for _, name := range d.Trusted {
		if !isName(name) {
			return "", quote(name) + " is not a name of a variable"
		}
	}
	return strings.Join(d.Trusted, ","), ""
}

func setTrusted(d *job.Description, v string) string {
	d.Trusted = strings.Split(v, ",")
	for _, name := range d.Trusted {
		if !isName(name) {
			return quote(name) + " is not a name of a variable"
		}
	}
	return ""
}

// noLimits is the value of procedure_limits if no limit is set.
const noLimits = "none"

// getProcedureLimits returns the limits that are set for procedures, such as h_cpu=20,s_fsize=1M.
// It omits wall-clock limits: script_timeout limits the wall-clock time of procedures.
func getProcedureLimits(d *job.Description) (value, problem string) {
	if d.ProcedureLimits == nil {
		return "", ""
	}
	for r := job.RT + 1; r < job.NumResources; r++ {
		l := d.ProcedureLimits[r]
		for _, part := range [...]limitPart{soft, hard} {
			v, problem := getLimit(&l, r, part)
			if problem != "" {
				return "", problem
			}
			if v == "UNDEFINED" || v == "INFINITY" && !canBeUnset(r) {
				continue // as without a word
			}
			name := "s_"
			if part == hard {
				name = "h_"
			}
			value += "," + name + r.String() + "=" + v
		}
	}
	if value == "" {
		return noLimits, ""
	}
	return value[1:], ""
}

func setProcedureLimits(d *job.Description, v string) string {
	l := job.Unlimited()
	d.ProcedureLimits = &l
	if v == noLimits {
		return ""
	}
	for item := range strings.SplitSeq(v, ",") {
		name, value, _ := strings.Cut(item, "=")
		r, isHard, ok := job.ResourceNamed(name)
		if !ok || r == job.RT {
			return quote(name) + " is not a limit of a procedure"
		}
		part := soft
		if isHard {
			part = hard
		}
		if problem := setLimit(&l[r], r, part, value); problem != "" {
			return name + ": " + problem
		}
	}
	return ""
}

// isName reports whether s is a valid name of a shell variable.
func isName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c != '_' && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// mostLines is the largest value of a window size (ioctl_tty(2), struct winsize).
const mostLines = 1<<16 - 1

func getScratch(d *job.Description) (value, problem string) {
	return strconv.FormatUint(d.Scratch, 10), ""
}

func setScratch(d *job.Description, v string) string {
	n, err := strconv.ParseUint(v, 10, 64)
	if err != nil {
		return quote(v) + " is not a number of bytes"
	}
	d.Scratch = n
	return ""
}

// getTerminal returns the terminal size as ROWSxCOLS.
func getTerminal(d *job.Description) (value, problem string) {
	t := d.Terminal
	if t == nil {
		return "", ""
	}
	rows, problem := getNumber(t.Rows, 0, mostLines)
	if problem != "" {
		return "", problem
	}
	cols, problem := getNumber(t.Cols, 0, mostLines)
	return rows + "x" + cols, problem
}

func setTerminal(d *job.Description, v string) string {
	rows, cols, ok := strings.Cut(v, "x")
	if !ok {
		return quote(v) + " is not a size of a terminal, such as 24x80"
	}
	d.Terminal = &job.Terminal{}
	if problem := setNumber(&d.Terminal.Rows, rows, 0, mostLines); problem != "" {
		return problem
	}
	return setNumber(&d.Terminal.Cols, cols, 0, mostLines)
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
	one := 1 // value of a serial job, which nothing reads
	return &one
}

// An interactive job has one of these names instead of a command. The command of a batch job may
// have the same name.
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
	for _, m := range []job.ShellStartMode{job.PosixCompliant, job.UnixBehavior, job.ScriptFromStdin, job.RawExec} {
		if strings.EqualFold(v, string(m)) {
			d.Command.StartMode = m
			return ""
		}
	}
	return quote(v) + " is no shell_start_mode of queue_conf(5)"
}

// argumentCount returns njob_args. ParseConfig checks the number, since a description holds only
// the arguments themselves.
func argumentCount(d *job.Description) *int {
	n := len(d.Command.Args)
	return &n
}

func ignore(*job.Description, string) string         { return "" }
func ignoreFlag(_ *job.Description, v string) string { return zeroOrOne(v) }

func withoutAFS(_ *job.Description, v string) string {
	if v == "1" {
		return "AFS is not supported"
	}
	return zeroOrOne(v)
}

// getQsubGID returns the group of USE_QSUB_GID, or "no".
func getQsubGID(d *job.Description) (string, string) {
	if d.QsubGID == 0 {
		return "no", ""
	}
	return getNumber(d.QsubGID, 0, mostID)
}

func setQsubGID(d *job.Description, v string) string {
	if v == "no" {
		d.QsubGID = 0
		return ""
	}
	return setNumber(&d.QsubGID, v, 0, mostID)
}

func getPETask(d *job.Description) (string, string) { return d.ID.PETask, "" }

func samePETask(d *job.Description, v string) string {
	if v != d.ID.PETask {
		return quote(v) + " is not the " + quote(d.ID.PETask) + " of its first line"
	}
	return ""
}
