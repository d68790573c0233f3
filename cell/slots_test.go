package cell

import "testing"

var slotted = small.with(files{"conf/global": "qmaster_params SLOTS_PE=fill\n"})

// TestSlotsByResource checks that a site can configure a parallel environment for requests of slots by
// -l, as workflow engines make them.
func TestSlotsByResource(t *testing.T) {
	for name, c := range map[string]struct {
		cluster    files
		line, want string // the job's request, or the refusal
	}{
		"slots":                            {line: "-l slots=2", want: "fill 2"},
		"slots by their shortcut":          {line: "-l s=2,lic=1", want: "fill 2 lic=1"},
		"one slot":                         {line: "-l slots=1", want: "fill 1"},
		"the last of two":                  {line: "-l slots=1 -l slots=2", want: "fill 2"},
		"a queue for the master task":      {line: "-l slots=2 -masterq all.q", want: "fill 2"},
		"no slots":                         {line: "-l slots=0", want: "job rejected: -l slots=0: 0 is not possible, numbers begin at 1"},
		"a part of a slot":                 {line: "-l slots=1.5", want: `job rejected: -l slots=1.5: "1.5" is not a number`},
		"an environment of its own":        {line: "-pe fill 1 -l slots=2", want: `"job" denied: use parallel environments instead of requesting slots explicitly`},
		"nice to have":                     {line: "-soft -l slots=2", want: `"job" denied: use parallel environments instead of requesting slots explicitly`},
		"an environment that is not there": {cluster: small.with(files{"conf/global": "qmaster_params SLOTS_PE=nosuch\n"}), line: "-l slots=2", want: `job rejected: the requested parallel environment "nosuch" does not exist`},
		"a strict site":                    {cluster: small.with(files{"conf/global": "qmaster_params SLOTS_PE=NONE\n"}), line: "-l slots=2", want: `"job" denied: use parallel environments instead of requesting slots explicitly`},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := c.cluster
			if cluster == nil {
				cluster = slotted
			}
			h := newHarness(t, cluster)
			var got string
			if a, err := h.try("alice", c.line); err != nil {
				got = errorText(err)
			} else {
				got = asks(h.Job(a.ID))
			}
			if got != c.want {
				t.Errorf("-l: %s\nwant: %s", got, c.want)
			}
		})
	}
}

// asks returns the parallel environment and the resources that a job requests.
func asks(j *Job) string {
	text := ""
	if pe := j.Request().PE; pe != nil {
		text = pe.String()
	}
	for _, r := range j.Request().Resources {
		text += " " + r.String()
	}
	return text
}

func TestSlotsByResourceAltered(t *testing.T) {
	h := newHarness(t, slotted)
	h.sub("alice", "-N a -l lic=1")
	for _, c := range []struct{ line, want, asks string }{
		{"-l slots=2 a", "modified hard resource list of job 1\nmodified parallel environment of job 1\nmodified slot range of job 1", "fill 2"},
		{"-l lic=2 a", "modified hard resource list of job 1", "fill 2 lic=2"},
		{"-l slots=3,lic=1 a", "modified hard resource list of job 1\nmodified parallel environment of job 1\nmodified slot range of job 1", "fill 3 lic=1"},
		{"-l slots=x a", `job rejected: -l slots=x: "x" is not a number`, "fill 3 lic=1"},
		{"-pe rr 2 a", "modified parallel environment of job 1\nmodified slot range of job 1", "rr 2 lic=1"},
		{"-l slots=2 a", `denied: -l slots means the parallel environment "fill", and the job has "rr": use -pe`, "rr 2 lic=1"},
	} {
		h.said(h.alter("alice", c.line), c.want)
		if got := asks(h.Job(1)); got != c.asks {
			t.Errorf("qalter %s: the job asks for %q, want %q", c.line, got, c.asks)
		}
	}
}
