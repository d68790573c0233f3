package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/internal/options"
)

// check runs execd config with these words in a directory with these files, and
// returns what it says: the status, standard output and standard error.
func check(t *testing.T, files map[string]string, args ...string) (status int, stdout, stderr string, err error) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var out, errs strings.Builder
	c := Command{Args: args, Stdout: &out, Stderr: &errs}
	status, err = c.Run()
	return status, out.String(), errs.String(), err
}

func TestCheck(t *testing.T) {
	broken := map[string]string{
		"site/queues/a.q":   "qname a.q\nslots many\nh_rt 1:2\n",
		"site/hosts/n1":     "hostname n1\ncomplex_values lic=3\n",
		"site/complexes":    "gpu gpu INT <= YES YES 0 0\n",
		"site/usersets/s":   "name s\ntype DEPTH\n",
		"site/queue":        "",
		"site/sched_conf~":  "a backup\n",
		"site/projects/p":   "name p\nacl nobody\n",
		"site/calendars/c1": "calendar_name c2\n",
		"site/calendars/c3": "calendar_name c3\nyear NONE\nweek mon-fry=6-20\n",
	}
	partly := map[string]string{"site/queues/a.q": "qname a.q\ncalendar night\npe_list smp\n"}
	doubtful := map[string]string{
		"site/hostgroups/@a": "group_name @a\nhostlist n1 n2\n", "site/hostgroups/@b": "group_name @b\nhostlist n2\n",
		"site/queues/a.q":   "qname a.q\nhostlist @a\nslots 1,[@a=2],[@b=3]\n",
		"site/usersets/s":   "name s\ntype ACL\nfshare 3\n",
		"site/hosts/global": "hostname global\n",
	}
	idle := map[string]string{
		"site/conf/global": "set_token_cmd /bin/tok\nqmaster_params PROF_SIGNAL=1,PROF_WORKER=false,FORBID_APPERROR=1,MAX_DYN_EC=7\nexecd_params USE_SMAPS=true PROF_EXECD=0\n" +
			"reporting_params accounting=false reporting=true joblog=false sharelog=00:00:00\nrlogin_daemon /usr/sbin/sshd -i\nrsh_daemon builtin\nshell_start_mode unix_behavior\n",
		"site/conf/n1": "cgroups_params cpuset=false mount=true\n", "site/hosts/n1": "hostname n1\nreport_variables cpu\n",
		"site/pes/mpi":    "pe_name mpi\nqsort_args /lib/q.so f\n",
		"site/sched_conf": "params PE_RANGE_ALG=bin,PROFILE=0,DURATION_OFFSET=0:0:1\nhalflife_decay_list wall=3:cpu=5\nreprioritize_interval 0:0:10\n", "site/users/bob": "name bob\ndelete_time 1000\n",
	}
	for sentence, c := range map[string]struct {
		files          map[string]string
		args           []string
		status         int
		stdout, stderr string
	}{
		"what is valid needs no words": {map[string]string{"site/queues/a.q": "qname a.q\n"}, []string{"check", "site"}, ExitValid, "", ""},
		"an empty directory is valid":  {map[string]string{"site/.x": ""}, []string{"check", "site"}, ExitValid, "", "site: holds no configuration, so that the built-in one counts: expected folders like queues and conf, see execd-conf(5)\n"},
		"a directory of other things":  {map[string]string{"site/a": "", "site/b/c": "", "site/.x": ""}, []string{"check", "site"}, ExitInvalid, "", "site: holds no configuration: 2 unknown files, and no folder like queues or conf, see execd-conf(5)\n"},
		"everything that is wrong, in order": {broken, []string{"check", "site"}, ExitInvalid, `site/calendars/c1: holds "c2", expected the file to be named like its object
site/calendars/c3:3: week: cannot read the week entry "mon-fry=6-20": "fry" is not a weekday, expected mon to sun, or a time of the day
site/hosts/n1:2: complex_values: complex "lic" does not exist
site/projects/p:2: acl: user set "nobody" does not exist
site/queue: unknown entry of a configuration directory, expected one of adminhosts, calendars, ckpts, complexes, conf, hostgroups, hosts, managers, operators, pes, projects, queues, rqs, sched_conf, sharetree, submithosts, users, usersets
site/queues/a.q:2: slots: "many" is not a number, expected one from 0 to 9999999
site/queues/a.q:3: h_rt: "1:2" has 2 parts, expected hours:minutes:seconds (1:2:0 or 0:1:2)
site/usersets/s:2: type: "DEPTH" is not a type of a user set, expected ACL, DEPT or both
`, "site: 8 errors, 0 warnings\n"},
		"a folder that is not there": {partly, []string{"check", "site"}, ExitInvalid, `site/queues/a.q:2: calendar: calendar "night" does not exist: there is no calendars
`, "site: 1 error, 0 warnings\n"},
		"nor needs to be": {partly, []string{"--partial", "check", "site"}, ExitValid, "", ""},
		"warnings": {doubtful, []string{"check", "--partial", "--", "site"}, ExitValid, `site/usersets/s:2: warning: type: fshare and oticket have no effect: the user set is no department
site/queues/a.q:3: warning: slots: host "n2" is in @a and @b, which set 2 and 3, and has no own setting
`, "site: 0 errors, 2 warnings\n"},
		"what is set without effect": {idle, []string{"check", "--partial", "site"}, ExitValid, `site/conf/global:7: warning: shell_start_mode: "unix_behavior" has no effect: each queue has its own
site/conf/global:1: warning: set_token_cmd: "/bin/tok" has no effect: jobs get no AFS token
site/conf/global:5: warning: rlogin_daemon: "/usr/sbin/sshd -i" has no effect: interactive jobs are connected by execd itself
site/conf/global:2: warning: qmaster_params: "PROF_SIGNAL=1" has no effect
site/conf/global:2: warning: qmaster_params: "MAX_DYN_EC=7" has no effect
site/conf/global:3: warning: execd_params: "USE_SMAPS=true" has no effect
site/conf/global:4: warning: reporting_params: "reporting=true" has no effect: no reporting file is written
site/conf/n1:1: warning: cgroups_params: "mount=true" has no effect
site/hosts/n1:2: warning: report_variables: "cpu" has no effect: no reporting file is written
site/pes/mpi:2: warning: qsort_args: "/lib/q.so f" has no effect: hosts are in the order of queue_sort_method
site/sched_conf:2: warning: halflife_decay_list: "wall" has no effect: usage is cpu, mem, io and finished_jobs
site/sched_conf:3: warning: reprioritize_interval: "0:0:10" has no effect: reprioritize of the configuration is false
site/users/bob:2: warning: delete_time: "1000" has no effect: the user stays until qconf -duser
`, "site: 0 errors, 13 warnings\n"},
		"help": {nil, []string{"--help"}, ExitValid, Usage, ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			status, stdout, stderr, err := check(t, c.files, c.args...)
			if err != nil || status != c.status {
				t.Errorf("status %d, want %d, %v", status, c.status, err)
			}
			if diff := cmp.Diff(c.stdout, stdout); diff != "" {
				t.Errorf("standard output (-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(c.stderr, stderr); diff != "" {
				t.Errorf("standard error (-want +got)\n%s", diff)
			}
		})
	}
}

func TestConfigCheckUsageErrors(t *testing.T) {
	for sentence, c := range map[string]struct {
		args  []string
		usage bool
		want  string
	}{
		"no command":          {nil, true, "expected the command check"},
		"another command":     {[]string{"chek", "site"}, true, "expected the command check"},
		"no directory":        {[]string{"check"}, true, "check takes one directory, not 0"},
		"two directories":     {[]string{"check", "a", "b"}, true, "check takes one directory, not 2"},
		"an unknown option":   {[]string{"check", "--fast", "a"}, true, "unknown option --fast"},
		"a missing directory": {[]string{"check", "nowhere"}, false, `cannot read the directory "nowhere": no such file or directory`},
		"a file":              {[]string{"check", "file"}, false, `cannot read the directory "file": not a directory`},
	} {
		t.Run(sentence, func(t *testing.T) {
			status, stdout, _, err := check(t, map[string]string{"file": ""}, c.args...)
			if status != options.ExitUsage || err == nil || err.Error() != c.want || stdout != "" {
				t.Errorf("status %d, %v, %q", status, err, stdout)
			}
			if _, usage := errors.AsType[*options.UsageError](err); usage != c.usage {
				t.Errorf("%T", err)
			}
		})
	}
}
