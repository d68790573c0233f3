package qconf

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/quantity"
)

// ExecdParams is execd_params of sge_conf(5). The comments give each default that is not the zero
// value.
type ExecdParams struct {
	KeepActive            KeepActive       // KEEP_ACTIVE
	NotifyKill            job.Notification // NOTIFY_KILL, before SIGKILL; NotifyDefault
	NotifySusp            job.Notification // NOTIFY_SUSP, before SIGSTOP; NotifyDefault
	InheritEnv            bool             // INHERIT_ENV; true
	SetLibPath            bool             // SET_LIB_PATH
	EnableAddGrpKill      bool             // ENABLE_ADDGRP_KILL; true
	UseQsubGID            bool             // USE_QSUB_GID
	IgnoreNGroupsMaxLimit bool             // IGNORE_NGROUPS_MAX_LIMIT

	// Limits has the values of S_ and H_DESCRIPTORS, MAXPROC, MEMORYLOCKED and
	// LOCKS: bytes for MEMORYLOCKED, counts for the others. Where only one of a
	// pair is given the other is the same; without both it is Unset. The
	// resources of queues are unlimited.
	Limits job.Limits

	VmemLimits VmemLimits // VMEM_LIMIT, only in execd
	// PrivateTmp is PRIVATE_TMP, only in execd: jobs have their own /tmp, /var/tmp and /dev/shm.
	PrivateTmp PrivateTmp
	// PrivateTmpShare is PRIVATE_TMP_SHARE, only in execd: absolute paths in these directories that
	// the jobs share with the host; DefaultPrivateTmpShare.
	PrivateTmpShare []string
	// ScratchLimit is SCRATCH_LIMIT, only in execd: how the request for the complex ScratchName limits
	// TMPDIR.
	ScratchLimit  ScratchLimit
	ScriptTimeout time.Duration // SCRIPT_TIMEOUT of prolog, epilog and PE procedures; 120 s; 0 for never
	SRTKill       bool          // S_RT_KILL: jobs are killed the notify time after s_rt; true

	PTFMinPriority, PTFMaxPriority int           // nice values; -999 for the platform's
	PDCInterval                    time.Duration // PDC_INTERVAL, or PDCNever or PDCPerLoadReport; 1 s
	EnableBinding                  bool          // ENABLE_BINDING; true
	AcctReservedUsage              bool
	SharetreeReservedUsage         bool
	SimulateJobs                   bool // SIMULATE_JOBS
	UseCgroups                     bool // USE_CGROUPS; true, unlike in Grid Engine
	UseSmaps                       bool // USE_SMAPS
	EnableMemDetails               bool // ENABLE_MEM_DETAILS of Open Cluster Scheduler 9.1: its masters get pss and maxpss
	UseQidle                       bool // USE_QIDLE
	// ScriptShell is SCRIPT_SHELL, which only execd has: a script runs with the shell of -S,
	// otherwise by its #! line, otherwise with the shell of the queue, with any shell_start_mode
	// except script_from_stdin. If it is not set, ScriptShellFor gives the default.
	ScriptShell job.Tristate
	DemandLS    bool // DEMAND_LS; true
	UseSyslog   bool // USE_SYSLOG

	Unknown     []string // parameters that are not known here, as written
	Ineffective []string // parameters that are set and have no effect, as written
}

// KeepActive says which job directories stay when their job has ended.
type KeepActive string

// The values of KEEP_ACTIVE. Only Open Cluster Scheduler has the last one.
const (
	KeepNone   KeepActive = ""      // false
	KeepAll    KeepActive = "true"  // all
	KeepFailed KeepActive = "error" // only the directories of jobs that failed
)

// The values of PDC_INTERVAL that are not times.
const (
	PDCNever         time.Duration = -1
	PDCPerLoadReport time.Duration = -2
)

// PlatformPriority leaves the range of priorities to the platform
// (PTF_MIN_PRIORITY and PTF_MAX_PRIORITY).
const PlatformPriority = -999

// QmasterParams holds the parameters of qmaster_params (sge_conf(5)) that have an effect in an
// agent or a master. Grid Engine's switches for debugging, profiling and its protocols are accepted
// and listed in Ineffective.
type QmasterParams struct {
	ForbidReschedule              bool          // FORBID_RESCHEDULE: exit status 99 has no meaning
	ForbidAppError                bool          // FORBID_APPERROR: exit status 100 has no meaning
	EnableForcedQdel              bool          // ENABLE_FORCED_QDEL
	EnableForcedQdelIfUnknown     bool          // ENABLE_FORCED_QDEL_IF_UNKNOWN
	EnableEnforceMasterLimit      bool          // ENABLE_ENFORCE_MASTER_LIMIT
	DisableAutoRescheduling       bool          // DISABLE_AUTO_RESCHEDULING
	EnableRescheduleKill          bool          // ENABLE_RESCHEDULE_KILL
	EnableRescheduleSlave         bool          // ENABLE_RESCHEDULE_SLAVE
	OldRescheduleBehavior         bool          // OLD_RESCHEDULE_BEHAVIOR
	OldRescheduleBehaviorArrayJob bool          // OLD_RESCHEDULE_BEHAVIOR_ARRAY_JOB
	MaxDynEC                      int           // MAX_DYN_EC; 1000
	JSVTimeout                    int           // jsv_timeout, in seconds; 10
	StreeSpoolInterval            time.Duration // STREE_SPOOL_INTERVAL; 4 min
	MaxUSubmissions               Rate          // max_u_submissions, only in execd: submissions of a user; no limit
	// SlotsPE is SLOTS_PE, only in execd: the parallel environment of jobs that request slots with
	// -l; if it is "", these jobs are refused as in Grid Engine.
	SlotsPE string
	// MemoryPool is MEMORY_POOL, only in execd: the consumable of which a job books the largest of
	// its requests in MemoryRequests; if it is "", each request is booked separately, as in Grid
	// Engine.
	MemoryPool string

	Unknown, Ineffective []string // see ExecdParams
}

// Rate is a number of times in a period. The zero value is not a limit.
type Rate struct {
	Most int
	Per  time.Duration // at least a second
}

// ReportingParams is reporting_params of sge_conf(5). Accounting is true if it is not set.
type ReportingParams struct {
	Accounting, Reporting, Joblog bool
	LogConsumables                bool
	FlushTime                     time.Duration // 15 s
	AccountingFlushTime           time.Duration // FlushTime unless given; 0 for at once
	Sharelog                      time.Duration // 0 for never

	Unknown, Ineffective []string // see ExecdParams
}

// params are the parameters of one list, each "NAME=value", or "NAME" for true.
type params[P any] struct {
	def     func() P
	rows    []param[P]
	ignored []string // known, without a meaning here
	newer   newer    // the same, for parameters that 8.1.9 does not have
	unknown func(*P) *[]string
	// ineffective is the list that receives the parameters of ignored and idle that are set.
	ineffective func(*P) *[]string
	finish      func(*P) // sees to defaults that depend on each other; may be nil
}

// newer holds parameters by the release of Open Cluster Scheduler that introduced them.
type newer map[string][]string

// release returns the release that introduced a parameter; empty if it is not in n.
func (n newer) release(name string) string {
	for release, names := range n {
		if isWord(name, names...) {
			return release
		}
	}
	return ""
}

// param is one parameter; its kind reads the value.
type param[P any] struct {
	name string
	kind[P]
	idle bool // read and checked, and without effect
	// override reads a setting [who=value], which follows the setting for all; nil if the parameter
	// has no such settings.
	override func(dst *P, who, value string) error
}

func p[P any](name string, k kind[P]) param[P] { return param[P]{name: name, kind: k} }

func idle[P any](name string, k kind[P]) param[P] { return param[P]{name: name, kind: k, idle: true} }

// paramsKind reads a list of parameters, or none. Case does not matter in names; the separators are
// comma, semicolon and blank. If a parameter is repeated, the last value counts, as in Grid Engine.
func paramsKind[T, P any](t params[P], field func(*T) *P) kind[T] {
	return kind[T]{breaks: betweenItems, read: func(dst *T, s string) (string, error) {
		v, err := t.read(s)
		*field(dst) = v
		return s, err
	}}
}

// read returns the errors of all parameters, joined.
func (t params[P]) read(s string) (P, error) {
	v := t.def()
	items := strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(",; \t", r) })
	if len(items) == 1 && isWord(items[0], none) {
		items = nil
	}
	var last *param[P]
	var errs []error
	for _, item := range items {
		if last != nil && last.override != nil && item[0] == '[' {
			errs = append(errs, within(last.name, last.readOverride(&v, item)))
			continue
		}
		last = nil
		name, value, ok := strings.Cut(item, "=")
		if !ok {
			value = "true"
		}
		without := func() {
			if !isUnset(value) {
				*t.ineffective(&v) = append(*t.ineffective(&v), item)
			}
		}
		if isWord(name, t.ignored...) || t.newer.release(name) != "" {
			without()
			continue
		}
		known := false
		for i, r := range t.rows {
			if !strings.EqualFold(r.name, name) {
				continue
			}
			known, last = true, &t.rows[i]
			_, err := r.read(&v, value)
			errs = append(errs, within(r.name, err))
			if r.idle {
				without()
			}
		}
		if !known {
			*t.unknown(&v) = append(*t.unknown(&v), item)
		}
	}
	if t.finish != nil {
		t.finish(&v)
	}
	return v, errJoin(errs)
}

// readOverride reads [who=value].
func (r *param[P]) readOverride(dst *P, item string) error {
	who, value, ok := strings.Cut(strings.TrimSuffix(item[1:], "]"), "=")
	if !ok || !strings.HasSuffix(item, "]") {
		return fmt.Errorf("%q sets no value, expected [queue=value]", item)
	}
	return r.override(dst, who, value)
}

var execdParams = params[ExecdParams]{
	def: func() ExecdParams {
		return ExecdParams{
			NotifyKill: job.Notification{Kind: job.NotifyDefault}, NotifySusp: job.Notification{Kind: job.NotifyDefault},
			InheritEnv: true, EnableAddGrpKill: true, Limits: job.Unlimited(),
			ScriptTimeout: 120 * time.Second, SRTKill: true,
			PTFMinPriority: PlatformPriority, PTFMaxPriority: PlatformPriority,
			PrivateTmpShare: []string{DefaultPrivateTmpShare},
			PDCInterval:     time.Second, EnableBinding: true, DemandLS: true, UseCgroups: true, ScriptShell: job.Default,
		}
	},
	unknown:     func(e *ExecdParams) *[]string { return &e.Unknown },
	ineffective: func(e *ExecdParams) *[]string { return &e.Ineffective },
	ignored: []string{
		"ENABLE_WINDOMACC", "PROF_EXECD", "NO_AUTHENTICATION", "DO_AUTHENTICATION", "NO_SECURITY",
		"print_malloc_info", "JOB_MODE",
	},
	newer: newer{"9.1": {"USAGE_COLLECTION", "ENABLE_SYSTEMD", "ENABLE_HWLOC"}},
	rows: append([]param[ExecdParams]{
		p("KEEP_ACTIVE", kind[ExecdParams]{read: readKeepActive}),
		p("NOTIFY_KILL", notification(func(e *ExecdParams) *job.Notification { return &e.NotifyKill })),
		p("NOTIFY_SUSP", notification(func(e *ExecdParams) *job.Notification { return &e.NotifySusp })),
		p("INHERIT_ENV", boolean(func(e *ExecdParams) *bool { return &e.InheritEnv })),
		p("SET_LIB_PATH", boolean(func(e *ExecdParams) *bool { return &e.SetLibPath })),
		p("ENABLE_ADDGRP_KILL", boolean(func(e *ExecdParams) *bool { return &e.EnableAddGrpKill })),
		p("USE_QSUB_GID", boolean(func(e *ExecdParams) *bool { return &e.UseQsubGID })),
		p("IGNORE_NGROUPS_MAX_LIMIT", boolean(func(e *ExecdParams) *bool { return &e.IgnoreNGroupsMaxLimit })),
		p("SCRIPT_TIMEOUT", duration(0, func(e *ExecdParams) *time.Duration { return &e.ScriptTimeout })),
		vmemLimit, privateTmp,
		p("PRIVATE_TMP_SHARE", kind[ExecdParams]{read: readPrivateTmpShare}),
		p("SCRATCH_LIMIT", kind[ExecdParams]{read: readScratchLimit}),
		p("S_RT_KILL", boolean(func(e *ExecdParams) *bool { return &e.SRTKill })),
		p("PTF_MIN_PRIORITY", number(PlatformPriority, 20, func(e *ExecdParams) *int { return &e.PTFMinPriority })),
		p("PTF_MAX_PRIORITY", number(PlatformPriority, 20, func(e *ExecdParams) *int { return &e.PTFMaxPriority })),
		p("PDC_INTERVAL", kind[ExecdParams]{read: readPDCInterval}),
		p("ENABLE_BINDING", boolean(func(e *ExecdParams) *bool { return &e.EnableBinding })),
		p("ACCT_RESERVED_USAGE", boolean(func(e *ExecdParams) *bool { return &e.AcctReservedUsage })),
		p("SHARETREE_RESERVED_USAGE", boolean(func(e *ExecdParams) *bool { return &e.SharetreeReservedUsage })),
		p("SIMULATE_JOBS", boolean(func(e *ExecdParams) *bool { return &e.SimulateJobs })),
		p("USE_CGROUPS", kind[ExecdParams]{read: readUseCgroups}),
		idle("USE_SMAPS", boolean(func(e *ExecdParams) *bool { return &e.UseSmaps })),
		p("ENABLE_MEM_DETAILS", boolean(func(e *ExecdParams) *bool { return &e.EnableMemDetails })),
		p("USE_QIDLE", boolean(func(e *ExecdParams) *bool { return &e.UseQidle })),
		p("DEMAND_LS", boolean(func(e *ExecdParams) *bool { return &e.DemandLS })),
		p("SCRIPT_SHELL", kind[ExecdParams]{read: readScriptShell}),
		p("USE_SYSLOG", boolean(func(e *ExecdParams) *bool { return &e.UseSyslog })),
	}, limitParams()...),
	finish: finishLimits,
}

// unset marks a limit of execd_params that was not given.
const unset = quantity.Infinity - 1

// paramLimits are the resources that execd_params limits.
var paramLimits = []job.Resource{job.Descriptors, job.MaxProc, job.MemoryLocked, job.Locks}

// limitParams are S_ and H_ of the limits of execd_params.
func limitParams() []param[ExecdParams] {
	var rows []param[ExecdParams]
	for _, r := range paramLimits {
		for _, hard := range []bool{false, true} {
			prefix := "S_"
			if hard {
				prefix = "H_"
			}
			rows = append(rows, p(prefix+strings.ToUpper(r.String()), paramLimit(r, hard)))
		}
	}
	return rows
}

// paramLimit reads a limit and clears Unset; the other of the pair is marked
// when it has not been given yet.
func paramLimit(r job.Resource, hard bool) kind[ExecdParams] {
	set := limit(r, hard, func(e *ExecdParams) *job.Limits { return &e.Limits })
	return kind[ExecdParams]{read: func(e *ExecdParams, s string) (string, error) {
		if l := &e.Limits[r]; l.Unset {
			*l = job.Limit{Soft: unset, Hard: unset}
		}
		return set.read(e, s)
	}}
}

// finishLimits gives the missing one of a pair the value of the other
// (sge_conf(5), S_DESCRIPTORS).
func finishLimits(e *ExecdParams) {
	for _, r := range paramLimits {
		l := &e.Limits[r]
		if l.Soft == unset {
			l.Soft = l.Hard
		}
		if l.Hard == unset {
			l.Hard = l.Soft
		}
	}
}

var qmasterParams = params[QmasterParams]{
	def: func() QmasterParams {
		return QmasterParams{MaxDynEC: 1000, StreeSpoolInterval: 4 * time.Minute, JSVTimeout: 10}
	},
	unknown:     func(q *QmasterParams) *[]string { return &q.Unknown },
	ineffective: func(q *QmasterParams) *[]string { return &q.Ineffective },
	ignored: []string{
		"MONITOR_TIME", "LOG_MONITOR_MESSAGE", "PROF_SIGNAL", "PROF_WORKER", "PROF_LISTENER", "PROF_DELIVER",
		"PROF_TEVENT", "PROF_SCHEDULER", "MAX_JOB_DELETION_TIME", "gdi_timeout", "gdi_retries", "cl_ping",
		"SCHEDULER_TIMEOUT", "jsv_threshold", "SIMULATE_EXECDS", "NO_AUTHENTICATION", "NO_SECURITY",
		"ENABLE_MTRACE", "__TEST_SLEEP_AFTER_REQUEST", "print_malloc_info", "USE_SYSLOG",
	},
	newer: newer{"9.0": {
		"ENABLE_SUP_GRP_EVAL", "ENABLE_SUBMIT_LIB_PATH", "ENABLE_SUBMIT_LD_PRELOAD", "GPERF_NAME", "GPERF_THREADS", "MAX_DS_DEVIATION",
		"DISABLE_SECONDARY_DS", "DISABLE_SECONDARY_DS_READER", "DISABLE_SECONDARY_DS_EXECD", "DISABLE_AUTOMATIC_SESSIONS",
		"DISABLE_CLUSTER_WIDE_SESSIONS",
	}},
	rows: []param[QmasterParams]{
		p("FORBID_RESCHEDULE", boolean(func(q *QmasterParams) *bool { return &q.ForbidReschedule })),
		p("FORBID_APPERROR", boolean(func(q *QmasterParams) *bool { return &q.ForbidAppError })),
		p("ENABLE_FORCED_QDEL", boolean(func(q *QmasterParams) *bool { return &q.EnableForcedQdel })),
		idle("ENABLE_FORCED_QDEL_IF_UNKNOWN", boolean(func(q *QmasterParams) *bool { return &q.EnableForcedQdelIfUnknown })),
		idle("ENABLE_ENFORCE_MASTER_LIMIT", boolean(func(q *QmasterParams) *bool { return &q.EnableEnforceMasterLimit })),
		idle("DISABLE_AUTO_RESCHEDULING", boolean(func(q *QmasterParams) *bool { return &q.DisableAutoRescheduling })),
		idle("ENABLE_RESCHEDULE_KILL", boolean(func(q *QmasterParams) *bool { return &q.EnableRescheduleKill })),
		idle("ENABLE_RESCHEDULE_SLAVE", boolean(func(q *QmasterParams) *bool { return &q.EnableRescheduleSlave })),
		p("OLD_RESCHEDULE_BEHAVIOR", boolean(func(q *QmasterParams) *bool { return &q.OldRescheduleBehavior })),
		p("OLD_RESCHEDULE_BEHAVIOR_ARRAY_JOB", boolean(func(q *QmasterParams) *bool { return &q.OldRescheduleBehaviorArrayJob })),
		idle("MAX_DYN_EC", number(0, math.MaxInt32, func(q *QmasterParams) *int { return &q.MaxDynEC })),
		p("jsv_timeout", number(1, math.MaxInt32, func(q *QmasterParams) *int { return &q.JSVTimeout })),
		p("max_u_submissions", kind[QmasterParams]{read: func(q *QmasterParams, s string) (normal string, err error) {
			q.MaxUSubmissions, err = parseRate(s)
			return s, err
		}}),
		p("MEMORY_POOL", optionalName(func(q *QmasterParams) *string { return &q.MemoryPool })),
		p("SLOTS_PE", optionalName(func(q *QmasterParams) *string { return &q.SlotsPE })),
		idle("STREE_SPOOL_INTERVAL", duration(time.Second, func(q *QmasterParams) *time.Duration { return &q.StreeSpoolInterval })),
	},
}

// parseRate reads a number, optionally followed by a slash and the time_specifier of a period; the
// default period is a second. 0 means no limit.
func parseRate(s string) (Rate, error) {
	number, period, given := strings.Cut(s, "/")
	most, err := parseNumber(number, 0, math.MaxInt32)
	if err != nil {
		return Rate{}, fmt.Errorf("%w, and a period behind a slash, such as 100/60", err)
	}
	r := Rate{Most: most, Per: time.Second}
	if given {
		if r.Per, err = parseDuration(period); err != nil {
			return Rate{}, err
		}
		if r.Per < time.Second || r.Per == Forever {
			return Rate{}, fmt.Errorf("%q is not a period, expected at least a second and less than for ever", period)
		}
	}
	if most == 0 {
		return Rate{}, nil
	}
	return r, nil
}

// flushUnset is an accounting_flush_time that was not given.
const flushUnset time.Duration = -1

var reportingParams = params[ReportingParams]{
	def: func() ReportingParams {
		return ReportingParams{Accounting: true, FlushTime: 15 * time.Second, AccountingFlushTime: flushUnset}
	},
	unknown:     func(r *ReportingParams) *[]string { return &r.Unknown },
	ineffective: func(r *ReportingParams) *[]string { return &r.Ineffective },
	newer: newer{
		"9.0": {"monitoring", "old_accounting", "old_reporting", "usage_patterns"},
		"9.1": {"online_usage", "sync_write"},
	},
	rows: []param[ReportingParams]{
		p("accounting", boolean(func(r *ReportingParams) *bool { return &r.Accounting })),
		idle("reporting", boolean(func(r *ReportingParams) *bool { return &r.Reporting })),
		idle("joblog", boolean(func(r *ReportingParams) *bool { return &r.Joblog })),
		idle("log_consumables", boolean(func(r *ReportingParams) *bool { return &r.LogConsumables })),
		p("flush_time", duration(0, func(r *ReportingParams) *time.Duration { return &r.FlushTime })),
		p("accounting_flush_time", duration(0, func(r *ReportingParams) *time.Duration { return &r.AccountingFlushTime })),
		idle("sharelog", duration(0, func(r *ReportingParams) *time.Duration { return &r.Sharelog })),
	},
	finish: func(r *ReportingParams) {
		if r.AccountingFlushTime == flushUnset {
			r.AccountingFlushTime = r.FlushTime
		}
	},
}

func readKeepActive(e *ExecdParams, s string) (string, error) {
	if isWord(s, string(KeepFailed)) {
		e.KeepActive = KeepFailed
		return s, nil
	}
	keep, err := parseBool(s)
	if err != nil {
		return s, fmt.Errorf("%q is unknown, expected true, false or error", s)
	}
	e.KeepActive = KeepNone
	if keep {
		e.KeepActive = KeepAll
	}
	return s, nil
}

// readUseCgroups also takes the value systemd, which later versions of the
// original know.
func readUseCgroups(e *ExecdParams, s string) (string, error) {
	if isWord(s, "systemd") {
		e.UseCgroups = true
		return s, nil
	}
	return boolean(func(e *ExecdParams) *bool { return &e.UseCgroups }).read(e, s)
}

func readScriptShell(e *ExecdParams, s string) (string, error) {
	v, err := parseBool(s)
	if e.ScriptShell = job.No; v {
		e.ScriptShell = job.Yes
	}
	return s, err
}

func readPDCInterval(e *ExecdParams, s string) (string, error) {
	switch {
	case isWord(s, "NEVER"):
		e.PDCInterval = PDCNever
		return s, nil
	case isWord(s, "PER_LOAD_REPORT"):
		e.PDCInterval = PDCPerLoadReport
		return s, nil
	}
	normal, err := duration(time.Second, func(e *ExecdParams) *time.Duration { return &e.PDCInterval }).read(e, s)
	if err != nil {
		err = fmt.Errorf("%w, PER_LOAD_REPORT or NEVER", err)
	}
	return normal, err
}

// notification returns a signal name, default or none (sge_conf(5), NOTIFY_KILL).
func notification[T any](field func(*T) *job.Notification) kind[T] {
	return kind[T]{read: func(dst *T, s string) (string, error) {
		switch {
		case isWord(s, "default"):
			*field(dst) = job.Notification{Kind: job.NotifyDefault}
		case isWord(s, none):
			*field(dst) = job.Notification{Kind: job.NotifyNone}
		default:
			sig, ok := job.ParseSignal(s)
			if !ok {
				return s, fmt.Errorf("%q is not a signal, expected a name of kill -l, default or none", s)
			}
			*field(dst) = job.Notification{Kind: job.NotifySignal, Signal: job.SignalName(sig)}
		}
		return s, nil
	}}
}
