package launcher

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/internal/host/gpu"
	"github.com/execd-project/execd/internal/host/procedures"
	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/limits/binding"
	"github.com/execd-project/execd/limits/topology"
	"github.com/execd-project/execd/qconf"
)

// newOrderedWorld makes the launcher of an agent: a master orders jobs, and the host permits a prolog of root.
func newOrderedWorld(t *testing.T, configure ...func(*Server)) *world {
	t.Helper()
	w, s := makeWorld(t)
	list, err := procedures.Parse("procedures", "root /site/prolog $job_id\nroot /site/start\n")
	if err != nil {
		t.Fatal(err)
	}
	s.Rules.Permitted = func() (*procedures.List, error) { return list, nil }
	s.Rules.Site = Site{Host: "host", Config: s.Config, BinaryPath: "", Arch: ""}
	for _, f := range configure {
		f(s)
	}
	w.serve(s)
	return w
}

// TestOrdersOfMasters checks that under a master the launcher prepares only jobs that the host permits.
func TestOrdersOfMasters(t *testing.T) {
	w := newOrderedWorld(t)
	for name, change := range map[string]func(p *launch.Plan){
		"a job":                 func(*launch.Plan) {},
		"a prolog of root":      func(p *launch.Plan) { p.Description.Prolog = "root@/site/prolog $job_id" },
		"a method of the owner": func(p *launch.Plan) { p.Description.TerminateMethod = "/any/program" },
		"a prolog of the owner": func(p *launch.Plan) { p.Description.Prolog = "/any/program" },
		"a job of several hosts": func(p *launch.Plan) {
			p.Hosts = append(p.Hosts, jobdir.PEHost{Host: "other", Slots: 1, Queue: "all.q@other"})
		},
		"another host than ours":               func(p *launch.Plan) { p.Description.Host = "alias" },
		"a job whose master task is elsewhere": func(p *launch.Plan) { p.Slave, p.Description.Prolog = true, "root@/not/permitted" },
		"a job that is executed directly":      func(p *launch.Plan) { p.Description.Command.StartMode = job.RawExec },
		"cores of a host that is not ours": func(p *launch.Plan) {
			p.GrantedBinding = &launch.GrantedBinding{Trees: []string{"(S(c(t)))" + strings.Repeat("(S(C(T)))", 999)}}
		},
		// The scheduler of Open Cluster Scheduler 9.1 chooses cores for each job, or none.
		"no cores, says the master": func(p *launch.Plan) { p.GrantedBinding = &launch.GrantedBinding{} },
		"a console":                 func(p *launch.Plan) { p.Description.Terminal = &job.Terminal{} },
		"a session of qrsh":         func(p *launch.Plan) { p.Description.Relayed = true },
		"variables that no one reads": func(p *launch.Plan) {
			p.Description.Environment = append(p.Description.Environment, "JOB_ID=8")
		},
	} {
		p := w.plan(job.ID{Job: 7})
		change(p)
		if err := w.ask(kindPrepare, &prepareBody{Plan: p, Script: true}, w.script()); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := w.ask(kindRemove, &removeBody{ID: job.ID{Job: 7}}); err != nil {
			t.Fatal(err)
		}
		if err := w.ask(kindRemoveScript, &scriptBody{7}); err != nil {
			t.Fatal(err)
		}
	}
	w.nothingIsHere()
}

// TestForgedOrdersOfMasters checks that the front of an agent gives procedures of other users only the data of the
// job's description, and starts no job of a user whom root's configuration does not admit.
func TestForgedOrdersOfMasters(t *testing.T) {
	said := func(p *launch.Plan, variable string) {
		p.Description.Prolog = "root@/site/prolog $job_id"
		p.Description.Environment = append(p.Description.Environment, variable)
	}
	w := newOrderedWorld(t)
	for name, c := range map[string]struct {
		forge func(p *launch.Plan)
		want  string
	}{
		"another program of root":     {func(p *launch.Plan) { p.Description.Prolog = "root@/tmp/x" }, "runs as another user"},
		"other arguments":             {func(p *launch.Plan) { p.Description.Prolog = "root@/site/prolog $job_name" }, "runs as another user"},
		"the program as another user": {func(p *launch.Plan) { p.Description.Prolog = "daemon@/site/prolog $job_id" }, "runs as another user"},
		"another number":              {func(p *launch.Plan) { said(p, "JOB_ID=8") }, `JOB_ID="8", expected "7"`},
		"another job name":            {func(p *launch.Plan) { said(p, "JOB_NAME=../x") }, "JOB_NAME"},
		"another spool directory":     {func(p *launch.Plan) { said(p, "SGE_JOB_SPOOL_DIR=/etc") }, "SGE_JOB_SPOOL_DIR"},
		"another pe_hostfile":         {func(p *launch.Plan) { said(p, "QUEUE=/etc") }, "QUEUE"},
		"another SGE_ROOT":            {func(p *launch.Plan) { said(p, "SGE_BINARY_PATH=/tmp") }, "SGE_BINARY_PATH"},
		"an element of another host":  {func(p *launch.Plan) { said(p, launch.ElementPrefix+"disk=/etc") }, "is not in the resource map"},
		"a job name that leads up":    {func(p *launch.Plan) { said(p, "X=1"); p.Description.Name = "a/../b" }, "has a /"},
		"a checkpointing directory": {func(p *launch.Plan) {
			said(p, "SGE_CKPT_ENV=c")
			p.Description.Environment = append(p.Description.Environment, "SGE_CKPT_DIR=/etc")
			p.Description.Ckpt = &job.Checkpoint{Name: "c", Interface: "userdefined", Dir: "/etc"}
		}, "checkpointing environment"},
		"a task number that is none": {func(p *launch.Plan) {
			said(p, "SGE_TASK_FIRST=/etc")
			p.Description.ID.Task = 1
			p.Description.Tmpdir = p.Description.QueueTmpdir + "/" + jobdir.TmpdirName(p.Description.ID, p.Description.Queue)
		}, "is no number"},
		"a host that leads up": {func(p *launch.Plan) { p.Hosts[0].Host = "../x" }, "contains a character"},
		// Start_proc_args may contain ssh $host, for each line of pe_hostfile.
		"a host that is an option":  {func(p *launch.Plan) { p.Hosts[0].Host = "-oProxyCommand=x" }, "contains a character"},
		"a host that is a command":  {func(p *launch.Plan) { p.Hosts[0].Host = "$(x)" }, "contains a character"},
		"a host of two words":       {func(p *launch.Plan) { p.Hosts[0].Host = "a 1 x@b" }, "contains a character"},
		"a host without a name":     {func(p *launch.Plan) { p.Hosts[0].Host = "" }, "is not a name"},
		"our host is an option":     {func(p *launch.Plan) { p.Description.Host = "-oProxyCommand=x" }, "contains a character"},
		"our host of two words":     {func(p *launch.Plan) { p.Description.Host = "a b" }, "contains a character"},
		"another host for a prolog": {func(p *launch.Plan) { said(p, "HOSTNAME=other"); p.Description.Host = "other" }, "expected this host"},
		"a shell_start_mode":        {func(p *launch.Plan) { p.Description.Command.StartMode = "x" }, "start mode"},
		"cores twice":               {func(p *launch.Plan) { p.GrantedBinding, p.Cores = &launch.GrantedBinding{}, &binding.Request{} }, "a request for others"},
		"cores for no one":          {func(p *launch.Plan) { p.GrantedBinding = &launch.GrantedBinding{Instance: 3} }, "not an instance"},
		"many trees":                {func(p *launch.Plan) { p.GrantedBinding = &launch.GrantedBinding{Trees: make([]string, mostTrees+1)} }, "at most 1024"},
		"cores by their text":       {func(p *launch.Plan) { p.Description.Binding = "explicit:0,0:Sc" }, "cores that were chosen"},
		"GPUs that are counted":     {func(p *launch.Plan) { p.GPUCount, p.GPUComplex = 1, "gpu" }, "not counted on this host"},
	} {
		p := w.plan(job.ID{Job: 7})
		c.forge(p)
		w.refusedWith(name, w.ask(kindPrepare, &prepareBody{Plan: p, Script: true}, w.script()), c.want)
	}
	w.nothingIsHere()

	nobody := AccessList{Users: []string{"nobody"}}
	group := AccessList{Groups: []string{w.groupName()}}
	for name, c := range map[string]struct {
		access  []Access
		refused bool
	}{
		"nobody is admitted":          {[]Access{{Restricted: true, Admitted: []AccessList{nobody}}}, false},
		"the group is admitted":       {[]Access{{Restricted: true, Admitted: []AccessList{group}}}, false},
		"others are admitted":         {[]Access{{Restricted: true, Admitted: []AccessList{{Users: []string{"alice"}}}}}, true},
		"lists without users":         {[]Access{{Restricted: true}}, true},
		"nobody is excluded":          {[]Access{{Excluded: []AccessList{nobody}}}, true},
		"the group is excluded":       {[]Access{{Restricted: true, Admitted: []AccessList{nobody}, Excluded: []AccessList{group}}}, true},
		"excluded on this host alone": {[]Access{{Restricted: true, Admitted: []AccessList{nobody}}, {Excluded: []AccessList{nobody}}}, true},
	} {
		w := newOrderedWorld(t, func(s *Server) { s.Rules.Site.Access = c.access })
		err := w.ask(kindPrepare, &prepareBody{Plan: w.plan(job.ID{Job: 7}), Script: true}, w.script())
		if (err != nil) != c.refused || err != nil && !strings.Contains(err.Text, "do not admit user nobody") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAccessByDirectory checks that a group in an access list counts that only a directory service knows: by its ID, such a
// group has no name. If the service does not answer, the job is not started.
func TestAccessByDirectory(t *testing.T) {
	dir := testenv.Open(t, t.TempDir())
	for name, c := range map[string]struct {
		getent string
		access Access
		want   string // the error; empty for none
	}{
		"excluded":         {`echo guests:x:$OWNER:`, Access{Excluded: []AccessList{{Groups: []string{"guests"}}}}, "do not admit user nobody"},
		"admitted":         {`echo guests:x:$OWNER:`, Access{Restricted: true, Admitted: []AccessList{{Groups: []string{"guests"}}}}, ""},
		"another group":    {`echo guests:x:7:`, Access{Excluded: []AccessList{{Groups: []string{"guests"}}}}, ""},
		"no such group":    {`exit 2`, Access{Excluded: []AccessList{{Groups: []string{"guests"}}}}, ""},
		"no answer":        {`exit 1`, Access{Excluded: []AccessList{{Groups: []string{"guests"}}}}, "cannot determine whether user nobody is in the access lists"},
		"no answer needed": {`exit 1`, Access{Restricted: true, Admitted: []AccessList{{Users: []string{"nobody"}}}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			write := func(name, text string) string {
				path := filepath.Join(dir, name)
				if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
					t.Fatal(err)
				}
				return path
			}
			w, s := makeWorld(t)
			s.Rules.Site = Site{Host: "host", Config: s.Config, Objects: Objects{Access: []Access{c.access}}}
			s.Rules.Users.Group = write("group", "root:x:0:\n")
			s.Rules.Users.Switch = write("nsswitch.conf", "passwd: files\ngroup: files ldap\n")
			s.Rules.Users.Getent = write("getent", "#!/bin/sh\n"+strings.ReplaceAll(c.getent, "$OWNER", strconv.Itoa(int(w.owner.GID)))+"\n")
			w.serve(s)
			err := w.ask(kindPrepare, &prepareBody{Plan: w.plan(job.ID{Job: 7}), Script: true}, w.script())
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Text, c.want) {
				t.Errorf("%v, expected %q", err, c.want)
			}
		})
	}
}

// groupName returns the name of the group of the jobs' owner.
func (w *world) groupName() string { return userdb.System().GroupName(w.owner.GID) }

// TestGrantedCores checks that the launcher binds a job to the processors that a master has chosen: the front cannot choose the
// description of the cores, nor the variables about them.
func TestGrantedCores(t *testing.T) {
	w := newOrderedWorld(t)
	tree, err := launch.Tree()
	if err != nil {
		t.Fatal(err)
	}
	tree = regexp.MustCompile(`\[[^]]*\]`).ReplaceAllString(tree, "")
	p := w.plan(job.ID{Job: 7})
	p.Description.Environment = append(p.Description.Environment, "SGE_BINDING_CPUSET=forged")
	p.GrantedBinding = &launch.GrantedBinding{Trees: []string{strings.Replace(tree, "T", "t", 1)}}
	a := w.prepared(p)
	d := a.Description
	cpus, err := topology.ParseList(d.BindingCPUs)
	if err != nil || cpus.Len() != 1 || !strings.HasPrefix(d.Binding, "explicit:") || a.State.Unbound != "" {
		t.Errorf("the job has the cores %q, %q (%v): %s", d.BindingCPUs, d.Binding, err, a.State.Unbound)
	}
	of := map[string]string{}
	for _, v := range d.Environment {
		name, value, _ := strings.Cut(v, "=")
		of[name] = value
	}
	if of["SGE_BINDING"] != d.BindingCPUs || !strings.HasPrefix(of["SGE_BINDING_CPUSET"], "0x") {
		t.Errorf("the job has the variables %q", of)
	}
}

// TestCountedGPUs checks that the launcher of an agent chooses GPUs for jobs whose master counts them: no two jobs get
// the same GPU, and the front chooses neither which one nor of which complex.
func TestCountedGPUs(t *testing.T) {
	root := t.TempDir()
	testenv.GPUs(t, root, testenv.GPU{Vendor: "nvidia", Address: "0000:41:00.0", UUID: "GPU-11111111-aaaa-bbbb-cccc-000000000001", Minor: 0},
		testenv.GPU{Vendor: "nvidia", Address: "0000:61:00.0", UUID: "GPU-11111111-aaaa-bbbb-cccc-000000000002", Minor: 1})
	w := newOrderedWorld(t, func(s *Server) {
		s.GPUs, s.GPUComplex = gpu.OpenRegister(root, filepath.Join(t.TempDir(), "gpus"), nil), "card"
		t.Cleanup(s.GPUs.Close)
	})
	plan := func(number, count int) *launch.Plan {
		p := w.plan(job.ID{Job: number})
		p.GPUCount, p.GPUComplex = count, "card"
		return p
	}
	for name, c := range map[string]struct {
		forge func(p *launch.Plan)
		want  string
	}{
		"of another complex":   {func(p *launch.Plan) { p.GPUComplex = "PATH" }, "not counted on this host"},
		"of no complex":        {func(p *launch.Plan) { p.GPUComplex = "" }, "not counted on this host"},
		"less than none":       {func(p *launch.Plan) { p.GPUCount = -1 }, "by number"},
		"none":                 {func(p *launch.Plan) { p.GPUCount = 0 }, "by number"},
		"too many":             {func(p *launch.Plan) { p.GPUCount = mostGPUs + 1 }, "at most 4096"},
		"by number and name":   {func(p *launch.Plan) { p.GPUs = []string{"1"} }, "1 by name"},
		"variables of another": {func(p *launch.Plan) { p.UnfilteredEnv = []string{"LD_PRELOAD=/tmp/x.so"} }, "variables of GPUs"},
	} {
		p := plan(7, 1)
		c.forge(p)
		w.refusedWith(name, w.ask(kindPrepare, &prepareBody{Plan: p, Script: true}, w.script()), c.want)
	}
	w.nothingIsHere()
	for number := 7; number < 9; number++ {
		a := w.prepared(plan(number, 1))
		own := strconv.Itoa(number - 7)
		if !slices.Equal(a.State.GPUs, []string{own}) || !slices.Contains(a.Description.Environment, launch.ElementPrefix+"card="+own) {
			t.Errorf("job %d has the GPUs %q and the variables %q", number, a.State.GPUs, a.Description.Environment)
		}
	}
	err := w.ask(kindPrepare, &prepareBody{Plan: plan(9, 1), Script: true}, w.script())
	if few, ok := errors.AsType[*launch.GPUError](err); !ok || few.Offered != 2 || few.Others != 2 {
		t.Errorf("a third job: %v", err)
	}
}

// TestTrustedVariables checks that the variables on which procedures of other users rely follow from the description
// alone, whatever the front calls trusted.
func TestTrustedVariables(t *testing.T) {
	w := newOrderedWorld(t)
	p := w.plan(job.ID{Job: 7})
	d := p.Description
	d.Prolog, d.Trusted = "root@/site/prolog $job_id", append(d.Trusted, "LD_PRELOAD", "PATH")
	d.Environment = append(d.Environment, "LD_PRELOAD=/tmp/x.so")
	a := w.prepared(p)
	trusted := a.Description.Trusted
	if slices.Contains(trusted, "LD_PRELOAD") || slices.Contains(trusted, "PATH") || !slices.Contains(trusted, "JOB_ID") {
		t.Errorf("trusted are %q", trusted)
	}
	if l := a.Description.ProcedureLimits; l == nil || *l != job.Unlimited() {
		t.Errorf("the limits of the prolog are %+v", l)
	}
}

// TestVerifierOfMasters checks that jsv_url of a master's configuration has no effect on its agents, and that the
// other parameters have.
func TestVerifierOfMasters(t *testing.T) {
	s := settings{Ordered: true}
	c, err := qconf.ParseConfiguration("global", []byte("min_uid 1\njsv_url /site/jsv\n"))
	if err != nil {
		t.Fatal(err)
	}
	s.CgroupsParams, _ = c.Value("cgroups_params")
	s.UseCgroups, s.ScratchLimit = c.ExecdParams.UseCgroups, string(c.ExecdParams.ScratchLimit)
	if err := s.permit(c); err != nil {
		t.Error(err)
	}
	s.ShepherdCmd = "/other"
	if err := s.permit(c); err == nil || !strings.Contains(err.Error(), "shepherd_cmd") {
		t.Errorf("another shepherd_cmd: %v", err)
	}
}
