package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestProceduresIgnoreSettingsFileOfUser runs procedures that begin as most do, by reading
// $SGE_ROOT/$SGE_CELL/common/settings.sh, on a host whose daemon has no SGE_ROOT. A user who sets
// SGE_ROOT in the job cannot make another user execute a file.
func TestProceduresIgnoreSettingsFileOfUser(t *testing.T) {
	names := []string{"SGE_ROOT", "SGE_CELL", "SGE_BINARY_PATH", "SGE_RSH_COMMAND", "SGE_CKPT_DIR", "PE_HOSTFILE", "SGE_JOB_SPOOL_DIR", "TZ"}
	for kind, args := range map[string][]string{
		"a script":            {"job"},
		"a line of a script":  {"lines"},
		"a command":           {"-b", "y", "/bin/true"},
		"a parallel job":      {"-pe", "p", "1", "job"},
		"a checkpointing job": {"-ckpt", "c", "job"},
		"an array":            {"-t", "2-2", "job"},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := inWorld(t, asRoot)
			w.env = setenv(w.env, "SGE_ROOT=", "SGE_CELL=")
			seen := w.dir + "/seen"
			w.mkdir(t, seen)
			if err := os.Chmod(seen, 0o777); err != nil {
				t.Fatal(err)
			}
			evil := w.dir + "/er"
			settings := "/usr/bin/id -u >>" + w.dir + "/seen/evil\n"
			w.write(t, "er/default/common/settings.sh", settings)
			w.write(t, "er/er/common/settings.sh", settings)
			var vars []string
			for _, name := range names {
				vars = append(vars, name+"="+evil)
			}
			procedure := siteFile(t, `#!/bin/sh
/usr/bin/env >`+seen+`/$1
[ -z "$SGE_ROOT$2" ] || . $SGE_ROOT/default/common/settings.sh
exit 0
`)
			w.write(t, "conf/queues/q", plainQueue+"prolog root@"+procedure+" prolog $sge_root\nepilog bob@"+procedure+" epilog $sge_root\npe_list p\nckpt_list c\n")
			w.write(t, "conf/pes/p", "pe_name p\nslots 9\ncontrol_slaves TRUE\nstart_proc_args root@"+procedure+" pe_start $sge_root\nstop_proc_args bob@"+procedure+" pe_stop\n")
			w.write(t, "conf/ckpts/c", "ckpt_name c\ninterface userdefined\n")
			w.write(t, "job", "#!/bin/sh\n")
			w.write(t, "lines", "#!/bin/sh\n#$ -v "+strings.Join(vars, ",")+"\n")
			options := []string{"--as", "alice", "-cwd", "--conf", "conf", "-v", strings.Join(vars, ",")}
			if kind == "a line of a script" {
				options = options[:len(options)-2]
			}
			if r := w.run(t, append(options, args...)...); r.status != 0 {
				t.Fatalf("exit status %d, %s%s", r.status, r.stdout, r.stderr)
			}
			files, err := filepath.Glob(seen + "/*")
			if err != nil || len(files) < 2 {
				t.Fatalf("files %q, %v", files, err)
			}
			for _, file := range files {
				b, err := os.ReadFile(file)
				if err != nil {
					t.Error(err)
				}
				if filepath.Base(file) == "evil" {
					t.Errorf("the user's settings.sh was executed as user ids %q", b)
					continue
				}
				for line := range strings.Lines(string(b)) {
					if strings.Contains(line, evil) && !strings.HasPrefix(line, "SGE_JOB_ENV_") {
						t.Errorf("%s has %s", filepath.Base(file), line)
					}
				}
			}
		})
	}
}

// TestPrologEditsTheEnvironment does what sites do to give GPUs to a job: a prolog of root adds
// lines to the file environment. Changes that an epilog makes to the file usage count, too.
func TestPrologEditsTheEnvironment(t *testing.T) {
	t.Parallel()
	w := inWorld(t, asRoot)
	edit := siteFile(t, `#!/bin/sh
cd "$SGE_JOB_SPOOL_DIR" || exit
case $1 in
prolog) echo CUDA_VISIBLE_DEVICES=3 >>environment;;
epilog)
	echo ru_wallclock=99999 >>usage
	[ "$SGE_JOB_ENV_CUDA_VISIBLE_DEVICES" = 3 ];;
esac
`)
	w.write(t, "conf/queues/q", plainQueue+"prolog root@"+edit+" prolog\nepilog root@"+edit+" epilog\n")
	job := w.write(t, "job", "#!/bin/sh\necho $CUDA_VISIBLE_DEVICES\n")
	r := w.run(t, "--as", "alice", "-cwd", "--conf", "conf", "-v", "CUDA_VISIBLE_DEVICES=0,1", "--json", "out", job)
	if r.status != 0 || r.stdout != "3\n" {
		t.Errorf("exit status %d, %s%s", r.status, r.stdout, r.stderr)
	}
	var o outcomeJSON
	if w.outcome(t, "out", &o); o.Failed != 0 || o.Wallclock != 99999 {
		t.Errorf("outcome %+v", o)
	}
}
