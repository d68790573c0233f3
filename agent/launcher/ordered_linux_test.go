package launcher

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/internal/host/procedures"
	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
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
		"a console":                            func(p *launch.Plan) { p.Description.Terminal = &job.Terminal{} },
		"a session of qrsh":                    func(p *launch.Plan) { p.Description.Relayed = true },
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
		"a shell_start_mode":        {func(p *launch.Plan) { p.Description.Command.StartMode = job.RawExec }, "shell_start_mode"},
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

// TestTrustedVariables checks that the variables on which procedures of other users rely follow from the description
// alone, whatever the front calls trusted.
func TestTrustedVariables(t *testing.T) {
	w := newOrderedWorld(t)
	p := w.plan(job.ID{Job: 7})
	d := p.Description
	d.Prolog, d.Trusted = "root@/site/prolog $job_id", append(d.Trusted, "LD_PRELOAD", "PATH")
	d.Environment = append(d.Environment, "LD_PRELOAD=/tmp/x.so")
	a := &jobAnswer{}
	answer := w.exchange(w.text(kindPrepare, &prepareBody{Plan: p, Script: true}), w.script())
	if answer.Error != nil {
		t.Fatal(answer.Error)
	}
	if err := decode(answer.Body, a); err != nil {
		t.Fatal(err)
	}
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
