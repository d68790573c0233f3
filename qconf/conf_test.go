package qconf

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/quantity"
)

func conf(t *testing.T, lines string) *Configuration {
	t.Helper()
	c, err := ParseConfiguration("conf/global", []byte(lines))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAConfigurationWithoutParametersIsDebians(t *testing.T) {
	want := Configuration{
		Host: "global", ExecdSpoolDir: "/var/spool/gridengine/execd", Mailer: "/usr/bin/mail", Xterm: "/usr/bin/xterm",
		ShellStartMode: job.PosixCompliant, LoginShells: []string{"bash", "sh", "ksh", "csh", "tcsh"},
		MinUID: 1000, MinGID: 1000, EnforceUser: EnforceUserAuto,
		LoadReportTime: 40 * time.Second, MaxUnheard: 5 * time.Minute, LogLevel: LogWarning, AdministratorMail: []string{"root"},
		QmasterParams: QmasterParams{MaxDynEC: 1000, StreeSpoolInterval: 4 * time.Minute, JSVTimeout: 10},
		ExecdParams: ExecdParams{
			NotifyKill: job.Notification{Kind: job.NotifyDefault}, NotifySusp: job.Notification{Kind: job.NotifyDefault},
			InheritEnv: true, EnableAddGrpKill: true, Limits: job.Unlimited(), ScriptTimeout: 2 * time.Minute, SRTKill: true,
			PTFMinPriority: -999, PTFMaxPriority: -999, PDCInterval: time.Second, EnableBinding: true, DemandLS: true, UseCgroups: true, ScriptShell: job.Default, PrivateTmpShare: []string{DefaultPrivateTmpShare},
		},
		CgroupsParams:   CgroupsParams{Cpuset: true, Freezer: true, Killing: true, HVmemLimit: true, HRSSLimit: true, Weight: Auto, Systemd: true, Pids: DefaultPids},
		ReportingParams: ReportingParams{Accounting: true, FlushTime: 15 * time.Second, AccountingFlushTime: 15 * time.Second},
		FinishedJobs:    100, GIDRange: []Range{{65400, 65500}},
		QloginCommand: "builtin", QloginDaemon: "builtin", RloginCommand: "builtin", RloginDaemon: "builtin", RshCommand: "builtin", RshDaemon: "builtin",
		MaxAJInstances: 2000, MaxAJTasks: 75000, AutoUserDeleteTime: 24 * time.Hour,
		JSVAllowedMod: []string{"ac", "h", "i", "e", "o", "j", "M", "N", "p", "w"},
	}
	if diff := cmp.Diff(want, *conf(t, ""), cmpopts.IgnoreFields(Configuration{}, "Text")); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestExecdParamsAreTyped(t *testing.T) {
	e := conf(t, `execd_params KEEP_ACTIVE=error;notify_kill=TERM NOTIFY_SUSP=none,INHERIT_ENV=0, SET_LIB_PATH=true \
   ENABLE_ADDGRP_KILL=false,USE_QSUB_GID,IGNORE_NGROUPS_MAX_LIMIT=1,S_DESCRIPTORS=1K,H_DESCRIPTORS=2000,H_MAXPROC=infinity \
   S_MEMORYLOCKED=4G,SCRIPT_TIMEOUT=0:5:0,S_RT_KILL=false,PTF_MIN_PRIORITY=19,PDC_INTERVAL=PER_LOAD_REPORT \
   ENABLE_WINDOMACC=false,KEEP_ACTIVE_X=1,frob
`)
	want := ExecdParams{
		KeepActive: KeepFailed, NotifyKill: job.Notification{Kind: job.NotifySignal, Signal: "TERM"},
		NotifySusp: job.Notification{Kind: job.NotifyNone}, SetLibPath: true, UseQsubGID: true, IgnoreNGroupsMaxLimit: true,
		Limits: job.Unlimited(), ScriptTimeout: 5 * time.Minute, PTFMinPriority: 19, PTFMaxPriority: -999,
		PDCInterval: PDCPerLoadReport, EnableBinding: true, DemandLS: true, UseCgroups: true, ScriptShell: job.Default, PrivateTmpShare: []string{DefaultPrivateTmpShare}, Unknown: []string{"KEEP_ACTIVE_X=1", "frob"},
	}
	want.Limits[job.Descriptors] = job.Limit{Soft: 1024, Hard: 2000}
	want.Limits[job.MaxProc] = job.Limit{Soft: quantity.Infinity, Hard: quantity.Infinity}
	want.Limits[job.MemoryLocked] = job.Limit{Soft: 4 << 30, Hard: 4 << 30}
	same(t, "params", want, e.ExecdParams)
	var warnings []string
	for _, w := range e.Warnings() {
		warnings = append(warnings, w.Error())
	}
	same(t, "warnings", []string{
		`conf/global:1: execd_params: unknown parameter "KEEP_ACTIVE_X=1" is ignored`,
		`conf/global:1: execd_params: unknown parameter "frob" is ignored`,
	}, warnings)
}

func TestConfigurationGivesTypedValues(t *testing.T) {
	c := conf(t, `qmaster_params FORBID_RESCHEDULE=1 FORBID_APPERROR=true,MAX_DYN_EC=7,gdi_timeout=120
reporting_params accounting=false flush_time=00:00:01 joblog=true
gid_range 200 , 300-400
load_sensor /a/b, /c/d
login_shells sh
reprioritize 1
jsv_url script:root@/opt/jsv
qlogin_command NONE
rsh_daemon /usr/sbin/sshd -i
token_extend_time 24:0:0
max_advance_reservations 4
loglevel LOG_INFO
reschedule_unknown INFINITY
mailer root@/bin/mail
`)
	if !c.QmasterParams.ForbidReschedule || !c.QmasterParams.ForbidAppError || c.QmasterParams.MaxDynEC != 7 || len(c.Warnings()) != 0 {
		t.Errorf("%+v %v", c.QmasterParams, c.Warnings())
	}
	same(t, "reporting", ReportingParams{Joblog: true, FlushTime: time.Second, AccountingFlushTime: time.Second, Ineffective: []string{"joblog=true"}}, c.ReportingParams)
	same(t, "gids", []Range{{200, 200}, {300, 400}}, c.GIDRange)
	same(t, "gids as text", "200,300-400", value(t, c.Text, "gid_range"))
	same(t, "sensors", []string{"/a/b", "/c/d"}, c.LoadSensors)
	if !c.Reprioritize || c.JSVURL != "script:root@/opt/jsv" || c.QloginCommand != "" || c.RshDaemon != "/usr/sbin/sshd -i" ||
		c.TokenExtendTime != 24*time.Hour || c.MaxAdvanceReservations != 4 || c.LogLevel != LogInfo || c.RescheduleUnknown != Forever {
		t.Errorf("%+v", c)
	}
	for shell, want := range map[string]bool{"/bin/sh": true, "sh": true, "/bin/s": false, "/bin/bash": false} {
		same(t, shell, want, c.IsLoginShell(shell))
	}
}

func TestAConfigurationRefuses(t *testing.T) {
	for line, want := range map[string]string{
		"frob 1":                           `unknown attribute "frob" of a configuration, expected one of sge_conf(5)`,
		"gid_range 99":                     `gid_range: "99" is not a range: "99" is out of range, expected a number from 100 to 2147483647`,
		"gid_range 200-100":                `gid_range: "200-100" is not a range: it ends before it begins`,
		"gid_range 200-300,250":            `gid_range: "250" overlaps 200-300`,
		"gid_range 200-":                   `gid_range: "200-" is not a range: "" is not a number, expected one from 100 to 2147483647`,
		"gid_range ,":                      `gid_range: "," is an empty list, expected NONE or ranges like 20000-20100`,
		"min_uid -1":                       `min_uid: "-1" is out of range, expected a number from 0 to 2147483647`,
		"load_report_time 0":               `load_report_time: "0" is too short, expected at least 00:00:01`,
		"load_report_time INFINITY":        `load_report_time: "INFINITY" is not possible here, expected a finite time`,
		"loglevel loud":                    `loglevel: "loud" is unknown, expected one of log_crit, log_err, log_warning, log_notice, log_info, log_debug`,
		"enforce_project maybe":            `enforce_project: "maybe" is neither true nor false, expected TRUE or FALSE`,
		"enforce_user maybe":               `enforce_user: "maybe" is unknown, expected one of true, false, auto`,
		"load_sensor /a,b":                 `load_sensor: "b" is not an absolute path, expected one that begins with /`,
		"execd_spool_dir spool":            `execd_spool_dir: "spool" is not an absolute path, expected one that begins with /`,
		"jsv_url x":                        `jsv_url: "x" is not a JSV, expected none or [script:][user@] and an absolute path`,
		"qlogin_daemon sshd":               `qlogin_daemon: "sshd" is not a command, expected builtin, none, or an absolute path with arguments`,
		"token_extend_time soon":           `token_extend_time: "soon" is not a time, expected seconds, hours:minutes:seconds or INFINITY`,
		"execd_params KEEP_ACTIVE=2":       `execd_params: KEEP_ACTIVE: "2" is unknown, expected true, false or error`,
		"execd_params NOTIFY_KILL=FOO":     `execd_params: NOTIFY_KILL: "FOO" is not a signal, expected a name of kill -l, default or none`,
		"execd_params INHERIT_ENV=":        `execd_params: INHERIT_ENV: "" is neither true nor false, expected TRUE or FALSE`,
		"execd_params S_DESCRIPTORS=x":     `execd_params: S_DESCRIPTORS: "x" is not a size, expected a number with an optional letter of k K m M g G t T, or INFINITY`,
		"execd_params PDC_INTERVAL=often":  `execd_params: PDC_INTERVAL: "often" is not a time, expected seconds, hours:minutes:seconds or INFINITY, PER_LOAD_REPORT or NEVER`,
		"execd_params PTF_MIN_PRIORITY=99": `execd_params: PTF_MIN_PRIORITY: "99" is out of range, expected a number from -999 to 20`,
		"reporting_params flush_time=x":    `reporting_params: flush_time: "x" is not a time, expected seconds, hours:minutes:seconds or INFINITY`,
		"slots 1,[n=2]":                    `unknown attribute "slots" of a configuration, expected one of sge_conf(5)`,
	} {
		t.Run(line, func(t *testing.T) {
			_, err := ParseConfiguration("conf/global", []byte("#global:\n"+line+"\n"))
			refused(t, err, "conf/global:2: "+want)
		})
	}
}

func TestAHostHasOnlyLocalParameters(t *testing.T) {
	_, err := ParseLocal("n1", "conf/n1", []byte("mailer /bin/mail\nmin_uid 100\nprolog rel\nmax_jobs 3\n"))
	refused(t, err,
		"conf/n1:2: min_uid: is a global parameter, which the configuration of a host cannot have",
		"conf/n1:4: max_jobs: is a global parameter, which the configuration of a host cannot have",
		`conf/n1:3: prolog: "rel" is not a command, expected NONE or [user@] and an absolute path with arguments`,
	)
	_, err = ParseLocal("global", "conf/x", nil)
	refused(t, err, `conf/x: "global" is not a host name: the word is reserved`)

	var local []string
	for _, r := range confTable.rows {
		if r.local {
			local = append(local, r.name)
		}
	}
	// The list of the original; user_lists and xuser_lists are in its manual,
	// cgroups_params is Univa's, and topology_file is of Open Cluster Scheduler 9.1.
	want := strings.Fields(`execd_spool_dir mailer xterm load_sensor prolog epilog shell_start_mode login_shells
		load_report_time reschedule_unknown set_token_cmd pag_cmd token_extend_time shepherd_cmd execd_params reporting_params gid_range
		qlogin_daemon qlogin_command rlogin_daemon rlogin_command rsh_daemon rsh_command libjvm_path additional_jvm_args user_lists xuser_lists cgroups_params topology_file`)
	slices.Sort(want)
	slices.Sort(local)
	same(t, "local parameters", want, local)
}

// withLocal returns the configuration of the host n1: c with the parameters of a local configuration
// over its own.
func withLocal(c *Configuration, local string) (*Configuration, error) {
	l, err := ParseLocal("n1", "conf/n1", []byte(local))
	if err != nil {
		return nil, err
	}
	return c.merge(l)
}

func TestAHostReplacesGlobalParameters(t *testing.T) {
	global := conf(t, "prolog /g\nepilog /g\nmailer /bin/mail\nexecd_params KEEP_ACTIVE=true\n")
	c, err := withLocal(global, "prolog none\nexecd_params INHERIT_ENV=false\nlibjvm_path /j\n")
	if err != nil {
		t.Fatal(err)
	}
	if c.Host != "n1" || c.Prolog != "" || c.Epilog != "/g" || c.ExecdParams.KeepActive != KeepNone || c.ExecdParams.InheritEnv || c.LibJVMPath != "/j" {
		t.Errorf("%+v", c)
	}
	for sentence, q := range map[string]struct {
		lines, prolog, epilog string
	}{
		"the queue's go first":  {"prolog /q\nepilog /q", "/q", "/q"},
		"then those of a host":  {"", "", "/g"},
		"one without the other": {"prolog /q", "/q", "/g"},
	} {
		i, err := queue(t, q.lines).Instance("n1", nil)
		if err != nil {
			t.Fatal(err)
		}
		same(t, sentence, [2]string{q.prolog, q.epilog}, [2]string{c.PrologFor(i), c.EpilogFor(i)})
	}
}

func TestLocalWith(t *testing.T) {
	l, err := ParseLocal("n1", "conf/n1", []byte("mailer /bin/mail\nprolog /a\n"))
	if err != nil {
		t.Fatal(err)
	}
	l, err = l.With("mailer", "/bin/m")
	if err != nil {
		t.Fatal(err)
	}
	if l, err = l.With("xterm", "none"); err != nil {
		t.Fatal(err)
	}
	same(t, "text", "#n1:\nmailer                       /bin/m\nprolog                       /a\nxterm                        none\n\n", l.Format(Wrapped))
	_, err = l.With("min_uid", "1")
	refused(t, err, `conf/n1: the configuration of a host has no parameter "min_uid"`)
}

func TestRates(t *testing.T) {
	for text, want := range map[string]Rate{
		"10": {10, time.Second}, "100/60": {100, time.Minute}, "1/1:0:0": {1, time.Hour}, "0": {}, "0/60": {},
	} {
		c := conf(t, "qmaster_params max_u_submissions="+text)
		same(t, text, want, c.QmasterParams.MaxUSubmissions)
	}
	for _, text := range []string{"x", "-1", "1/0", "1/", "1/INFINITY", "/60", "1/60/60", "99999999999"} {
		if _, err := ParseConfiguration("global", []byte("qmaster_params max_u_submissions="+text+"\n")); err == nil {
			t.Errorf("%s is accepted", text)
		}
	}
}
