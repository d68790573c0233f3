package clients

import (
	"encoding/xml"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/execd-project/execd/internal/testenv"
)

// replay describes a published client: the commands that it sends, and how it reads the answers.
type replay struct {
	// directives holds lines of its scripts, with %s for the name of the job.
	directives string
	// submit is its command line, with FILE for the script, or with the script on standard input.
	submit string
	// id finds the number of the job in the answer.
	id *regexp.Regexp
	// list is the command with which it finds its jobs. listed parses the output: states by job
	// number.
	list   string
	listed func(t *testing.T, text string) map[string]string
	// array says how it requests tasks; it is empty if it never does.
	array string
	// builtin is true if it requests resources that only the built-in configuration has.
	builtin bool
	// status finds the exit status in the output of qacct -j; nil if the client uses files instead.
	status *regexp.Regexp
}

var (
	firstNumber = regexp.MustCompile(`(\d+)`)
	onlyNumber  = regexp.MustCompile(`^(\d+)(?:\.\d+-\d+:\d+)?\n$`)
	exitStatus  = regexp.MustCompile(`(?m)^exit_status\s+(\d+)`)
)

// replays maps the names of clients to facts from their public sources.
var replays = map[string]replay{
	"nextflow": {
		directives: "#$ -N nf-%s\n#$ -o /dev/null\n#$ -j y\n#$ -terse\n#$ -notify\n#$ -l slots=2\n#$ -l h_rt=00:10:00\n#$ -l mem_free=1M\n",
		submit:     "qsub -terse FILE", id: onlyNumber, list: "qstat", listed: columns(0, 4), array: "#$ -t 1-3\n",
	},
	"nextflow through standard input": {
		directives: "#$ -N nf-%s\n#$ -o /dev/null\n#$ -j y\n#$ -terse\n#$ -notify\n#$ -q all.q\n#$ -pe smp 2\n",
		submit:     "qsub -terse -", id: onlyNumber, list: "qstat -q all.q", listed: columns(0, 4), array: "#$ -t 1-3\n",
	},
	"nextflow of CRG": {
		directives: "#$ -N nf-%s\n#$ -o /dev/null\n#$ -j y\n#$ -terse\n#$ -notify\n#$ -l slots=2\n#$ -l h_rss=100M,mem_free=100M\n#$ -l disk=1M\n" +
			"#$ -binding env linear:1\n#$ -soft -l docker_images=*ubuntu*\n",
		submit: "qsub -terse FILE", id: onlyNumber, list: "qstat", listed: columns(0, 4), array: "#$ -t 1-3\n", builtin: true,
	},
	"dask-jobqueue": {
		directives: "#$ -N dask-%s\n#$ -q all.q\n#$ -l h_vmem=1G\n#$ -e WORK/\n#$ -o WORK/\n#$ -cwd\n#$ -j y\n",
		submit:     "qsub FILE", id: regexp.MustCompile(`(?P<job_id>\d+)`), list: "qstat", listed: columns(0, 4),
	},
	"parsl": {
		directives: "#$ -S /bin/bash\n#$ -o /dev/null\n#$ -e /dev/null\n#$ -cwd\n#$ -l h_rt=00:10:00\n",
		submit:     "qsub -terse FILE", id: onlyNumber, list: "qstat", listed: columns(0, 4),
	},
	"toil": {
		submit: "qsub -V -b y -terse -j y -cwd -N toil_job -o /dev/null -hard -l vf=1024K,h_vmem=1048576K FILE", id: onlyNumber,
		list: "qstat", listed: columns(0, 4), status: exitStatus,
	},
	"cromwell": {
		submit: "qsub -terse -V -b y -wd WORK -N cromwell_job -o /dev/null -e /dev/null -pe smp 2 -l mem_free=0.001G FILE", id: firstNumber,
		list: "qstat", listed: columns(0, 4),
	},
	"galaxy by commands": {
		directives: "#$ -N g%s\n#$ -o /dev/null\n#$ -e /dev/null\n#$ -cwd\n",
		submit:     "qsub FILE", id: firstNumber, list: "qstat -g d -xml", listed: elements,
	},
	"aiida": {
		directives: "#$ -N aiida-%s\n#$ -cwd\n#$ -V\n#$ -o _scheduler-stdout.txt\n#$ -e _scheduler-stderr.txt\n#$ -pe smp 2\n#$ -l h_rt=00:30:00\n",
		submit:     "qsub -terse FILE", id: onlyNumber, list: "qstat -ext -urg -xml -u USER", listed: elements,
	},
	"clustermq": {
		directives: "#$ -N cmq%s\n#$ -q all.q\n#$ -j y\n#$ -o /dev/null\n#$ -cwd\n#$ -V\n#$ -pe smp 1\n#$ -l m_mem_free=1M\n",
		submit:     "qsub", id: firstNumber, list: "qstat", listed: columns(0, 4), array: "#$ -t 1-3\n", builtin: true,
	},
	"clustermq of newer releases": {
		directives: "#$ -N cmq%s\n#$ -j y\n#$ -o /dev/null\n#$ -cwd\n#$ -V\n",
		submit:     "qsub -terse -bunit C -bamount 1 -l h_vmem=1G,q=all.q", id: onlyNumber, list: "qstat", listed: columns(0, 4), array: "#$ -t 1-3\n",
	},
	"crew.cluster": {
		directives: "#$ -N crew-%s\n#$ -cwd\n#$ -V\n#$ -o /dev/null\n#$ -j y\n#$ -l h_rss=100M\n#$ -l m_mem_free=1M\n#$ -l gpu=1\n#$ -pe smp 1\n",
		submit:     "qsub FILE", id: firstNumber, list: "qstat -u USER -xml", listed: elements, builtin: true,
	},
	"submitit": {
		directives: "#$ -N submitit%s\n#$ -cwd\n#$ -o /dev/null\n#$ -e /dev/null\n",
		submit:     "qsub -terse FILE", id: onlyNumber, list: "qstat -xml", listed: elements, array: "#$ -t 1-3\n",
		status: regexp.MustCompile(`(?m)^exit_status\s+(.*?)\s*$`),
	},
	"batchspawner": {
		directives: "#$ -j yes\n#$ -N jupyterhub-%s\n#$ -o WORK/.jupyterhub.sge.out\n#$ -e WORK/.jupyterhub.sge.err\n#$ -v PATH,HOME,LANG\n#$ \n\n",
		submit:     "qsub", id: regexp.MustCompile(`^\S+ \S+ (\d+)`), list: "qstat -xml", listed: elements,
	},
	"batchtools": {
		directives: "#$ -N bt%s\n#$ -j y\n#$ -o /dev/null\n#$ -cwd\n#$ -V\n",
		submit:     "qsub FILE", id: firstNumber, list: "qstat -u USER -s prs", listed: columns(0, 4), array: "#$ -t 1-3\n",
	},
	"matlab": {
		submit: "qsub -N MATLAB_job -o /dev/null -j y -cwd -S /bin/sh FILE", id: firstNumber, list: "qstat", listed: columns(0, 4), array: "#$ -t 1-3\n",
	},
	"nipype": {
		directives: "#$ -N ni%s\n#$ -V\n",
		submit:     "qsub -cwd -o /dev/null -e /dev/null FILE", id: firstNumber, list: "qstat -xml -u USER", listed: elements, status: exitStatus,
	},
	"ipyparallel": {
		directives: "#$ -V\n#$ -S /bin/sh\n#$ -N ipengine%s\n#$ -o /dev/null\n#$ -j y\n#$ -cwd\n#$ -q all.q\n",
		submit:     "qsub FILE", id: firstNumber, list: "qstat", listed: columns(0, 4), array: "#$ -t 1-3\n",
	},
	"bcbio": {
		directives: "#$ -V\n#$ -cwd\n#$ -w w\n#$ -j y\n#$ -o /dev/null\n#$ -S /bin/sh\n#$ -N bcbio-%s\n#$ -pe smp 2\n#$ -q all.q\n#$ -l mem_free=1M\n",
		submit:     "qsub FILE", id: firstNumber, list: "qstat", listed: columns(0, 4), array: "#$ -t 1-3\n", builtin: true,
	},
	"slurm-shim": {
		submit: "qsub -terse -q all.q -pe smp 2 -N shim -o /dev/null -j y -cwd -V -notify -r y -l h_vmem=1G,h_rt=3600,s_rt=3540 FILE",
		id:     onlyNumber, list: "qstat -xml -u *", listed: elements,
		array: "#$ -t 1-3\n#$ -tc 2\n#$ -v SLURM_ARRAY_BASE=0\n#$ -v SLURM_ARRAY_STEP=1\n",
	},
	"snakemake cluster-generic": {
		submit: "qsub -terse -cwd -o /dev/null -j y FILE", id: onlyNumber, list: "qstat", listed: columns(0, 4), status: exitStatus,
	},
}

// columns reads a list of qstat: it skips two lines and takes the number and the state.
func columns(id, state int) func(*testing.T, string) map[string]string {
	return func(t *testing.T, text string) map[string]string {
		states := map[string]string{}
		for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
			if i < 2 {
				continue
			}
			words := strings.Fields(line)
			if len(words) <= max(id, state) {
				t.Errorf("qstat: %q", line)
				continue
			}
			states[words[id]] = words[state]
		}
		return states
	}
}

// elements reads a list of qstat -xml.
func elements(t *testing.T, text string) map[string]string {
	type job struct {
		Number string `xml:"JB_job_number"`
		State  string `xml:"state"`
		Kind   string `xml:"state,attr"`
	}
	var info struct {
		Queued  []job `xml:"queue_info>job_list"`
		Queues  []job `xml:"queue_info>Queue-List>job_list"`
		Pending []job `xml:"job_info>job_list"`
	}
	if err := xml.Unmarshal([]byte(text), &info); err != nil {
		t.Errorf("qstat -xml: %v\n%s", err, text)
	}
	states := map[string]string{}
	for _, j := range slices.Concat(info.Queued, info.Queues, info.Pending) {
		if states[j.Number] = j.State; j.Kind != "running" && j.Kind != "pending" {
			t.Errorf("job %s: state=%q", j.Number, j.Kind)
		}
	}
	return states
}

// conversation is a client that uses a site.
type conversation struct {
	*testing.T
	replay
	site *site
	name string // for names of files
}

func (c *conversation) fill(line string) []string {
	return strings.Fields(strings.NewReplacer("WORK", c.site.work, "USER", c.site.user.Username).Replace(line))
}

// submitted submits a job with a script, and returns its number.
func (c *conversation) submitted(kind, directives, does string) string {
	c.Helper()
	header := c.directives
	if _, err := os.Stat(c.site.user.HomeDir); err != nil && !strings.Contains(c.directives+c.submit, "wd") {
		header += "#$ -wd WORK\n" // some users lack a home directory, the default working directory
	}
	header = strings.ReplaceAll(strings.ReplaceAll(header, "%s", kind), "WORK", c.site.work)
	text := "#!/bin/sh\n" + header + directives + "echo run >> " + c.site.work + "/" + c.name + "." + kind + "\n" + does + "\n"
	words := c.fill(c.submit)
	stdin := text
	if i := slices.Index(words, "FILE"); i >= 0 {
		words[i], stdin = c.site.script(c.name+"."+kind+".sh", text), ""
	}
	r := c.site.input(stdin, words[0], words[1:]...)
	found := c.id.FindStringSubmatch(r.stdout)
	if r.status != 0 || r.stderr != "" || found == nil {
		c.Fatalf("%q: %+v", words, r)
	}
	return found[1]
}

// states requests the states of the jobs.
func (c *conversation) states() map[string]string {
	c.Helper()
	words := c.fill(c.list)
	r := c.site.run(words[0], words[1:]...)
	if r.status != 0 || r.stderr != "" {
		c.Errorf("%q: %+v", words, r)
	}
	return c.listed(c.T, r.stdout)
}

// ended checks the records of a job: the number of its tasks that have run, and their exit status.
// Like the clients, it asks at once after the job has left the list.
func (c *conversation) ended(kind, id string, tasks int, status string) {
	c.Helper()
	if n := strings.Count(c.site.read(c.name+"."+kind), "run\n"); n != tasks {
		c.Errorf("%s: %d tasks have run, want %d", kind, n, tasks)
	}
	find := c.status
	if find == nil {
		find = exitStatus
	}
	r := c.site.run("qacct", "-j", id)
	all := find.FindAllStringSubmatch(r.stdout, -1)
	if r.status != 0 || r.stderr != "" || len(all) != tasks {
		c.Errorf("%s: qacct -j %s: %+v", kind, id, r)
	}
	for _, found := range all {
		if got, _, _ := strings.Cut(found[1], " "); got != status {
			c.Errorf("%s: exit status %q, want %s", kind, found[1], status)
		}
	}
}

// TestReplays makes each client run a job that succeeds, one that fails, one that is killed, and an
// array job, all at the same time, while the daemon is killed and restarted.
func TestReplays(t *testing.T) {
	usual, builtin := newSite(t, 200), newBuiltinSite(t, 200)
	builtin.withGPUs()
	type started struct {
		*conversation
		good, bad, killed, array string
	}
	var all []started
	for name, r := range replays {
		c := &conversation{T: t, replay: r, site: usual, name: strings.ReplaceAll(name, " ", "-")}
		if r.builtin {
			c.site = builtin
		}
		x := started{conversation: c}
		x.good, x.bad = c.submitted("good", "", ""), c.submitted("bad", "", "exit 3")
		x.killed = c.submitted("killed", "", "exec sleep 1000")
		if r.array != "" {
			x.array = c.submitted("array", r.array, "")
		}
		all = append(all, x)
	}
	usual.restart()
	builtin.restart()
	for _, x := range all {
		s := x.site
		s.until(x.name+" sees that its job runs", func() bool { return x.states()[x.killed] == "r" })
		if x.name == "batchspawner" {
			if host := spawnerHost(s, x.killed); host != "node1" {
				t.Errorf("batchspawner connects to the host %q", host)
			}
		}
		if r := s.run("qdel", x.killed); r.status != 0 || r.stderr != "" {
			t.Errorf("%s: qdel: %+v", x.name, r)
		}
	}
	for _, x := range all {
		x.site.until(x.name+" sees that its jobs have finished", func() bool {
			states := x.states()
			return !slices.ContainsFunc([]string{x.good, x.bad, x.killed, x.array}, func(id string) bool { return states[id] != "" })
		})
		x.ended("good", x.good, 1, "0")
		x.ended("bad", x.bad, 1, "3")
		killed := "137"
		if strings.Contains(x.directives+x.submit, "-notify") {
			killed = "140" // SIGUSR2
		}
		x.ended("killed", x.killed, 1, killed)
		if x.array != "" {
			x.ended("array", x.array, 3, "0")
		}
	}
	if name := bcbioEnvironment(builtin, "all.q"); name != "smp" {
		t.Errorf("bcbio chooses the parallel environment %q", name)
	}
	if text := usual.must(usual.run("qconf", "-sconf")); !regexp.MustCompile(`max_aj_tasks\s*(\d+)`).MatchString(text) {
		t.Errorf("matlab reads max_aj_tasks: %s", text)
	}
}

// spawnerHost returns the host that batchspawner connects JupyterHub to: the second part of the
// queue_name of the job in qstat -xml.
func spawnerHost(s *site, id string) string {
	s.Helper()
	text := s.must(s.run("qstat", "-xml"))
	_, job, _ := strings.Cut(text, "<JB_job_number>"+id+"</JB_job_number>")
	job, _, _ = strings.Cut(job, "</job_list>")
	_, name, _ := strings.Cut(job, "<queue_name>")
	name, _, _ = strings.Cut(name, "</queue_name>")
	_, host, _ := strings.Cut(name, "@")
	return host
}

// bcbioEnvironment looks for a parallel environment of a queue as bcbio does.
func bcbioEnvironment(s *site, queue string) string {
	s.Helper()
	key, value := "", map[string]string{}
	for line := range strings.Lines(s.must(s.run("qconf", "-sq", queue))) {
		line = strings.TrimSpace(line)
		if key == "" {
			var ok bool
			if key, line, ok = strings.Cut(line, " "); !ok {
				s.Errorf("qconf -sq: %q has no value", key)
			}
		}
		value[key] += strings.TrimRight(strings.TrimSpace(line), `\`)
		if !strings.HasSuffix(line, `\`) {
			key = ""
		}
	}
	for name := range strings.FieldsSeq(s.must(s.run("qconf", "-spl"))) {
		for line := range strings.Lines(s.must(s.run("qconf", "-sp", name))) {
			if strings.HasPrefix(line, "allocation_rule") && strings.Contains(line, "$pe_slots") &&
				slices.Contains(regexp.MustCompile(`\W+`).Split(value["pe_list"], -1), name) {
				return name
			}
		}
	}
	return ""
}

// TestSoakReplays makes each client submit 200 jobs at once, and kills the daemon in between.
func TestSoakReplays(t *testing.T) {
	testenv.Soak(t)
	const many = 200
	for name, r := range replays {
		t.Run(name, func(t *testing.T) {
			start := newSite
			if r.builtin {
				start = newBuiltinSite
			}
			s := start(t, 16)
			if r.builtin {
				s.withGPUs()
			}
			c := &conversation{T: t, replay: r, site: s, name: "many"}
			jobs := map[string]bool{}
			for i := range many {
				jobs[c.submitted(fmt.Sprintf("j%d", i), "", "exit 3")] = true
				if i == many/2 {
					s.restart()
				}
			}
			if len(jobs) != many {
				t.Errorf("%d jobs, want %d", len(jobs), many)
			}
			s.until("all have finished", func() bool { return len(c.states()) == 0 })
			for id := range jobs {
				if r := s.run("qacct", "-j", id); !strings.Contains(r.stdout, "exit_status  3 ") {
					t.Errorf("job %s: %+v", id, r)
				}
			}
		})
	}
}
