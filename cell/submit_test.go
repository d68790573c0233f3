package cell

import (
	"errors"
	"testing"
)

func TestAnswersOfQsub(t *testing.T) {
	h := newHarness(t, small)
	for _, c := range []struct{ line, want string }{
		{"-N arr -t 1-9:2", `Your job-array 1.1-9:2 ("arr") has been submitted`},
		{"-N a", `Your job 2 ("a") has been submitted`},
		{"-t 5 -N one", `Your job-array 3.5-5:1 ("one") has been submitted`},
		{"-now y", `Waiting for immediate job to be scheduled.`},
	} {
		a, err := h.try("alice", c.line)
		if err != nil {
			t.Fatal(err)
		}
		h.said(a, c.want)
	}
}

// TestRefusals checks that a refused submission changes nothing except the next job number.
func TestRefusals(t *testing.T) {
	limited := small.with(files{"conf/global": "max_u_jobs 1\nmax_jobs 3\nmax_aj_tasks 10\nxuser_lists friends"})
	for name, c := range map[string]struct {
		cluster    files
		before     []string // submitted by alice
		user, line string
		want       string
	}{
		"an unknown resource":                     {line: "-l nosuch=1", want: `unknown resource "nosuch"`},
		"a resource that is not requestable":      {line: "-l seq_no=1", want: `resource "seq_no" configured as non requestable`},
		"a resource that is not, by shortcut":     {line: "-l seq=1", want: `resource "seq_no" configured as non requestable`},
		"slots":                                   {line: "-l slots=1", want: `"job" denied: use parallel environments instead of requesting slots explicitly`},
		"a value of the wrong type":               {line: "-l mem=1x", want: `attribute "mem" is not a memory value`},
		"a number of the wrong type":              {line: "-l lic=x", want: `attribute "lic" is not a integer value`},
		"a time of the wrong type":                {line: "-l h_rt=1:30", want: `attribute "h_rt" is not a time value`},
		"no value":                                {line: "-l osn=", want: `denied: missing value for resource "osn"`},
		"an infinite consumable":                  {line: "-l lic=INFINITY", want: `attribute "lic" is not a value that can be set to infinity`},
		"a negative consumable":                   {line: "-l lic=-1", want: `attribute "lic" is consumable but has a negative value`},
		"a soft consumable":                       {line: "-soft -l lic=1", want: `denied: soft requests on consumables like "lic" are not supported`},
		"an expression that cannot be read":       {line: "-l 'osn=(lx*'", want: `Parse error on position 4 of the expression "(lx*".`},
		"a queue instance in -l":                  {line: "-l q=all.q@n1", want: `Queue instance names are not allowed in -l resource requests`},
		"an unknown queue":                        {line: "-q nosuch.q", want: `Job was rejected because job requests unknown queue "nosuch.q"`},
		"an unknown queue beside a known one":     {line: "-q all.q,x.q", want: `Job was rejected because job requests unknown queue "x.q"`},
		"an unknown queue instance":               {line: "-q all.q@n9", want: `Job was rejected because job requests unknown queue "all.q@n9"`},
		"an unknown parallel environment":         {line: "-pe nosuch 2", want: `job rejected: the requested parallel environment "nosuch" does not exist`},
		"a pattern without environments":          {line: "-pe nos* 2", want: `job rejected: the requested parallel environment "nos*" does not exist`},
		"no slots":                                {line: "-pe fill 0", want: `"job" rejected: pe range must be greater than zero`},
		"no slots in a list":                      {line: "-pe fill 2,0-3", want: `"job" rejected: pe range must be greater than zero`},
		"ambiguous urgency of slots":              {line: "-pe * 2-6", want: `"job" rejected: PEs matching wildcard and jobs slot range would cause ambiguous urgency slot amount`},
		"a deadline of somebody else":             {user: "bob", line: "-dl 12241200", want: `job rejected: the user "bob" is not a deadline initiation user`},
		"a positive priority":                     {line: "-p 5", want: `job rejected: positive submission priority requires operator privileges`},
		"an unknown project":                      {line: "-P nosuch", want: `job rejected: the requested project "nosuch" does not exist`},
		"a project of others":                     {line: "-P secret", want: `job rejected: no access to project "secret" for user "alice"`},
		"no project where one must be":            {cluster: small.with(files{"conf/global": "enforce_project true"}), want: `job rejected: no project assigned to job`},
		"a project that the cluster excludes":     {cluster: small.with(files{"conf/global": "xprojects p1"}), line: "-P p1", want: `job rejected: project "p1" is not allowed to submit jobs`},
		"a user without an object":                {cluster: small.with(files{"conf/global": "enforce_user true"}), want: `job rejected: the user "alice" does not exist`},
		"too many jobs of a user":                 {cluster: limited, before: []string{"-N a"}, want: `job rejected: only 1 jobs are allowed per user (current job count: 1)`},
		"too many jobs":                           {cluster: limited.with(files{"conf/global": "max_jobs 2"}), before: []string{"-N a", "-N b"}, want: `job rejected: only 2 jobs are allowed per cluster`},
		"too many tasks":                          {cluster: limited, line: "-t 1-11", want: `job rejected: you tried to submit a job with more than 10 tasks`},
		"a user who may not use the cluster":      {cluster: limited, user: "bob", want: `job rejected: bob@master is not allowed to submit jobs`},
		"an unknown advance reservation":          {line: "-ar 99", want: `the advance reservation id 99 is invalid`},
		"an unknown checkpointing environment":    {line: "-ckpt nosuch", want: `job rejected: the requested checkpointing environment "nosuch" does not exist`},
		"array dependency of a job without tasks": {before: []string{"-N a -t 1-5"}, line: "-hold_jid_ad a", want: `Can only specify "-hold_jid_ad" option with an array job (using "-t" option)`},
		"array dependency of another range":       {before: []string{"-N a -t 1-5"}, line: "-hold_jid_ad a -t 1-6", want: `This array job must have the same range of sub-tasks as the dependent array job specified with -hold_jid_ad`},
	} {
		t.Run(name, func(t *testing.T) {
			if c.cluster == nil {
				c.cluster = small
			}
			h := newHarness(t, c.cluster)
			for _, line := range c.before {
				h.sub("alice", line)
			}
			if c.user == "" {
				c.user = "alice"
			}
			before := h.show()
			_, err := h.try(c.user, c.line)
			var refused *DeniedError
			if !errors.As(err, &refused) || eventText(refused.Event) != c.want {
				t.Fatalf("got  %v\nwant %s", err, c.want)
			}
			h.expect(before)
			if a, err := h.try("oper", "-N next"); err == nil && a.ID != uint32(len(c.before))+2 {
				t.Errorf("the next job has the number %d", a.ID)
			}
		})
	}
}

func TestWhatIsAccepted(t *testing.T) {
	for _, c := range []struct{ user, line string }{
		{"alice", "-dl 202612241200"},
		{"oper", "-p 1024"},
		{"alice", "-p -1023"},
		{"bob", "-P secret"},
		{"alice", "-P p1"},
		{"alice", "-hold_jid nosuch,99"},
		{"alice", "-hold_jid_ad nosuch -t 1-5"},
		{"alice", "-pe 'f*' 2-6"},
		{"alice", "-pe * 3"},
		{"alice", "-ckpt ck"},
		{"alice", "-t 1-75000"},
		{"alice", "-soft -q nosuchat*|all.q"},
		{"alice", "-q *@n[12]"},
	} {
		h := newHarness(t, small)
		if _, err := h.try(c.user, c.line); err != nil {
			t.Errorf("%s: qsub %s: %v", c.user, c.line, err)
		}
	}
}

func TestImmediateJobs(t *testing.T) {
	h := newHarness(t, small)
	h.sub("alice", "-now y")
	h.sub("alice", "-now y")
	r := h.run()
	h.expect("1 r int.q@n1")
	if len(r.Immediate) != 2 || !r.Immediate[0].Started || r.Immediate[1].Started {
		t.Fatalf("%+v", r.Immediate)
	}
	if got := texts(r.Immediate[0].Events, "|"); got != `Your immediate job 1 has been successfully scheduled.|Your job 1 ("sleep") has been submitted` {
		t.Error(got)
	}
	if got := texts(r.Immediate[1].Events, "|"); got != `Your qsub request could not be scheduled; try again later.|Your job 2 ("sleep") has been submitted` {
		t.Error(got)
	}
}
