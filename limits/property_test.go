package limits

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/quantity"
)

var (
	someValue = rapid.OneOf(
		rapid.Uint64Range(0, 1<<20), rapid.Uint64Range(0, 1<<62), // the largest value of a specifier
		rapid.SampledFrom([]uint64{0, 1, 2, 1 << 33, 1<<33 + 1, 1<<62 - 1, 1 << 62, quantity.Infinity}),
	)
	someSlots = rapid.OneOf(rapid.IntRange(0, 9), rapid.IntRange(0, 9999999))
)

// drawLimits generates the limits of a job. For the limits of execd_params it sets both values of a
// pair or none.
func drawLimits(t *rapid.T) job.Limits {
	var l job.Limits
	for r := range l {
		l[r] = job.Limit{
			Soft: someValue.Draw(t, "soft"), Hard: someValue.Draw(t, "hard"),
			SoftPerJob: rapid.Bool().Draw(t, "soft per job"), HardPerJob: rapid.Bool().Draw(t, "hard per job"),
		}
		if job.Resource(r) >= job.Descriptors && rapid.Bool().Draw(t, "unset") {
			l[r] = job.Limit{Unset: true}
		}
	}
	return l
}

// byResource returns limits of Rlimits by resource.
func byResource(list []Rlimit) map[job.Resource]Rlimit {
	m := map[job.Resource]Rlimit{}
	for _, r := range list {
		m[r.Resource] = r
	}
	return m
}

func TestLimitsOfProcesses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, slots := drawLimits(t), someSlots.Draw(t, "slots")
		d := &job.Description{Limits: l, HostSlots: slots, TerminateMethod: "SIGTERM"}
		d.LimitGrace = rapid.OneOf(rapid.Just(time.Minute), rapid.Just(time.Duration(math.MaxInt64))).Draw(t, "grace")
		one, some, more := byResource(Rlimits(l, 1)), byResource(Rlimits(l, slots)), byResource(Rlimits(l, slots+1))
		process, twice := byResource(OfProcess(d, rapid.IntRange(0, 64).Draw(t, "processors"))), byResource(Rlimits(raised(l), slots))
		for _, rule := range rules {
			r, v := some[rule.resource], l[rule.resource]
			if _, set := some[rule.resource]; set == v.Unset {
				t.Fatalf("%s: set %v, unset %v", rule.name, set, v.Unset)
			}
			if v.Unset {
				continue
			}
			switch p := process[rule.resource]; {
			case r.Soft > r.Hard || p.Soft > p.Hard:
				t.Fatalf("%s: soft %d above hard %d (%+v)", rule.name, r.Soft, r.Hard, p)
			case r.Soft < rule.least && r.Hard != r.Soft || r.Hard < rule.least:
				t.Fatalf("%s: soft %d, hard %d, at least %d", rule.name, r.Soft, r.Hard, rule.least)
			case r.Hard > more[rule.resource].Hard || r.Soft > more[rule.resource].Soft:
				t.Fatalf("%s: a slot more gives less: %+v, %+v", rule.name, r, more[rule.resource])
			case slots <= 1 && r != one[rule.resource]:
				t.Fatalf("%s: %d slots are not one: %+v, %+v", rule.name, slots, r, one[rule.resource])
			case (!rule.perSlot || v.HardPerJob && v.SoftPerJob && rule.jobConsumable) && r != one[rule.resource]:
				t.Fatalf("%s: slots count: %+v, %+v", rule.name, r, one[rule.resource])
			case v.Hard == quantity.Infinity && rule.most == 0 && r.Hard != inf:
				t.Fatalf("%s: INFINITY becomes %d", rule.name, r.Hard)
			case v.Soft == quantity.Infinity && rule.most == 0 && r.Soft != r.Hard:
				t.Fatalf("%s: a soft INFINITY becomes %d", rule.name, r.Soft)
			case twice[rule.resource].Hard < r.Hard || twice[rule.resource].Soft < r.Soft:
				t.Fatalf("%s: higher limits give less: %+v, %+v", rule.name, r, twice[rule.resource])
			case rule.resource == job.CPU && p.Hard < r.Hard:
				t.Fatalf("the fence %d is before h_cpu %d", p.Hard, r.Hard)
			case rule.resource == job.CPU && p.Hard != inf && p.Hard > 18446744073:
				t.Fatalf("the kernel cannot count to %d s", p.Hard)
			}
		}
	})
}

// raised returns limits none of which is below that of l.
func raised(l job.Limits) job.Limits {
	for r := range l {
		for _, v := range []*uint64{&l[r].Soft, &l[r].Hard} {
			if *v != quantity.Infinity && !l[r].Unset {
				*v += *v/2 + 1
			}
		}
	}
	return l
}

func TestLimitsOfWholeJobs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := &job.Description{Limits: drawLimits(t), HostSlots: someSlots.Draw(t, "slots")}
		more := *d
		more.HostSlots++
		w, m := OfJob(d), OfJob(&more)
		for name, b := range map[string]struct {
			got, more Bounds
			limit     job.Limit
		}{"cpu": {w.CPU, m.CPU, d.Limits[job.CPU]}, "vmem": {w.Vmem, m.Vmem, d.Limits[job.Vmem]}, "rss": {w.RSS, m.RSS, d.Limits[job.RSS]}} {
			switch {
			case b.got.Soft != quantity.Infinity && b.got.Soft >= b.got.Hard:
				t.Fatalf("%s: warned at %d, ended at %d", name, b.got.Soft, b.got.Hard)
			case b.got.Hard > b.more.Hard:
				t.Fatalf("%s: a slot more gives less: %+v, %+v", name, b.got, b.more)
			case b.limit.Hard == quantity.Infinity && b.got.Hard != quantity.Infinity:
				t.Fatalf("%s: INFINITY becomes %d", name, b.got.Hard)
			case b.limit.HardPerJob && b.got.Hard != b.more.Hard:
				t.Fatalf("%s: the slots count for a consumable JOB: %+v, %+v", name, b.got, b.more)
			case b.limit.Hard >= 1<<40 && d.HostSlots > 1<<23 && !b.limit.HardPerJob && b.got.Hard < b.limit.Hard:
				t.Fatalf("%s: %d times %d is %d", name, b.limit.Hard, d.HostSlots, b.got.Hard)
			}
		}
	})
}
