package launcher

import (
	"fmt"
	"strings"
	"testing"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
)

// TestForgedProcedures checks that a captured front runs as another user than the owner of a job only the procedures
// of the queue and the parallel environment in root's configuration, and chooses no text that a shell would
// interpret.
func TestForgedProcedures(t *testing.T) {
	w, s := newStrictWorld(t)
	site := &s.Rules.Site
	const prolog = "root@/site/prolog $queue"
	site.Queues = []Queue{{Name: "all.q", Prolog: prolog, Epilog: "daemon@/site/epilog"}, {Name: "other.q", Prolog: "root@/site/other"}, {Name: "confined.q", Prolog: prolog, Epilog: "daemon@/site/epilog", StarterMethod: "/site/container"}}
	site.Elements = map[string][]string{"disk": {"sda", "/dev/sdb"}}
	site.Queues[0].Limits = job.Unlimited()
	site.Queues[0].Limits[job.CPU].Hard = 100
	site.PEs, site.Ckpts = []PE{{Name: "p", Start: "root@/site/start"}}, []Ckpt{{"c", "/ckpt"}, {"other", "/other"}}
	n := 0
	honest := func() *order {
		n++
		return w.order(s, fmt.Sprintf("key%d", n), job.ID{Job: 7})
	}
	for name, c := range map[string]struct {
		forge func(o *order)
		want  string
	}{
		"another program":                 {func(o *order) { o.plan.Description.Prolog = "root@/tmp/x" }, "not that of root's configuration"},
		"other arguments":                 {func(o *order) { o.plan.Description.Prolog = "root@/site/prolog -c id" }, "not that of root's configuration"},
		"another user":                    {func(o *order) { o.plan.Description.Prolog = "daemon@/site/prolog $queue" }, "not that of root's configuration"},
		"the prolog as the epilog":        {func(o *order) { o.plan.Description.Epilog = prolog }, "not that of root's configuration"},
		"the prolog of another queue":     {func(o *order) { o.plan.Description.Prolog = "root@/site/other" }, "not that of root's configuration"},
		"the prolog as start_proc_args":   {func(o *order) { w.parallel(o, func(p *job.ParallelEnvironment) { p.Start = prolog }) }, "not that of root's configuration"},
		"the procedure as stop_proc_args": {func(o *order) { w.parallel(o, func(p *job.ParallelEnvironment) { p.Stop = "root@/site/start" }) }, "not that of root's configuration"},
		"a parallel environment of its own": {func(o *order) {
			w.parallel(o, func(p *job.ParallelEnvironment) { p.Name, p.Start = "q", "root@/site/start" })
		}, "the parallel environment q is not in root's configuration"},
		"a parallel environment for the prolog only": {func(o *order) {
			w.parallel(o, func(p *job.ParallelEnvironment) { p.Name = "-c" })
		}, "a character that is not allowed in names"},
		"a parallel environment that leads up": {func(o *order) {
			w.parallel(o, func(p *job.ParallelEnvironment) { p.Name = "../../tmp/x" })
		}, "a character that is not allowed in names"},
		"a queue in pe_hostfile that leads up": {func(o *order) { o.plan.Hosts[0].Queue = "../../tmp/x@host" }, "a character that is not allowed in names"},
		"processors that are a file":           {func(o *order) { o.plan.Description.Processors = "/tmp/x" }, "a character that is not allowed in names"},
		"the prolog as the starter_method":     {func(o *order) { o.plan.Description.StarterMethod = prolog }, "starter_method"},
		"a queue of its own":                   {func(o *order) { w.queue(o, "new.q") }, "the queue new.q is not in root's configuration"},
		"a queue that a shell would read":      {func(o *order) { w.queue(o, "$(id)") }, "a character that is not allowed in names"},
		"a queue of two words":                 {func(o *order) { w.queue(o, "all.q x") }, "a character that is not allowed in names"},
		"processors that a shell would read":   {func(o *order) { o.plan.Description.Processors = "`id`" }, "a character that is not allowed in names"},
		"two lines of pe_hostfile":             {func(o *order) { o.plan.Hosts[0].Queue = "all.q\nhost" }, "a character that is not allowed in names"},
		"a variable that a shell would read": {func(o *order) {
			o.plan.Description.Environment = append(o.plan.Description.Environment, "SGE_HGR_x=1;id")
		}, "a character that is not allowed in names"},
		"a name of a variable that a shell would read": {func(o *order) {
			o.plan.Description.Environment = append(o.plan.Description.Environment, "SGE_HGR_$(id)=1")
		}, "a character that is not allowed in names"},
		"a directory of checkpoints": {func(o *order) {
			w.says(o, "SGE_CKPT_ENV=c", "SGE_CKPT_DIR=/etc")
			o.plan.Description.Ckpt = &job.Checkpoint{Name: "c", Interface: "userdefined", Dir: "/etc"}
		}, `ckpt_dir "/etc"`},
		"the checkpoints of another environment": {func(o *order) {
			w.says(o, "SGE_CKPT_ENV=c", "SGE_CKPT_DIR=/other")
			o.plan.Description.Ckpt = &job.Checkpoint{Name: "c", Interface: "userdefined", Dir: "/other"}
		}, `the checkpointing environment c with ckpt_dir "/other"`},
		"no prolog":                 {func(o *order) { o.plan.Description.Prolog = "" }, "is not that of root's configuration for the queue all.q"},
		"no epilog":                 {func(o *order) { o.plan.Description.Epilog = "" }, "is not that of root's configuration for the queue all.q"},
		"no starter_method":         {func(o *order) { w.queue(o, "confined.q") }, `starter_method "" is not that`},
		"no procedures at all":      {func(o *order) { o.plan.Description.Prolog, o.plan.Description.Epilog = "", ""; w.queue(o, "new.q") }, "the queue new.q is not in root's configuration, which has queues with a prolog"},
		"no start_proc_args":        {func(o *order) { w.parallel(o, func(p *job.ParallelEnvironment) {}) }, "start_proc_args"},
		"processors like an option": {func(o *order) { o.plan.Description.Processors = "-c" }, "a character that is not allowed in names"},
		"processors like all files": {func(o *order) { o.plan.Description.Processors = "*" }, "a character that is not allowed in names"},
		"an element that leads up": {func(o *order) {
			o.plan.Description.Environment = append(o.plan.Description.Environment, "SGE_HGR_disk=..")
		}, "is not in the resource map of this host"},
		"an element like a GPU": {func(o *order) {
			o.plan.GPUs = []string{"../x"}
			o.plan.Description.Environment = append(o.plan.Description.Environment, "SGE_HGR_gpu=../x")
		}, "is not in the resource map of this host"},
		"users of procedures": {func(o *order) { o.plan.Users = []int{0} }, "users of procedures"},
	} {
		o := honest()
		c.forge(o)
		w.refusedWith(name, w.prepare(o), c.want)
	}
	w.nothingIsHere()

	o := honest()
	limits := job.Unlimited()
	limits[job.Fsize].Hard = 1
	o.plan.Description.Environment = append(o.plan.Description.Environment, "SGE_HGR_disk=sda /dev/sdb", "SGE_HGR_amount=1.500000")
	o.plan.Description.ProcedureLimits, o.plan.Description.ScriptTimeout = &limits, 1
	w.parallel(o, func(p *job.ParallelEnvironment) { p.Start = "root@/site/start" })
	if err := w.prepare(o); err != nil {
		t.Fatal(err)
	}
	dir, err := w.spool.Open(job.ID{Job: 7})
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	d, err := dir.Description()
	if err != nil {
		t.Fatal(err)
	}
	if l := d.ProcedureLimits; l == nil || l[job.Fsize].Hard == 1 || l[job.CPU].Hard != 100 || d.ScriptTimeout == 1 {
		t.Errorf("the front has chosen when root's procedures end: %+v, %s", l, d.ScriptTimeout)
	}
}

// queue gives a job another queue.
func (w *world) queue(o *order, name string) {
	d := o.plan.Description
	was := d.Tmpdir
	d.Queue = name
	d.Tmpdir = d.QueueTmpdir + "/" + jobdir.TmpdirName(d.ID, name)
	for i := range d.Streams {
		d.Streams[i].Staging.TmpPath = d.Tmpdir + "/"
	}
	for i, v := range d.Environment {
		if strings.HasPrefix(v, "QUEUE=") {
			v = "QUEUE=" + name
		}
		d.Environment[i] = strings.ReplaceAll(v, was, d.Tmpdir)
	}
}
