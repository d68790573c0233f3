package jobdir

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/execd-project/execd/job"
)

// userKeys are the keys with values from the submitter or from the submitter's environment.
var userKeys = []string{
	"fs_stdin_host", "fs_stdin_path", "fs_stdin_tmp_path", "fs_stdout_host", "fs_stdout_path", "fs_stdout_tmp_path",
	"fs_stderr_host", "fs_stderr_path", "fs_stderr_tmp_path", "stdout_path", "stderr_path", "stdin_path",
	"shell_path", "script_file", "job_owner", "cwd", "pe_stdout_path", "pe_stderr_path", "mail_list", "job_name",
	"account", "acct_project", "njob_args", "display", "qrsh_control_port",
}

func isUserKey(key string) bool {
	return slices.Contains(userKeys, key) || strings.HasPrefix(key, "job_arg")
}

// victims returns configs of every kind: serial, parallel, checkpointing, with arguments, and
// interactive ones, for which there are no samples.
func victims(t testing.TB) map[string][]byte {
	t.Helper()
	m := map[string][]byte{}
	for _, name := range []string{"script", "pe", "ckpt", "exparams", "noargs-binary", "array.3"} {
		m[name] = samples(t)[name]
	}
	for _, kind := range []string{"QLOGIN", "QRSH", "QRLOGIN", "INTERACTIVE"} {
		d, err := ParseConfig("config", m["script"])
		if err != nil {
			t.Fatal(err)
		}
		d.Command.File, d.Command.Args = kind, nil
		d.Interactive = &job.Interactive{Daemon: "builtin", MasterHost: "m", ControlPort: "h:1"}
		if kind == "INTERACTIVE" {
			d.Interactive = &job.Interactive{Xterm: "/usr/bin/xterm", Display: ":0"}
		}
		if m[kind], err = FormatConfig(d); err != nil {
			t.Fatal(err)
		}
		d.ID.PETask = "1.host"
		if kind == "QRSH" {
			if m["petask"], err = FormatConfig(d); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, data := range files(t, "testdata/ocs/*") {
		m["ocs-"+name] = data
	}
	return m
}

func TestAttackedConfigsAreValid(t *testing.T) {
	for name, data := range victims(t) {
		if _, err := ParseConfig(name, data); err != nil {
			t.Error(err)
		}
	}
}

// TestConfigWithAddedLineIsRefused adds a line. A user who gets a newline into a value can add
// lines directly after it; the reader must refuse every such line, whatever its key is.
func TestConfigWithAddedLineIsRefused(t *testing.T) {
	var names []string
	for _, k := range configKeys {
		names = append(names, k.name)
	}
	for i := range 5 {
		names = append(names, argumentKey(i))
	}
	for name, data := range victims(t) {
		if name == "array.3" || name == "noargs-binary" || name == "exparams" || name == "QLOGIN" || name == "QRLOGIN" {
			continue // like others
		}
		lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
		for i := range lines {
			key, _, _ := strings.Cut(lines[i], "=")
			if !isUserKey(key) && name != "script" {
				continue // no user chooses the value before this line; only the errors matter
			}
			for _, added := range names {
				value := "1"
				if added == "skip_ngroups_max_silently" {
					value = "yes"
				}
				evil := slices.Concat(lines[:i+1], []string{added + "=" + value}, lines[i+1:])
				_, err := ParseConfig("config", []byte(strings.Join(evil, "\n")+"\n"))
				if err == nil && isUserKey(key) {
					t.Errorf("%s: %s=%s was taken behind %s", name, added, value, lines[i])
				}
				var se *SyntaxError
				if err != nil && (!errors.As(err, &se) || se.Line < i+2 || se.Key == "" || se.File != "config") {
					t.Fatalf("%s: %s=%s behind %s: %v", name, added, value, lines[i], err)
				}
			}
		}
	}
}

// TestConfigWithMissingLineIsRefused checks that the reader refuses a file that lacks a line. Only
// keys that the original does not always write may be missing.
func TestConfigWithMissingLineIsRefused(t *testing.T) {
	optional := []string{
		"add_grp_id", "skip_ngroups_max_silently", "pe_qsort",
		"qrsh_control_port", // no QRSH_PORT in the environment
		"enable_systemd",    // builds of 9.1 without systemd
	}
	for name, data := range victims(t) {
		lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
		for i := range lines {
			key, _, _ := strings.Cut(lines[i], "=")
			_, err := ParseConfig("config", []byte(strings.Join(slices.Delete(slices.Clone(lines), i, i+1), "\n")+"\n"))
			if err == nil && !slices.Contains(optional, key) {
				t.Errorf("%s: %s may be missing", name, key)
			}
		}
	}
}

// TestConfigWithAddedLinesIsRefused adds several lines: parts of the genuine file with changes, in
// order.
func TestConfigWithAddedLinesIsRefused(t *testing.T) {
	all := victims(t)
	rapid.Check(t, func(t *rapid.T) {
		names := []string{"script", "pe", "ckpt", "QRSH", "petask", "INTERACTIVE", "ocs-9.1.4", "ocs-9.1.4-task", "ocs-9.0.13"}
		lines := strings.Split(strings.TrimSuffix(string(all[rapid.SampledFrom(names).Draw(t, "victim")]), "\n"), "\n")
		var places []int
		for i, l := range lines {
			if key, _, _ := strings.Cut(l, "="); isUserKey(key) {
				places = append(places, i)
			}
		}
		at := rapid.SampledFrom(places).Draw(t, "at")
		from := lines
		if rapid.Bool().Draw(t, "other") {
			from = strings.Split(strings.TrimSuffix(string(all[rapid.SampledFrom(names).Draw(t, "source")]), "\n"), "\n")
		}
		begin := rapid.IntRange(0, len(from)-1).Draw(t, "begin")
		end := rapid.IntRange(begin, len(from)).Draw(t, "end")
		added := slices.Clone(from[begin:end])
		for i := range added {
			if k, _, _ := strings.Cut(added[i], "="); k == "job_owner" {
				added[i] = "job_owner=root"
			}
		}
		tail := rapid.SampledFrom([][]string{{"tail"}, {"x=y"}, nil}).Draw(t, "tail")
		if len(added)+len(tail) == 0 {
			return
		}
		evil := slices.Concat(lines[:at+1], added, tail, lines[at+1:])
		if _, err := ParseConfig("config", []byte(strings.Join(evil, "\n")+"\n")); err == nil {
			t.Fatalf("%q was taken behind %q", added, lines[at])
		}
	})
}

// TestInjections tries attacks that succeeded against 8.1.9, and variants of them.
func TestInjections(t *testing.T) {
	base := string(samples(t)["script"])
	replace := func(line, by string) string {
		t.Helper()
		if base := "\n" + base; strings.Count(base, "\n"+line+"\n") != 1 {
			t.Fatalf("no line %q", line)
		}
		return strings.Replace("\n"+base, "\n"+line+"\n", "\n"+by+"\n", 1)[1:]
	}
	tests := map[string]struct{ data, key string }{
		"owner replaced behind an argument":         {replace("job_arg1=one", "job_arg1=one\njob_owner=bob"), "job_owner"},
		"epilog of root behind the last argument":   {replace("job_arg2=two words", "job_arg2=x\nepilog=root@/tmp/evil"), "epilog"},
		"owner in front of the trusted one by -o":   {replace("stdout_path=/home/alice", "stdout_path=/home/alice\njob_owner=bob"), "job_owner"},
		"everything replaced by -o":                 {replace("stdout_path=/home/alice", "stdout_path=/h\n"+strings.TrimSuffix(base[strings.Index(base, "\nstderr_path")+1:], "\n")), "stderr_path"},
		"epilog behind cwd":                         {replace("cwd=/home/alice", "cwd=/home/alice\nepilog=root@/tmp/evil"), "epilog"},
		"prolog behind cwd":                         {replace("cwd=/home/alice", "cwd=/home/alice\nprolog=root@/tmp/evil"), "prolog"},
		"gid behind the account":                    {replace("account=sge", "account=sge\nqsub_gid=0"), "qsub_gid"},
		"submission time twice behind the account":  {replace("account=sge", "account=sge\nsubmission_time=1"), "submission_time"},
		"owner behind the job name":                 {replace("job_name=scripted", "job_name=a\njob_owner=bob"), "job_owner"},
		"id behind the job name":                    {replace("job_name=scripted", "job_name=a\njob_id=7"), "job_id"},
		"one argument more":                         {replace("job_arg2=two words", "job_arg2=a\njob_arg3=b"), "job_arg3"},
		"an argument twice":                         {replace("job_arg1=one", "job_arg1=a\njob_arg2=b"), "job_arg2"},
		"a tmpdir of the queue behind an argument":  {replace("job_arg2=two words", "job_arg2=a\nqueue_tmpdir=/"), "queue_tmpdir"},
		"more arguments promised than there are":    {replace("njob_args=2", "njob_args=3"), "queue_tmpdir"},
		"fewer arguments promised than there are":   {replace("njob_args=2", "njob_args=1"), "job_arg2"},
		"key of ours in the middle":                 {replace("account=sge", "account=sge\nrestarted=1"), "restarted"},
		"key of ours twice":                         {base + "h_rt=5\nh_rt=6\n", "h_rt"},
		"keys of ours in another order":             {base + "h_rt=5\ns_rt=6\n", "s_rt"},
		"owner behind the last key":                 {base + "job_owner=root\n", "job_owner"},
		"unknown key":                               {base + "sudo=1\n", "sudo"},
		"no key":                                    {replace("account=sge", "account=sge\nx"), "x"},
		"empty line":                                {replace("account=sge", "account=sge\n"), ""},
		"blank before a key":                        {replace("account=sge", " account=sge"), " account"},
		"NUL byte":                                  {replace("account=sge", "account=s\x00ge"), "account"},
		"cut off in a line":                         {strings.TrimSuffix(base, "\n"), ""},
		"cut off":                                   {base[:strings.Index(base, "cwd=")], "cwd"},
		"empty":                                     {"", "fs_stdin_host"},
		"key missing":                               {strings.Replace(base, "min_uid=1000\n", "", 1), "cwd"},
		"last key missing":                          {strings.Replace(base, "default_domain=none\n", "", 1), "default_domain"},
		"PE keys in a serial job":                   {replace("host_slots=1", "host_slots=1\npe_start=root@/bin/sh"), "pe_start"},
		"checkpoint keys without one":               {replace("ckpt_job=0", "ckpt_job=0\nckpt_command=x"), "ckpt_command"},
		"daemon in a batch job":                     {replace("pty=0", "pty=0\nrsh_daemon=/tmp/evil"), "rsh_daemon"},
		"master host in a batch job":                {replace("pty=0", "pty=0\nmaster_host=x"), "master_host"},
		"two daemons":                               {strings.Replace(string(victims(t)["QRSH"]), "qrsh_control_port=h:1\n", "qrsh_control_port=h:1\nqlogin_daemon=/tmp/e\n", 1), "qlogin_daemon"},
		"number with rubbish":                       {replace("job_id=1", "job_id=1x"), "job_id"},
		"job 0":                                     {replace("job_id=1", "job_id=0"), "job_id"},
		"negative task":                             {replace("ja_task_id=0", "ja_task_id=-1"), "ja_task_id"},
		"group id that means none":                  {replace("add_grp_id=30000", "add_grp_id=4294967295"), "add_grp_id"},
		"flag of 2":                                 {replace("merge_stderr=0", "merge_stderr=2"), "merge_stderr"},
		"limit without a sense":                     {replace("h_vmem=INFINITY", "h_vmem=lots"), "h_vmem"},
		"negative limit":                            {replace("h_vmem=INFINITY", "h_vmem=-1"), "h_vmem"},
		"undefined limit of a queue":                {replace("h_vmem=INFINITY", "h_vmem=UNDEFINED"), "h_vmem"},
		"time of four parts":                        {replace("h_cpu=INFINITY", "h_cpu=1:2:3:4"), "h_cpu"},
		"unknown start mode":                        {replace("shell_start_mode=posix_compliant", "shell_start_mode=x"), "shell_start_mode"},
		"no owner":                                  {replace("job_owner=alice", "job_owner="), "job_owner"},
		"time before 1970":                          {replace("submission_time=1795217715", "submission_time=-1"), "submission_time"},
		"notification of kind 3":                    {replace("notify_kill_type=1", "notify_kill_type=3"), "notify_kill_type"},
		"AFS":                                       {replace("use_afs=0", "use_afs=1"), "use_afs"},
		"arguments beyond memory":                   {replace("njob_args=2", "njob_args=2147483647"), "queue_tmpdir"},
		"second id of a PE task that is another":    {strings.Replace(string(victims(t)["petask"]), "pe_task_id=1.host\npty", "pe_task_id=2.host\npty", 1), "pe_task_id"},
		"second id of a PE task without the first":  {replace("qsub_gid=no", "qsub_gid=no\npe_task_id=1.host"), "pe_task_id"},
		"only the first of the two ids of a task":   {replace("ja_task_id=0", "ja_task_id=0\npe_task_id=1.host"), "pty"},
		"rest of a file behind the end of the file": {base + base, "add_grp_id"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := ParseConfig("/spool/active_jobs/1.1/config", []byte(test.data))
			var se *SyntaxError
			if !errors.As(err, &se) {
				t.Fatal("taken", err)
			}
			if se.Key != test.key {
				t.Errorf("error names key %q, want %q: %v", se.Key, test.key, err)
			}
			if !strings.HasPrefix(err.Error(), "/spool/active_jobs/1.1/config:") || !strings.Contains(err.Error(), test.key) {
				t.Error(err)
			}
		})
	}
}

// TestNewlinesAreNotWritten checks that no field of a description can put a newline into the file.
func TestNewlinesAreNotWritten(t *testing.T) {
	fields := map[string]func(d *job.Description, v string){
		"job_owner":        func(d *job.Description, v string) { d.Owner = v },
		"stdout_path":      func(d *job.Description, v string) { d.Streams[1].Path = v },
		"stdin_path":       func(d *job.Description, v string) { d.Streams[0].Path = v },
		"fs_stderr_host":   func(d *job.Description, v string) { d.Streams[2].Staging.Host = v },
		"cwd":              func(d *job.Description, v string) { d.Cwd = v },
		"account":          func(d *job.Description, v string) { d.Account = v },
		"job_name":         func(d *job.Description, v string) { d.Name = v },
		"script_file":      func(d *job.Description, v string) { d.Command.File = v },
		"shell_path":       func(d *job.Description, v string) { d.Command.Shell = v },
		"mail_list":        func(d *job.Description, v string) { d.MailList = v },
		"acct_project":     func(d *job.Description, v string) { d.Project = v },
		"prolog":           func(d *job.Description, v string) { d.Prolog = v },
		"tmpdir":           func(d *job.Description, v string) { d.Tmpdir = v },
		"pe":               func(d *job.Description, v string) { d.PE = &job.ParallelEnvironment{Name: v} },
		"pe_stdout_path":   func(d *job.Description, v string) { d.PE = &job.ParallelEnvironment{Name: "x", StdoutPath: v} },
		"ckpt_dir":         func(d *job.Description, v string) { d.Ckpt = &job.Checkpoint{Dir: v} },
		"ckpt_when":        func(d *job.Description, v string) { d.Ckpt = &job.Checkpoint{When: v} },
		"notify_kill":      func(d *job.Description, v string) { d.NotifyKill.Signal = v },
		"shell_start_mode": func(d *job.Description, v string) { d.Command.StartMode = job.ShellStartMode(v) },
		"qrsh_control_port": func(d *job.Description, v string) {
			d.Command.File, d.Interactive = "QRSH", &job.Interactive{ControlPort: v}
		},
	}
	for key, set := range fields {
		for _, v := range []string{"a\njob_owner=root", "\n", "a\x00b"} {
			d, err := ParseConfig("config", samples(t)["noargs-binary"])
			if err != nil {
				t.Fatal(err)
			}
			set(d, v)
			b, err := FormatConfig(d)
			var ve *ValueError
			if !errors.As(err, &ve) || ve.Key != key || b != nil {
				t.Errorf("%s %q: %v", key, v, err)
			}
		}
	}
}

func TestArgumentWithNewlineIsShownOnOneLine(t *testing.T) {
	d, err := ParseConfig("config", samples(t)["script"])
	if err != nil {
		t.Fatal(err)
	}
	d.Command.Args = []string{"a\njob_owner=root", `b\n`, "", "\xff\x01"}
	config, err := FormatConfig(d)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(config), "\njob_arg1=a\\njob_owner=root\njob_arg2=b\\n\njob_arg3=\n") {
		t.Errorf("%s", config)
	}
	args, err := FormatArguments(d.Command.Args)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseConfig("config", config)
	if err != nil {
		t.Fatal(err)
	}
	if err := ParseArguments("arguments", args, got); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got.Command.Args, d.Command.Args) || got.Owner != "alice" {
		t.Errorf("%q", got.Command.Args)
	}
	if _, err := FormatArguments([]string{"a\x00b"}); err == nil {
		t.Error("NUL was written")
	}
}

func TestArgumentsMustBelongToConfig(t *testing.T) {
	for name, file := range map[string]string{
		"one more":        "one\x00two words\x00three\x00",
		"one less":        "one\x00",
		"none":            "",
		"another":         "one\x00two\x00",
		"cut off":         "one\x00two words",
		"other way round": "two words\x00one\x00",
	} {
		d, err := ParseConfig("config", samples(t)["script"])
		if err != nil {
			t.Fatal(err)
		}
		err = ParseArguments("/x/arguments", []byte(file), d)
		if err == nil || !strings.HasPrefix(err.Error(), "/x/arguments: ") {
			t.Errorf("%s: %v", name, err)
		}
		if !slices.Equal(d.Command.Args, []string{"one", "two words"}) {
			t.Errorf("%s: %q", name, d.Command.Args)
		}
	}
}
