package qstat

import (
	"slices"
	"strconv"
	"strings"
)

// AppendDetailsXML appends the output of qstat -j -xml for jobs: their fields with the master's
// internal names and numbers. Grid Engine does not follow its own schema
// (qstat/detailed_job_info.xsd) in every element; AppendDetailsXML prints the same as Grid Engine,
// except for the names of entries in altered lists.
func AppendDetailsXML(dst []byte, jobs []JobDetail, o DetailOptions) []byte {
	d := detailElements{elements{dst: append(append(dst, xmlHeader...), detailDocument...), indent: 2}, o}
	d.open("djob_info")
	for i := range jobs {
		d.open("element")
		d.submission(&jobs[i])
		d.requests(&jobs[i])
		d.tasks(&jobs[i])
		d.relations(&jobs[i])
		d.scheduling(&jobs[i])
		d.rest(&jobs[i])
		d.close("element")
	}
	d.close("djob_info")
	d.open("messages")
	d.messages(reasonsOfAll(jobs))
	d.close("messages")
	return append(d.dst, "</detailed_job_info>\n"...)
}

// reasonsOfAll returns the reasons of jobs: shared holds the ones that concern all jobs, and groups
// the others, one group for the jobs with the same reasons.
func reasonsOfAll(jobs []JobDetail) (shared []Reason, groups []ReasonGroup) {
	type own struct {
		reasons []Reason
		jobs    []int
	}
	var lists []own
	for i := range jobs {
		var list []Reason
		for _, r := range jobs[i].Reasons {
			switch {
			case !r.Shared:
				list = append(list, r)
			case !slices.Contains(shared, r):
				shared = append(shared, r)
			}
		}
		same := slices.IndexFunc(lists, func(o own) bool { return slices.Equal(o.reasons, list) })
		if same < 0 {
			same = len(lists)
			lists = append(lists, own{reasons: list})
		}
		lists[same].jobs = append(lists[same].jobs, jobs[i].ID)
	}
	for _, o := range lists {
		for _, r := range o.reasons {
			groups = append(groups, ReasonGroup{Text: r.Text, Number: r.Number, Jobs: o.jobs})
		}
	}
	return shared, groups
}

// detailElements appends the fields of jobs.
type detailElements struct {
	elements
	DetailOptions
}

// each writes a list of n elements called name, each filled by f. It writes nothing if n is 0.
func (d *detailElements) each(list, name string, n int, f func(i int)) {
	if n == 0 {
		return
	}
	d.open(list)
	for i := range n {
		d.open(name)
		f(i)
		d.close(name)
	}
	d.close(list)
}

func (d *detailElements) optional(name, value string) {
	if value != "" {
		d.text(name, value)
	}
}

func (d *detailElements) submission(j *JobDetail) {
	d.int("JB_job_number", j.ID)
	d.int("JB_ar", j.Reservation)
	d.optional("JB_exec_file", j.ExecFile)
	d.int("JB_submission_time", int(j.Submitted))
	d.text("JB_owner", j.Owner)
	d.int("JB_uid", j.UID)
	d.text("JB_group", j.Group)
	d.int("JB_gid", j.GID)
	d.text("JB_account", j.Account)
	d.truth("JB_merge_stderr", j.Merge)
	name := "mail_list"
	if len(j.MailList) == 1 && j.MailList[0] == (Mail{User: j.Owner, Host: j.Host}) {
		name = "element" // not requested
	}
	d.each("JB_mail_list", name, len(j.MailList), func(i int) {
		d.text("MR_user", j.MailList[i].User)
		d.text("MR_host", j.MailList[i].Host)
	})
	d.optional("JB_project", j.Project)
	d.truth("JB_notify", j.Notify)
	d.text("JB_job_name", j.Name)
}

func (d *detailElements) requests(j *JobDetail) {
	d.paths("JB_stdout_path_list", j.Output)
	d.int("JB_jobshare", j.JobShare)
	d.resources("JB_hard_resource_list", j.Hard)
	d.resources("JB_soft_resource_list", j.Soft)
	d.queues("JB_hard_queue_list", j.HardQueues)
	d.queues("JB_soft_queue_list", j.SoftQueues)
	d.paths("JB_shell_list", j.Shells)
	d.variables("JB_env_list", "job_sublist", j.environment())
	d.each("JB_job_args", "element", len(j.Arguments), func(i int) { d.optional("ST_name", j.Arguments[i]) })
	d.optional("JB_script_file", j.Script)
}

// environment returns the environment of the job, preceded by the variables that describe where it
// was submitted. The first variable, TERM, stands among those.
func (j *JobDetail) environment() []string {
	origin := func(name, value string) []string {
		if value == "" {
			return nil
		}
		return []string{"__SGE_PREFIX__O_" + name + "=" + value}
	}
	first := 0
	if len(j.Environment) > 0 && (j.Environment[0] == "TERM" || strings.HasPrefix(j.Environment[0], "TERM=")) {
		first = 1
	}
	return slices.Concat(
		origin("HOME", j.Home), origin("LOGNAME", j.LogName), origin("PATH", j.Path), origin("SHELL", j.Shell), origin("TZ", j.TimeZone),
		origin("MAIL", j.Mail), j.Environment[:first], origin("HOST", j.Host), origin("WORKDIR", j.WorkDir), j.Environment[first:])
}

// paths are entries of host:path or host:filehost:path.
func (d *detailElements) paths(name string, list []string) {
	d.each(name, "path_list", len(list), func(i int) {
		host, path, _ := strings.Cut(list[i], ":")
		fileHost := ""
		if name != "JB_shell_list" {
			fileHost, path, _ = strings.Cut(path, ":")
		}
		d.text("PN_path", path)
		d.text("PN_host", strings.TrimPrefix(host, "NONE"))
		d.text("PN_file_host", strings.TrimPrefix(fileHost, "NONE"))
		d.truth("PN_file_staging", false)
	})
}

func (d *detailElements) resources(name string, list []Request) {
	d.each(name, "qstat_l_requests", len(list), func(i int) {
		r := &list[i]
		d.text("CE_name", r.Name)
		d.int("CE_valtype", r.Type)
		d.text("CE_stringval", r.Value)
		d.precise("CE_doubleval", r.Number)
		d.int("CE_relop", 0)
		d.int("CE_consumable", r.Consumable)
		d.int("CE_dominant", 0)
		d.precise("CE_pj_doubleval", 0)
		d.int("CE_pj_dominant", 0)
		d.int("CE_requestable", 0)
		d.int("CE_tagged", 0)
	})
}

func (d *detailElements) queues(name string, list []string) {
	d.each(name, "destin_ident_list", len(list), func(i int) { d.text("QR_name", list[i]) })
}

// variables are entries of NAME=value, or NAME.
func (d *detailElements) variables(list, name string, variables []string) {
	d.each(list, name, len(variables), func(i int) {
		variable, value, _ := strings.Cut(variables[i], "=")
		d.text("VA_variable", variable)
		d.optional("VA_value", value)
	})
}

func (d *detailElements) relations(j *JobDetail) {
	d.variables("JB_context", "context_list", j.Context)
	d.optional("JB_cwd", j.Directory)
	d.paths("JB_stderr_path_list", j.Error)
	d.jobs("JB_jid_predecessor_list", "job_predecessors", j.Predecessors)
	d.jobs("JB_ja_ad_predecessor_list", "job_predecessors_ad", j.ArrayPredecessors)
	d.asked(j)
	d.each("JB_ja_ad_request_list", "element", len(j.ArrayPredecessorsAsked), func(int) { d.int("JRE_job_number", 0) })
	d.jobs("JB_jid_successor_list", "ulong_sublist", j.Successors)
	d.jobs("JB_ja_ad_successor_list", "ulong_sublist", j.ArraySuccessors)
}

func (d *detailElements) jobs(list, name string, ids []int) {
	d.each(list, name, len(ids), func(i int) { d.int("JRE_job_number", ids[i]) })
}

// asked adds the argument of -hold_jid. Grid Engine prints it twice.
func (d *detailElements) asked(j *JobDetail) {
	d.each("JB_jid_request_list", "element", len(j.PredecessorsAsked), func(i int) {
		d.int("JRE_job_number", 0)
		d.text("JRE_job_name", j.PredecessorsAsked[i])
	})
}

// scheduling appends the fields about the time and the manner of the job's start.
func (d *detailElements) scheduling(j *JobDetail) {
	d.int("JB_deadline", int(j.Deadline))
	d.int("JB_execution_time", int(j.ExecutionTime))
	d.optional("JB_checkpoint_name", j.Checkpoint)
	d.int("JB_checkpoint_attr", flags(j.CheckpointWhen, map[rune]int{'m': 1, 's': 2, 'x': 4, 'n': 8, 'r': 16}))
	d.int("JB_checkpoint_interval", j.CheckpointInterval)
	d.optional("JB_directive_prefix", j.DirectivePrefix)
	d.truth("JB_reserve", j.Reserve)
	d.int("JB_mail_options", flags(j.MailOptions, map[rune]int{'a': 1 << 18, 'b': 1 << 19, 'e': 1 << 20, 's': 1 << 22}))
	d.paths("JB_stdin_path_list", j.Input)
	d.int("JB_priority", j.POSIXPriority+1024) //nolint:mnd // the lowest of -p is 1
	d.int("JB_restart", flags(j.Restart, map[rune]int{'y': 1, 'n': 2}))
	d.int("JB_verify", 0)
	d.queues("JB_master_hard_queue_list", j.MasterQueues)
	d.int("JB_script_size", 0)
	if j.PE != nil {
		d.text("JB_pe", j.PE.Name)
		d.numbers("JB_pe_range", "ranges", j.PE.Slots)
	}
	d.asked(j)
	d.int("JB_verify_suitable_queues", verification(j.Verification))
	d.int("JB_soft_wallclock_gmt", 0)
	d.int("JB_hard_wallclock_gmt", 0)
}

// flags returns the sum of the values of letters.
func flags(letters string, of map[rune]int) int {
	sum := 0
	for _, l := range letters {
		sum |= of[l]
	}
	return sum
}

// verification returns the number of -w.
func verification(letter string) int { return flags(letter, map[rune]int{'w': 1, 'e': 2}) }

func (d *detailElements) numbers(list, name string, ranges []Range) {
	d.each(list, name, len(ranges), func(i int) {
		d.int("RN_min", ranges[i].First)
		d.int("RN_max", ranges[i].Last)
		d.int("RN_step", ranges[i].Step)
	})
}

func (d *detailElements) rest(j *JobDetail) {
	d.int("JB_override_tickets", j.OverrideTickets)
	d.int("JB_version", j.Version)
	tasks := j.TaskIDs
	if len(tasks) == 0 {
		tasks = []Range{{1, 1, 1}}
	}
	d.numbers("JB_ja_structure", "task_id_range", tasks)
	d.int("JB_type", j.kind())
	if !d.NoBinding {
		d.binding(j.Binding)
	}
	d.int("JB_ja_task_concurrency", j.Concurrency)
	d.precise("JB_nurg", j.NormalizedUrgency)
}

// kind returns the type of the job as a number.
func (j *JobDetail) kind() int {
	sum := 0
	if len(j.TaskIDs) > 0 {
		sum = 128
	}
	for word := range strings.SplitSeq(j.Type, ",") {
		sum |= map[string]int{"immediate": 1, "binary": 64, "noshell": 256}[word]
	}
	return sum
}

// binding writes the parts of a request in the form that -binding takes.
func (d *detailElements) binding(request string) {
	name, strategy, kind, explicit := "binding", "no_job_binding", 0, ""
	var amount, step int
	var start [2]string
	instance, rest, _ := strings.Cut(request, " ")
	words := strings.Split(rest, ":")
	switch kind = map[string]int{"pe": 1, "env": 2, "set": 3}[instance]; words[0] {
	case "explicit":
		strategy, explicit = words[0], rest
	case "linear", "striding":
		strategy = words[0]
		amount = 1<<31 - 1 // as many as there are slots
		if len(words) > 1 && words[1] != "slots" {
			amount, _ = strconv.Atoi(words[1])
		}
		words = words[min(2, len(words)):]
		if strategy == "striding" && len(words) > 0 {
			step, _ = strconv.Atoi(words[0])
			words = words[1:]
		}
		if len(words) == 0 {
			strategy += "_automatic"
		} else {
			start[0], start[1], _ = strings.Cut(words[0], ",")
		}
	default:
		name, kind, explicit = "element", 0, "no_explicit_binding"
	}
	socket, _ := strconv.Atoi(start[0])
	core, _ := strconv.Atoi(start[1])
	d.each("JB_binding", name, 1, func(int) {
		d.text("BN_strategy", strategy)
		d.int("BN_type", kind)
		d.int("BN_parameter_n", amount)
		d.int("BN_parameter_socket_offset", socket)
		d.int("BN_parameter_core_offset", core)
		d.int("BN_parameter_striding_step_size", step)
		d.optional("BN_parameter_explicit", explicit)
	})
}
