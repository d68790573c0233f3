package limits

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/quantity"
)

const inf = unix.RLIM_INFINITY

func find(t *testing.T, list []Rlimit, r job.Resource) Rlimit {
	t.Helper()
	for _, rl := range list {
		if rl.Resource == r {
			return rl
		}
	}
	t.Fatalf("no limit for %v", r)
	return Rlimit{}
}

// TestRlimits computes limits and compares them with those observed in processes of real Grid
// Engine jobs.
func TestRlimits(t *testing.T) {
	for name, c := range map[string]struct {
		resource   job.Resource
		limit      job.Limit
		slots      int
		soft, hard uint64
	}{
		"vmem is per slot":                        {job.Vmem, job.Limit{Soft: quantity.Infinity, Hard: 2 << 30}, 3, 6 << 30, 6 << 30},
		"cpu is per slot":                         {job.CPU, job.Limit{Soft: 50, Hard: 100}, 3, 150, 300},
		"stack is per slot":                       {job.Stack, job.Limit{Soft: quantity.Infinity, Hard: 20 << 20}, 3, 60 << 20, 60 << 20},
		"fsize is not":                            {job.Fsize, job.Limit{Soft: quantity.Infinity, Hard: 1 << 30}, 3, 1 << 30, 1 << 30},
		"least vmem":                              {job.Vmem, job.Limit{Soft: 1 << 20, Hard: 1 << 20}, 1, 10485760, 10485760},
		"least cpu":                               {job.CPU, job.Limit{Soft: 1, Hard: 1}, 1, 2, 2},
		"least stack":                             {job.Stack, job.Limit{Soft: 1, Hard: 1024}, 1, 1 << 20, 1 << 20},
		"least fsize":                             {job.Fsize, job.Limit{Soft: 10, Hard: 10}, 1, 15360, 15360},
		"core may be nothing":                     {job.Core, job.Limit{Soft: quantity.Infinity, Hard: 0}, 1, 0, 0},
		"descriptors are clamped, then per slot":  {job.Descriptors, job.Limit{Soft: 50, Hard: 50}, 2, 200, 200},
		"a consumable JOB is for the whole job":   {job.Vmem, job.Limit{Soft: quantity.Infinity, Hard: 2 << 30, HardPerJob: true}, 3, 2 << 30, 2 << 30},
		"one half of a consumable JOB":            {job.CPU, job.Limit{Soft: 10, Hard: 100, HardPerJob: true}, 3, 30, 100},
		"no limit stays none":                     {job.Vmem, job.Limit{Soft: quantity.Infinity, Hard: quantity.Infinity}, 64, inf, inf},
		"an overflow is not a limit":              {job.Vmem, job.Limit{Soft: 1 << 62, Hard: 1 << 62}, 1000, inf, inf},
		"no process lives that long":              {job.CPU, job.Limit{Soft: 60, Hard: 18446744074}, 1, 60, inf},
		"nor do many slots":                       {job.CPU, job.Limit{Soft: 60, Hard: 1 << 32}, 4, 240, inf},
		"no slots count as one":                   {job.Vmem, job.Limit{Soft: 1 << 30, Hard: 1 << 30}, 0, 1 << 30, 1 << 30},
		"soft above hard is lowered":              {job.Data, job.Limit{Soft: 2 << 30, Hard: 1 << 30}, 1, 1 << 30, 1 << 30},
		"rss is set though Linux does not use it": {job.RSS, job.Limit{Soft: quantity.Infinity, Hard: 300 << 20}, 2, 300 << 20, 300 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			l := job.Unlimited()
			l[c.resource] = c.limit
			got := find(t, Rlimits(l, c.slots), c.resource)
			if got.Soft != c.soft || got.Hard != c.hard {
				t.Errorf("soft %d hard %d, want soft %d hard %d", got.Soft, got.Hard, c.soft, c.hard)
			}
		})
	}
}

func TestUnsetLimitsAreLeftAlone(t *testing.T) {
	for _, rl := range Rlimits(job.Unlimited(), 1) {
		switch rl.Resource {
		case job.Descriptors, job.MaxProc, job.MemoryLocked, job.Locks:
			t.Errorf("%s is set though nothing was said about it", rl.Name)
		}
	}
}

func TestAttain(t *testing.T) {
	const name = "RLIMIT_AS"
	for sentence, c := range map[string]struct {
		soft, hard, current, most uint64
		wantSoft, wantHard        uint64
		warning                   string
	}{
		"what may be set is set":          {200, 300, 100, 300, 200, 300, ""},
		"a lower limit":                   {200, 300, inf, inf, 200, 300, ""},
		"it stays where it is":            {200, 300, 150, 150, 150, 150, "cannot raise RLIMIT_AS from 150 to 300; it stays at 150"},
		"between soft and hard":           {200, 300, 250, 250, 200, 250, "cannot raise RLIMIT_AS from 250 to 300; it stays at 250"},
		"as near as it can":               {200, 300, 100, 280, 200, 280, "cannot raise RLIMIT_AS from 100 to 300; it is raised to 280"},
		"no limit is more than any limit": {inf, inf, 100, 100, 100, 100, "cannot raise RLIMIT_AS from 100 to INFINITY; it stays at 100"},
	} {
		t.Run(sentence, func(t *testing.T) {
			r := Rlimit{job.Vmem, unix.RLIMIT_AS, name, c.soft, c.hard}
			got, warning := r.Attain(unix.Rlimit{Cur: 100, Max: c.current}, c.most)
			if got.Soft != c.wantSoft || got.Hard != c.wantHard || warning != c.warning {
				t.Errorf("soft %d, hard %d, %q", got.Soft, got.Hard, warning)
			}
		})
	}
}
