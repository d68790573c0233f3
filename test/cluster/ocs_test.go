package cluster

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/test/gridengine"
)

// TestOpenClusterScheduler checks features that only Open Cluster Scheduler has: granted resources,
// bindings that its scheduler chooses, and parallel environments whose tasks another program starts.
func TestOpenClusterScheduler(t *testing.T) {
	testenv.Require(t, testenv.Root, testenv.OCS)
	c := start(t, gridengine.Config{Conf: map[string]string{"load_report_time": "00:00:01"}, Nodes: []string{"node1"}})
	if err := c.StartNode("node1", true); err != nil {
		t.Fatal(err)
	}
	series := c.series()
	complexes := c.root("qconf", "-sc") + "gpu gpu RSMAP <= YES YES 0 0\nlic lic INT <= YES HOST 0 0\n"
	if err := c.Configure("-Mc", "complexes", complexes); err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{c.Host, "node1"} {
		c.root("qconf", "-mattr", "exechost", "complex_values", "slots=100,gpu=4(gpu0 gpu1 gpu2 gpu3),lic=9", host)
	}
	for name, flags := range map[string]map[string]string{
		"master": {"master_forks_slaves": "TRUE"}, "daemon": {"daemon_forks_slaves": "TRUE"}, "both": {"master_forks_slaves": "TRUE", "daemon_forks_slaves": "TRUE"},
	} {
		flags["allocation_rule"], flags["control_slaves"], flags["job_is_first_task"] = "2", "TRUE", "FALSE"
		if err := c.AddPE(name, flags); err != nil {
			t.Fatal(err)
		}
	}
	c.queue("all.q", map[string]string{"hostlist": c.Host + " node1", "slots": "40", "pe_list": "master daemon both", "tmpdir": "/tmp,[node1=/tmp/node1]"})
	here := "all.q@" + c.Host

	t.Run("live", func(t *testing.T) {
		c := &cell{c.Cell, t}
		c.run("a job is told the ids of a resource map that it has", func(c *cell) {
			job := c.qsub("-q", here, "-l", "gpu=2,lic=3", "-o", "/home/alice/granted", "-j", "y", c.script("granted.sh", "env | grep ^SGE_HGR_ | sort\n"))
			c.ended(job, 0, 1)
			if got := c.file("/home/alice/granted"); !regexp.MustCompile(`^SGE_HGR_gpu=gpu[0-3] gpu[0-3]\nSGE_HGR_lic=3\.000000\n$`).MatchString(got) {
				c.Errorf("it wrote %q", got)
			}
		})
		c.run("a job that asks for nothing is told nothing", func(c *cell) {
			job := c.qsub("-q", here, "-o", "/home/alice/nothing", "-j", "y", c.script("nothing.sh", "env | grep ^SGE_HGR_; echo end\n"))
			c.ended(job, 0, 1)
			if got := c.file("/home/alice/nothing"); got != "end\n" {
				c.Errorf("it wrote %q", got)
			}
		})
		c.run("records have what 9.x adds", func(c *cell) {
			job := c.qsub("-q", here, "-o", "/dev/null", "-j", "y", c.script("adds.sh", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done\n"))
			r := c.ended(job, 0, 1)[0]
			for _, name := range []string{"wallclock", "cpu", "maxrss", "maxvmem"} {
				if v, err := strconv.ParseFloat(r[name], 64); err != nil || v <= 0 {
					c.Errorf("%s is %q", name, r[name])
				}
			}
			if _, ok := r["deleted_by"]; ok {
				c.Errorf("it was deleted by %q", r["deleted_by"])
			}
		})
		c.run("records count reads and writes", func(c *cell) {
			if series != "9.1" {
				c.Skip("9.0 does not have ioops")
			}
			job := c.qsub("-q", here, "-o", "/dev/null", "-j", "y", "-b", "y", "/bin/dd", "if=/dev/zero", "of=/dev/null", "bs=1", "count=3000")
			r := c.ended(job, 0, 1)[0]
			if n, err := strconv.ParseFloat(r["ioops"], 64); err != nil || n < 6000 || n > 7000 {
				c.Errorf("ioops is %q, expected 3000 reads, 3000 writes and those of the start", r["ioops"])
			}
		})
		c.run("the record of a deleted job says who did that", func(c *cell) {
			job := c.sleeper("-q", here)
			c.alice("qdel", strconv.Itoa(job))
			c.want(c.ended(job, 0, 1)[0], map[string]string{"deleted_by": by(series, "alice@"+c.Host), "exit_status": "137"})
		})
		c.run("the record of a job beyond its limit says that the daemon ended it", func(c *cell) {
			job := c.qsub("-q", here, "-l", "h_rt=2", "-b", "y", "-o", "/dev/null", "-j", "y", "/bin/sleep", "1000")
			c.want(c.ended(job, 0, 1)[0], map[string]string{"deleted_by": by(series, "execd@"+c.Host), "exit_status": "137"})
		})
		c.run("execd qacct reads the records", func(c *cell) {
			jobs := []int{
				c.qsub("-q", here, "-t", "2", "-o", "/dev/null", "-j", "y", c.script("task.sh", "exit 3\n")),
				c.qsub("-q", here, "-A", "project x", "-pe", "both", "2", "-o", "/dev/null", "-j", "y", c.script("pe.sh", "echo\n")),
				c.sleeper("-q", here),
			}
			c.alice("qdel", strconv.Itoa(jobs[2]))
			for _, job := range jobs {
				c.until("it has a record", func() bool { return len(c.records(job)) > 0 })
				theirs := c.fields(c.root("qacct", "-j", strconv.Itoa(job)))
				if theirs["jobnumber"] != strconv.Itoa(job) {
					c.Fatalf("qacct of the installation shows %v", theirs)
				}
				ours := c.fields(c.root(gridengine.BinDir+"/execd", "qacct", "-f", "/var/lib/gridengine/default/common/accounting.jsonl", "-j", strconv.Itoa(job)))
				for _, name := range []string{
					"qname", "hostname", "group", "owner", "project", "department", "jobname", "jobnumber", "taskid", "account", "priority",
					"granted_pe", "slots", "exit_status", "deleted_by", "ru_wallclock", "ru_minflt", "ru_nvcsw", "arid", "submit_cmd_line",
				} {
					if number := regexp.MustCompile(`^[0-9]+`); name == "ru_wallclock" || name == "exit_status" {
						theirs[name], ours[name] = number.FindString(theirs[name]), number.FindString(ours[name])
					}
					if theirs[name] != ours[name] {
						c.Errorf("job %d: %s is %q, and qacct of the installation shows %q", job, name, ours[name], theirs[name])
					}
				}
				if failed, _, _ := strings.Cut(theirs["failed"], " "); !strings.HasPrefix(ours["failed"], failed) {
					c.Errorf("job %d: failed is %q, and qacct of the installation shows %q", job, ours["failed"], theirs["failed"])
				}
				// Theirs has milliseconds.
				for _, name := range []string{"qsub_time", "start_time", "end_time"} {
					t, err := time.Parse("2006-01-02 15:04:05.999999", theirs[name])
					if want := t.Format("Mon Jan _2 15:04:05 2006"); err != nil || ours[name] != want {
						c.Errorf("job %d: %s is %q, and qacct of the installation shows %q", job, name, ours[name], theirs[name])
					}
				}
			}
		})
		c.run("running usage is shown", func(c *cell) {
			job := c.qsub("-q", here, "-o", "/dev/null", "-j", "y",
				c.script("shown.sh", tellBegin+"while [ ! -e /tmp/go.$JOB_ID. ]; do i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; done\n"))
			c.until("qstat -j shows what it has used", func() bool {
				out, _ := c.Root("qstat", "-j", strconv.Itoa(job))
				return regexp.MustCompile(`wallclock=00:0[0-9]:[0-9.]*[1-9].*cpu=00:0[0-9]:[0-9.]*[1-9].*maxvmem=[0-9]*[.0-9]*[1-9].*maxrss=[0-9]*[.0-9]*[1-9]`).MatchString(out)
			})
			c.release(job)
			c.ended(job, 0, 1)
		})
		for name, want := range map[string]string{"master": "1\n", "daemon": "0\n1\n", "both": "1\n"} {
			c.run("tasks of the parallel environment "+name+" on the master host", func(c *cell) {
				out := "/home/alice/forks." + name
				script := c.script("forks."+name+".sh", fmt.Sprintf(`
h=$(head -1 $PE_HOSTFILE | cut -d' ' -f1)
if [ %s = daemon ]; then
	qrsh -inherit $h ': >/tmp/first.'$JOB_ID'; while [ ! -e /tmp/second.'$JOB_ID' ]; do sleep 0.1; done' &
	while [ ! -e /tmp/first.$JOB_ID ]; do sleep 0.1; done
	qrsh -inherit $h true >/dev/null 2>&1; second=$?
	: >/tmp/second.$JOB_ID
	wait $!; echo $?
	echo $second
else
	qrsh -inherit $h true >/dev/null 2>&1; echo $?
fi
`, name))
				job := c.qsub("-q", here, "-pe", name, "2", "-o", out, "-j", "y", script)
				c.until("it has a record", func() bool { return c.records(job)["NONE"] != nil })
				if got := c.file(out); got != want {
					c.Errorf("its tasks ended with %q, want %q", got, want)
				}
			})
		}
		if series == "9.1" {
			bindings(c, here)
		}
	})
	c.nothingLeft()
}

// fields returns the lines of one record that qacct -j prints.
func (c *cell) fields(text string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(line, " ")
		all[name] = strings.TrimSpace(value)
	}
	return all
}

// by returns the value deleted_by of a record, which 9.0 does not have.
func by(series, who string) string {
	if series == "9.0" {
		return ""
	}
	return who
}

// bindings tests jobs for which the scheduler of 9.1 has chosen processors.
func bindings(c *cell, here string) {
	tell := "echo $(nproc) $SGE_BINDING_INSTANCE $SGE_BINDING_TOPOLOGY $SGE_BINDING_CPUSET\n"
	all := strings.TrimSpace(c.root("nproc"))
	for name, want := range map[string]struct{ options, pattern string }{
		"none":   {"", "^" + all + ` set NONE 0x0\n$`},
		"core":   {"-bamount 1 -bunit C", `^1 set [SCTct]*c[SCTct]* 0x[0-9a-f]{8}\n$`},
		"thread": {"-bamount 1 -bunit T", `^1 set [SCTct]* 0x[0-9a-f]{8}\n$`},
		"told":   {"-bamount 1 -bunit C -binstance env", "^" + all + ` env [SCTct]*c[SCTct]* 0x[0-9a-f]{8}\n$`},
	} {
		c.run("binding "+name, func(c *cell) {
			out := "/home/alice/binding." + name
			job := c.qsub(append(strings.Fields(want.options), "-q", here, "-o", out, "-j", "y", c.script("binding."+name+".sh", tell))...)
			c.want(c.ended(job, 0, 1)[0], map[string]string{"failed": "0", "exit_status": "0"})
			if got := c.file(out); !regexp.MustCompile(want.pattern).MatchString(got) {
				c.Errorf("it wrote %q, want %s", got, want.pattern)
			}
		})
	}
	c.run("two jobs have cores of their own", func(c *cell) {
		script := c.script("own.sh", tellBegin+"echo $SGE_BINDING_CPUSET >/home/alice/own.$JOB_ID\nwhile [ ! -e /tmp/go.$JOB_ID. ]; do sleep 0.1; done\n")
		var masks []string
		var jobs []int
		for range 2 {
			job := c.qsub("-q", here, "-bamount", "1", "-bunit", "C", "-o", "/dev/null", "-j", "y", script)
			c.begun(job, 0)
			masks, jobs = append(masks, c.file(fmt.Sprintf("/home/alice/own.%d", job))), append(jobs, job)
		}
		if masks[0] == masks[1] {
			c.Errorf("both are bound to %q", masks)
		}
		for _, job := range jobs {
			c.release(job)
			c.ended(job, 0, 1)
		}
	})
}
