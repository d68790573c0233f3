package launch

import (
	"math"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"pgregory.net/rapid"

	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/quantity"
	"github.com/execd-project/execd/submit"
)

// complexes as a site may have changed them: h_vmem and s_vmem are for the whole
// job, h_cpu is for each slot. Each has a default, which is not a limit.
const complexes = `
h_vmem  hv     MEMORY <= YES JOB 512M 0
s_vmem  s_vmem MEMORY <= YES JOB 256M 0
h_cpu   hc     TIME   <= YES YES 0:10:0 0
h_fsize hf     MEMORY <= YES NO  0 0
license l      INT    <= YES JOB 1 0
`

// limitsOf resolves a job of three slots with these options.
func limitsOf(t *testing.T, complexes, queue string, options ...string) (job.Limits, error) {
	t.Helper()
	files := map[string]string{
		"queues/q": "qname q\nhostlist host\nslots 9\npe_list smp\nshell /bin/sh\n" + queue,
		"pes/smp":  "pe_name smp\nslots 9\n",
	}
	if complexes != "" {
		files["complexes"] = complexes
	}
	dir := t.TempDir()
	for name, text := range files {
		folder, _, ok := strings.Cut(name, "/")
		if ok {
			_ = os.Mkdir(dir+"/"+folder, 0o755)
		}
		if err := os.WriteFile(dir+"/"+name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cluster, err := qconf.Load(os.DirFS(dir), nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := submit.Parse(submit.Input{Args: append(options, "-pe", "smp", "3", "-b", "y", "/bin/true"), Cwd: dir, ReadFile: os.ReadFile})
	if err != nil {
		t.Fatal(err)
	}
	o, err := Resolve(cluster, r, "q", "host")
	if err != nil {
		return job.Limits{}, err
	}
	o.Owner = &userdb.User{Name: "owner", UID: 20001}
	return o.limits(), nil
}

// TestConsumables computes limits from requests for consumables. The expected values of h_vmem were
// observed in a real Grid Engine with the same complexes.
func TestConsumables(t *testing.T) {
	const none = quantity.Infinity
	for sentence, c := range map[string]struct {
		complexes, queue string
		options          []string
		resource         job.Resource
		want             job.Limit
	}{
		"what is not requested is the queue's, per slot": {complexes, "h_vmem 2G\n", nil, job.Vmem, job.Limit{Soft: none, Hard: 2 << 30}},
		"a default is not a limit":                       {complexes, "", nil, job.Vmem, job.Limit{Soft: none, Hard: none}},
		"nor is that of a consumable per slot":           {complexes, "", nil, job.CPU, job.Limit{Soft: none, Hard: none}},
		"a request for a JOB is for all of it":           {complexes, "h_vmem 2G\n", []string{"-l", "h_vmem=1G"}, job.Vmem, job.Limit{Soft: none, Hard: 1 << 30, HardPerJob: true}},
		"by its shortcut, too":                           {complexes, "h_vmem 2G\n", []string{"-l", "hv=1G"}, job.Vmem, job.Limit{Soft: none, Hard: 1 << 30, HardPerJob: true}},
		"as much as the queue has for a slot":            {complexes, "h_vmem 2G\n", []string{"-l", "h_vmem=2G"}, job.Vmem, job.Limit{Soft: none, Hard: 2 << 30, HardPerJob: true}},
		"the soft one for itself":                        {complexes, "h_vmem 2G\n", []string{"-l", "s_vmem=1G"}, job.Vmem, job.Limit{Soft: 1 << 30, Hard: 2 << 30, SoftPerJob: true}},
		"a consumable YES is per slot":                   {complexes, "", []string{"-l", "hc=60"}, job.CPU, job.Limit{Soft: none, Hard: 60}},
		"no consumable":                                  {complexes, "", []string{"-l", "hf=1G"}, job.Fsize, job.Limit{Soft: none, Hard: 1 << 30}},
		"without complexes nothing is a JOB":             {"", "h_vmem 2G\n", []string{"-l", "h_vmem=1G"}, job.Vmem, job.Limit{Soft: none, Hard: 1 << 30}},
		"without complexes there are no shortcuts":       {"", "h_vmem 2G\n", []string{"-l", "hv=1G"}, job.Vmem, job.Limit{Soft: none, Hard: 2 << 30}},
		"a soft request limits nothing":                  {complexes, "h_vmem 2G\n", []string{"-soft", "-l", "hv=1G"}, job.Vmem, job.Limit{Soft: none, Hard: 2 << 30}},
		"another consumable limits nothing":              {complexes, "", []string{"-l", "l=3"}, job.Vmem, job.Limit{Soft: none, Hard: none}},
		"the lower of two requests":                      {complexes, "", []string{"-l", "hc=60,h_cpu=50"}, job.CPU, job.Limit{Soft: none, Hard: 50}},
		"no clock runs for 292 years":                    {"", "", []string{"-l", "h_rt=9223372036"}, job.RT, job.Limit{Soft: none, Hard: none}},
		"one runs for a second less":                     {"", "", []string{"-l", "h_rt=9223372035"}, job.RT, job.Limit{Soft: none, Hard: math.MaxInt64/1000000000 - 1}},
	} {
		t.Run(sentence, func(t *testing.T) {
			l, err := limitsOf(t, c.complexes, c.queue, c.options...)
			if err != nil {
				t.Fatal(err)
			}
			if got := l[c.resource]; got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
	for options, want := range map[string]string{
		"h_vmem=3G": "-l h_vmem=3G: queue q gives its jobs at most h_vmem=2G",
		"hv=3G":     "-l h_vmem=3G: queue q gives its jobs at most h_vmem=2G",
		"hv=lots":   `-l hv=lots, which is h_vmem: "lots" is not a size`,
	} {
		_, err := limitsOf(t, complexes, "h_vmem 2G\n", "-l", options)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v", options, err)
		}
	}
}

// TestMergingLimits checks that the order and repetition of requests do not matter, and that a request
// never raises a limit.
func TestMergingLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.OneOf(rapid.Uint64Range(0, 9), rapid.Uint64Range(0, 1<<62), rapid.Just(quantity.Infinity))
		queue := job.Limit{Soft: value.Draw(t, "soft"), Hard: value.Draw(t, "hard")}
		perJob := map[bool]bool{true: rapid.Bool().Draw(t, "per job"), false: rapid.Bool().Draw(t, "soft per job")}
		var requests []limitRequest
		for range rapid.IntRange(0, 5).Draw(t, "requests") {
			r := limitRequest{submit.LimitRequest{Resource: job.Vmem, Hard: rapid.Bool().Draw(t, "hard"), Value: value.Draw(t, "value")}, false}
			r.perJob = perJob[r.Hard]
			requests = append(requests, r)
		}
		merged := queue
		for _, r := range requests {
			before := merged
			merge(&merged, r)
			if merged.Soft > before.Soft || merged.Hard > before.Hard {
				t.Fatalf("%+v raises %+v to %+v", r, before, merged)
			}
			again := merged
			if merge(&again, r); again != merged {
				t.Fatalf("%+v twice makes %+v of %+v", r, again, merged)
			}
		}
		other := queue
		for _, r := range rapid.Permutation(requests).Draw(t, "order") {
			merge(&other, r)
		}
		if other != merged {
			t.Fatalf("in another order %+v, not %+v", other, merged)
		}
	})
}

func TestUsageInterval(t *testing.T) {
	for params, want := range map[string]time.Duration{
		"none": 0, "PDC_INTERVAL=1": 0, "PDC_INTERVAL=0:5:0": 5 * time.Minute,
		"PDC_INTERVAL=PER_LOAD_REPORT": 77 * time.Second, "PDC_INTERVAL=NEVER": job.NoUsage,
	} {
		c, err := qconf.Load(fstest.MapFS{"conf/global": {Data: []byte("load_report_time 0:1:17\nexecd_params " + params + "\n")}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := usageInterval(c.Config("host")); got != want {
			t.Errorf("%s: %v, expected %v", params, got, want)
		}
	}
}
