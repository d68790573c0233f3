package qconf

import (
	"fmt"
	"math"
	pathpkg "path"
	"slices"
	"strings"
	"time"

	"github.com/execd-project/execd/job"
)

// Configuration is a configuration of sge_conf(5): the global one, or the global one with a host's
// local one applied. The defaults are those of the configuration that Debian's packages install,
// which is the template of a new cell. They differ from Grid Engine's built-in ones in min_uid and
// min_gid (1000 instead of 0), and they have a gid_range.
type Configuration struct {
	Text
	Host string // "global", or the host that it is for

	ExecdSpoolDir         string   // absolute
	Mailer                string   // "[user@]path", empty for none
	Xterm                 string   // absolute, empty for none
	LoadSensors           []string // absolute paths
	Prolog, Epilog        string   // "[user@]path args", empty for none: see PrologFor
	ShellStartMode        job.ShellStartMode
	LoginShells           []string // names of shells, see IsLoginShell
	MinUID, MinGID        int      // jobs of users below are refused
	UserLists, XUserLists []string // access lists; a host's lists are added to the global ones
	Projects, XProjects   []string
	EnforceProject        bool
	EnforceUser           EnforceUser
	LoadReportTime        time.Duration // between two reports, from 1 s
	MaxUnheard            time.Duration // without a report, until a host is unknown
	RescheduleUnknown     time.Duration // 0 for never; Forever for INFINITY
	LogLevel              LogLevel
	AdministratorMail     []string
	MailTag               string        // before the subjects of mails to administrators; empty for none
	SetTokenCmd, PagCmd   string        // absolute, empty for none
	TokenExtendTime       time.Duration // 0 for none
	ShepherdCmd           string        // absolute, empty for the built-in
	QmasterParams         QmasterParams
	ExecdParams           ExecdParams
	ReportingParams       ReportingParams
	FinishedJobs          int     // the number of finished jobs that qstat -s z can show
	GIDRange              []Range // additional group ids, from 100; none if empty

	// How interactive jobs are started: "builtin", "path args", or empty for
	// none, which disables it.
	QloginCommand, QloginDaemon string
	RloginCommand, RloginDaemon string
	RshCommand, RshDaemon       string

	MaxAJInstances, MaxAJTasks    int // tasks of an array job that run, that it has; 0 for no limit
	MaxUJobs, MaxJobs             int // jobs of a user, of all; 0 for no limit
	MaxAdvanceReservations        int // 0 for no limit
	AutoUserOTicket               int
	AutoUserFShare                int
	AutoUserDefaultProject        string // empty for none
	AutoUserDeleteTime            time.Duration
	DelegatedFileStaging          bool
	Reprioritize                  bool
	JSVURL                        string // "[script:][user@]path", empty for none
	JSVAllowedMod                 []string
	LibJVMPath, AdditionalJVMArgs string // not used, but printed
	CgroupsParams                 CgroupsParams
}

// EnforceUser is enforce_user of sge_conf(5).
type EnforceUser string

// The values of enforce_user.
const (
	EnforceUserTrue  EnforceUser = "true"  // only users that have an object
	EnforceUserFalse EnforceUser = "false" // all users
	EnforceUserAuto  EnforceUser = "auto"  // all users; objects are made for them
)

// LogLevel is loglevel of sge_conf(5).
type LogLevel string

// The log levels: the three of sge_conf(5), and the others that Grid Engine accepts.
const (
	LogCritical LogLevel = "log_crit"
	LogError    LogLevel = "log_err"
	LogWarning  LogLevel = "log_warning"
	LogNotice   LogLevel = "log_notice"
	LogInfo     LogLevel = "log_info"
	LogDebug    LogLevel = "log_debug"
)

// GlobalName is the name of the global configuration.
const GlobalName = "global"

// minGID is the smallest additional group id (sge_conf(5), gid_range).
const minGID = 100

var confTable = table[Configuration]{
	object: "configuration",
	manual: "sge_conf(5)",
	layout: layout{column: 29, framed: true},
	rows:   confRows(),
}

// confRows are the parameters of sge_conf(5), in the order of qconf -sconf. A row is local if Grid
// Engine reads the parameter from the configuration of a host. These include user_lists and
// xuser_lists, and also shell_start_mode and login_shells, although sge_conf(5) says otherwise.
func confRows() []attribute[Configuration] {
	type cfg = *Configuration
	global, local := asWritten[Configuration], func(name, def string, k kind[Configuration]) attribute[Configuration] {
		r := asWritten(name, def, k)
		r.local = true
		return r
	}
	const unlimited = math.MaxInt32
	notUsed := kind[Configuration]{breaks: betweenItems, read: ignored[Configuration]}
	return []attribute[Configuration]{
		local("execd_spool_dir", "/var/spool/gridengine/execd", path(func(c cfg) *string { return &c.ExecdSpoolDir })),
		local("mailer", "/usr/bin/mail", userCommand(nil, func(c cfg) *string { return &c.Mailer })),
		local("xterm", "/usr/bin/xterm", optionalPath(func(c cfg) *string { return &c.Xterm })),
		local("load_sensor", "none", list(",", checkAbsolute, func(c cfg) *[]string { return &c.LoadSensors })),
		local("prolog", "none", userCommand(procedureVariables, func(c cfg) *string { return &c.Prolog })),
		local("epilog", "none", userCommand(procedureVariables, func(c cfg) *string { return &c.Epilog })),
		local("shell_start_mode", string(job.PosixCompliant), startMode(func(c cfg) *job.ShellStartMode { return &c.ShellStartMode })),
		local("login_shells", "bash,sh,ksh,csh,tcsh", list(",", CheckName, func(c cfg) *[]string { return &c.LoginShells })),
		global("min_uid", "1000", number(0, unlimited, func(c cfg) *int { return &c.MinUID })),
		global("min_gid", "1000", number(0, unlimited, func(c cfg) *int { return &c.MinGID })),
		local("user_lists", "none", list(",", CheckName, func(c cfg) *[]string { return &c.UserLists })),
		local("xuser_lists", "none", list(",", CheckName, func(c cfg) *[]string { return &c.XUserLists })),
		global("projects", "none", list(",", CheckName, func(c cfg) *[]string { return &c.Projects })),
		global("xprojects", "none", list(",", CheckName, func(c cfg) *[]string { return &c.XProjects })),
		global("enforce_project", "false", boolean(func(c cfg) *bool { return &c.EnforceProject })),
		global("enforce_user", "auto", keyword(func(c cfg) *EnforceUser { return &c.EnforceUser }, EnforceUserTrue, EnforceUserFalse, EnforceUserAuto)),
		local("load_report_time", "00:00:40", duration(time.Second, func(c cfg) *time.Duration { return &c.LoadReportTime })),
		global("max_unheard", "00:05:00", duration(time.Second, func(c cfg) *time.Duration { return &c.MaxUnheard })),
		local("reschedule_unknown", "00:00:00", durationOrForever(func(c cfg) *time.Duration { return &c.RescheduleUnknown })),
		global("loglevel", string(LogWarning), keyword(func(c cfg) *LogLevel { return &c.LogLevel },
			LogCritical, LogError, LogWarning, LogNotice, LogInfo, LogDebug)),
		global("administrator_mail", "root", list(",", checkAny, func(c cfg) *[]string { return &c.AdministratorMail })),
		local("set_token_cmd", "none", optionalPath(func(c cfg) *string { return &c.SetTokenCmd })),
		local("pag_cmd", "none", optionalPath(func(c cfg) *string { return &c.PagCmd })),
		local("token_extend_time", "none", kind[Configuration]{read: readTokenExtendTime}),
		local("shepherd_cmd", "none", optionalPath(func(c cfg) *string { return &c.ShepherdCmd })),
		global("qmaster_params", "none", paramsKind(qmasterParams, func(c cfg) *QmasterParams { return &c.QmasterParams })),
		local("execd_params", "none", paramsKind(execdParams, func(c cfg) *ExecdParams { return &c.ExecdParams })),
		local("reporting_params", "accounting=true reporting=false flush_time=00:00:15 joblog=false sharelog=00:00:00",
			paramsKind(reportingParams, func(c cfg) *ReportingParams { return &c.ReportingParams })),
		global("finished_jobs", "100", number(0, unlimited, func(c cfg) *int { return &c.FinishedJobs })),
		local("gid_range", "65400-65500", ranges(minGID, unlimited, func(c cfg) *[]Range { return &c.GIDRange })),
		local("qlogin_command", builtin, startup(func(c cfg) *string { return &c.QloginCommand })),
		local("qlogin_daemon", builtin, startup(func(c cfg) *string { return &c.QloginDaemon })),
		local("rlogin_command", builtin, startup(func(c cfg) *string { return &c.RloginCommand })),
		local("rlogin_daemon", builtin, startup(func(c cfg) *string { return &c.RloginDaemon })),
		local("rsh_command", builtin, startup(func(c cfg) *string { return &c.RshCommand })),
		local("rsh_daemon", builtin, startup(func(c cfg) *string { return &c.RshDaemon })),
		global("max_aj_instances", "2000", number(0, unlimited, func(c cfg) *int { return &c.MaxAJInstances })),
		global("max_aj_tasks", "75000", number(0, unlimited, func(c cfg) *int { return &c.MaxAJTasks })),
		global("max_u_jobs", "0", number(0, unlimited, func(c cfg) *int { return &c.MaxUJobs })),
		global("max_jobs", "0", number(0, unlimited, func(c cfg) *int { return &c.MaxJobs })),
		optional(global("max_advance_reservations", "", number(0, unlimited, func(c cfg) *int { return &c.MaxAdvanceReservations }))),
		global("auto_user_oticket", "0", number(0, unlimited, func(c cfg) *int { return &c.AutoUserOTicket })),
		global("auto_user_fshare", "0", number(0, unlimited, func(c cfg) *int { return &c.AutoUserFShare })),
		global("auto_user_default_project", "none", optionalName(func(c cfg) *string { return &c.AutoUserDefaultProject })),
		global("auto_user_delete_time", "86400", duration(0, func(c cfg) *time.Duration { return &c.AutoUserDeleteTime })),
		global("delegated_file_staging", "false", boolean(func(c cfg) *bool { return &c.DelegatedFileStaging })),
		global("reprioritize", "0", boolean(func(c cfg) *bool { return &c.Reprioritize })),
		global("jsv_url", "none", kind[Configuration]{read: readJSVURL}),
		global("jsv_allowed_mod", "ac,h,i,e,o,j,M,N,p,w", list(",", checkAny, func(c cfg) *[]string { return &c.JSVAllowedMod })),
		optional(local("libjvm_path", "", optionalPath(func(c cfg) *string { return &c.LibJVMPath }))),
		optional(local("additional_jvm_args", "", anyText(func(c cfg) *string { return &c.AdditionalJVMArgs }))),
		optional(global("mail_tag", "none", orNone(anyText(func(c cfg) *string { return &c.MailTag }), func(c cfg) *string { return &c.MailTag }))),
		since("9.1", global("gdi_request_limits", "none", notUsed)),
		since("9.1", global("binding_params", "enabled=true,implicit=false,mode=default,default_unit=C,on_any_host=false,filter=NONE", notUsed)),
		since("9.1", global("jsv_params", "none", notUsed)),
		since("9.1", global("port_range", "none", notUsed)),
		since("9.1", local("topology_file", "none", notUsed)),
		optional(local("cgroups_params", "", paramsKind(cgroupsParams, func(c cfg) *CgroupsParams { return &c.CgroupsParams }))),
	}
}

// asWritten returns a row whose values are printed as they were given, except for blanks in lists,
// because Grid Engine stores configurations as text.
func asWritten[T any](name, def string, k kind[T]) attribute[T] {
	return row(name, def, kind[T]{breaks: k.breaks, keeps: k.keeps, read: func(dst *T, s string) (string, error) {
		sound, err := k.read(dst, s)
		if err != nil {
			return sound, err
		}
		if k.breaks == betweenItems {
			s = tidyList(s)
		}
		return s, nil
	}})
}

// tidyList leaves one blank between words and none around commas, so that a
// list may be broken at both.
func tidyList(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	s = strings.ReplaceAll(s, " ,", ",")
	return strings.ReplaceAll(s, ", ", ",")
}

// since marks a row as that of an attribute that a release of Open Cluster Scheduler has introduced, and
// that has no effect here.
func since[T any](release string, r attribute[T]) attribute[T] {
	r.optional, r.since = true, release
	return r
}

func optional[T any](r attribute[T]) attribute[T] {
	r.optional = true
	return r
}

// IsConfigurationAttribute reports whether sge_conf(5) has an attribute, in any supported release.
func IsConfigurationAttribute(name string) bool { return confTable.index(name) >= 0 }

// ParseConfiguration reads the global configuration in the notation of
// sge_conf(5). file is only used in errors, which are all *Error, joined.
func ParseConfiguration(file string, data []byte) (*Configuration, error) {
	return whole(newConfiguration(GlobalName)(confTable.parse(file, data)))
}

// With returns the configuration with one parameter changed, or the reason why
// it cannot have that value.
func (c *Configuration) With(attribute, value string) (*Configuration, error) {
	return whole(newConfiguration(c.Host)(confTable.with(c.Text, attribute, value)))
}

// newConfiguration completes a configuration that confTable has read.
func newConfiguration(host string) func(Text, Configuration, error) (*Configuration, error) {
	return func(text Text, c Configuration, err error) (*Configuration, error) {
		text.title = host
		c.Text, c.Host = text, host
		if _, given := text.Value("cgroups_params"); !given {
			c.CgroupsParams = cgroupsParams.def()
		}
		for _, list := range []struct {
			attribute string
			unknown   []string
		}{
			{"qmaster_params", c.QmasterParams.Unknown},
			{"execd_params", c.ExecdParams.Unknown},
			{"reporting_params", c.ReportingParams.Unknown},
			{"cgroups_params", c.CgroupsParams.Unknown},
		} {
			for i, p := range list.unknown {
				if i == maxErrors {
					c.warnings = append(c.warnings, text.errorAt(list.attribute, "", fmt.Sprintf("there are %d unknown parameters", len(list.unknown)), nil))
					break
				}
				c.warnings = append(c.warnings, text.errorAt(list.attribute, p, fmt.Sprintf("unknown parameter %q is ignored", p), nil))
			}
		}
		return &c, err
	}
}

// Local is the configuration of a host as its file has it: only what differs
// from the global configuration.
type Local struct {
	Text
	Host string
}

// ParseLocal reads the local configuration of a host. The values are checked
// like those of the global one. file is only used in errors, which are all
// *Error, joined.
func ParseLocal(host, file string, data []byte) (*Local, error) {
	return whole(readLocal(host, file, data))
}

// readLocal returns the valid settings together with the errors in the others.
func readLocal(host, file string, data []byte) (*Local, error) {
	lines, errs := readLines(file, string(data))
	lines, more := confTable.match(lines)
	errs = append(errs, more...)
	var own []line
	for _, l := range lines {
		if confTable.rows[confTable.index(l.name)].local {
			own = append(own, l)
		} else {
			errs = append(errs, &Error{
				File: file, Line: l.number, Attribute: l.name, Value: l.value,
				Problem: "is a global parameter, which the configuration of a host cannot have",
			})
		}
	}
	return newLocal(host, file, own, errs)
}

// With returns the configuration with one parameter changed or added, or the
// reason why it cannot have that value.
func (l *Local) With(attribute, value string) (*Local, error) {
	i := confTable.index(attribute)
	if i < 0 || !confTable.rows[i].local {
		return nil, &Error{File: l.file, Value: value, Problem: fmt.Sprintf("the configuration of a host has no parameter %q", attribute)}
	}
	lines := replaced(l.lines(), line{name: attribute, value: strings.Trim(value, blanks), file: l.file})
	return whole(newLocal(l.Host, l.file, lines, nil))
}

func newLocal(host, file string, lines []line, errs []error) (*Local, error) {
	if err := CheckHostName(host); err != nil {
		errs = append(errs, &Error{File: file, Value: host, Problem: err.Error()})
	}
	text, c, err := confTable.build(file, lines)
	made, err := newConfiguration(host)(text, c, errJoin(errs, err))
	local := &Local{Text: made.Text, Host: host}
	// A value that stands for a default is not in the file of a host.
	local.entries = slices.DeleteFunc(local.entries, func(e entry) bool {
		return !slices.ContainsFunc(lines, func(l line) bool { return l.name == e.name })
	})
	return local, err
}

// merge puts the parameters of a host over those of c.
func (c *Configuration) merge(local *Local) (*Configuration, error) {
	lines := c.lines()
	for _, l := range local.lines() {
		lines = replaced(lines, l)
	}
	return whole(newConfiguration(local.Host)(confTable.build(local.file, lines)))
}

// PrologFor returns the prolog of jobs in a queue instance: the queue's, otherwise the host's,
// otherwise the global one (queue_conf(5), prolog). It is empty if there is none. c is the
// configuration of the host.
func (c *Configuration) PrologFor(q QueueInstance) string { return firstOf(q.Prolog, c.Prolog) }

// EpilogFor returns the epilog of jobs in a queue instance, with the rule of PrologFor.
func (c *Configuration) EpilogFor(q QueueInstance) string { return firstOf(q.Epilog, c.Epilog) }

// ScriptShellFor returns SCRIPT_SHELL of execd_params for jobs in a queue instance. If the
// configuration does not set it, it is true only for the built-in queue: the queues of a site
// follow shell_start_mode as queue_conf(5) describes.
func (c *Configuration) ScriptShellFor(q QueueInstance) bool {
	return c.ExecdParams.ScriptShell == job.Yes || c.ExecdParams.ScriptShell == job.Default && q.Builtin
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// IsLoginShell reports whether a shell is started as a login shell: whether
// login_shells has the last element of its path (sge_conf(5), login_shells).
func (c *Configuration) IsLoginShell(shell string) bool {
	return slices.Contains(c.LoginShells, pathpkg.Base(shell))
}

// builtin is the value for the agent's own interactive support.
const builtin = "builtin"

// startup returns the kind of an attribute that is builtin, none, or an absolute path with
// arguments (remote_startup(5)).
func startup[T any](field func(*T) *string) kind[T] {
	return orNone(kind[T]{read: func(dst *T, s string) (string, error) {
		*field(dst) = s
		if isWord(s, builtin) {
			*field(dst) = builtin
			return s, nil
		}
		if !strings.HasPrefix(s, "/") {
			return s, fmt.Errorf("%q is not a command, expected builtin, none, or an absolute path with arguments", s)
		}
		return s, nil
	}}, field)
}

func readTokenExtendTime(c *Configuration, s string) (string, error) {
	c.TokenExtendTime = 0
	if isWord(s, none) {
		return s, nil
	}
	return duration(0, func(c *Configuration) *time.Duration { return &c.TokenExtendTime }).read(c, s)
}

// readJSVURL reads a jsv_server_url of sge_types(5), or none.
func readJSVURL(c *Configuration, s string) (string, error) {
	c.JSVURL = ""
	if isWord(s, none) {
		return s, nil
	}
	c.JSVURL = s
	if rest := strings.TrimPrefix(s, "script:"); !strings.HasPrefix(rest, "/") {
		if user, p, ok := strings.Cut(rest, "@"); !ok || CheckName(user) != nil || !strings.HasPrefix(p, "/") {
			return s, fmt.Errorf("%q is not a JSV, expected none or [script:][user@] and an absolute path", s)
		}
	}
	return s, nil
}

// checkAny takes every item of a list.
func checkAny(string) error { return nil }
