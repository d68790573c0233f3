package limits

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/execd-project/execd/quantity"
)

var began = time.Unix(1_000_000, 0)

// none returns the limits of a job without limits.
func none() JobWide {
	inf := Bounds{quantity.Infinity, quantity.Infinity}
	return JobWide{CPU: inf, Vmem: inf, RSS: inf}
}

func random(r *rand.Rand, least, most uint64) Bounds {
	b := Bounds{quantity.Infinity, quantity.Infinity}
	if r.IntN(3) > 0 {
		b.Hard = least + r.Uint64N(most)
	}
	if r.IntN(2) > 0 {
		b.Soft = least + r.Uint64N(most)
	}
	if b.Soft >= b.Hard {
		b.Soft = quantity.Infinity
	}
	return b
}

// TestWatchProperty checks that a job that uses resources at any speed that the host allows is killed
// neither early nor late, and is warned once per crossing.
func TestWatchProperty(t *testing.T) {
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 1))
		n := 1 + r.IntN(64)
		l := JobWide{
			CPU:  random(r, 2, 5000),
			Vmem: random(r, 10<<20, 64<<30),
			RSS:  random(r, 10<<20, 64<<30),
		}
		host := Host{Processors: n, Vmem: r.IntN(3) == 0, RSS: r.IntN(3) == 0}
		w := NewWatch(l, host, began)
		now := began
		var cpu, rss float64
		warnedCPU, above := false, false
		for range 5000 {
			next := w.Next()
			if !next.After(now) {
				t.Fatalf("seed %d: the next look at %v is not after this one at %v", seed, next, now)
			}
			in := next.Sub(now)
			now = next
			// The usage until then is nothing, a part, or all that is possible.
			share := [...]float64{0, r.Float64(), 1}[r.IntN(3)]
			cpu += share * in.Seconds() * float64(n)
			fill := share * in.Seconds() * fastest * float64(min(n, mostFilling))
			if r.IntN(5) == 0 {
				rss *= r.Float64()
			} else {
				rss += fill
			}
			if host.Vmem {
				rss = min(rss, float64(l.Vmem.Hard))
			}
			if host.RSS {
				rss = min(rss, float64(l.RSS.Hard))
			}
			s := Sample{At: now, CPU: time.Duration(cpu * float64(time.Second)), RSS: uint64(rss)}
			warn, end := w.Look(s)
			for _, c := range warn {
				switch c.Limit {
				case "s_cpu":
					if warnedCPU {
						t.Fatalf("seed %d: warned of s_cpu twice", seed)
					}
					warnedCPU = true
				case "s_vmem":
					if above {
						t.Fatalf("seed %d: warned of s_vmem twice in one crossing", seed)
					}
					above = true
				}
				if c.Measured <= c.Value {
					t.Fatalf("seed %d: warned below the limit: %+v", seed, c)
				}
			}
			if rss < rearm*float64(l.Vmem.Soft) {
				above = false
			}
			hardCPU := over(l.CPU.Hard, s.CPU.Seconds())
			hardVmem := !host.Vmem && over(l.Vmem.Hard, float64(s.RSS))
			hardRSS := !host.RSS && over(l.RSS.Hard, float64(s.RSS))
			if (end != nil) != (hardCPU || hardVmem || hardRSS) {
				t.Fatalf("seed %d: end %+v, sample %+v, limits %+v", seed, end, s, l)
			}
			if !warnedCPU && over(l.CPU.Soft, s.CPU.Seconds()) {
				t.Fatalf("seed %d: not warned of s_cpu", seed)
			}
			if end == nil {
				continue
			}
			// The possible delay, from the shortest intervals between two samples.
			var late float64
			switch end.Limit {
			case "h_cpu":
				late = max(0.005*end.Value, float64(n)*shortestCPU.Seconds()) + 1e-3
			default:
				late = fastest * float64(min(n, mostFilling)) * longestPrompt.Seconds()
			}
			if end.Measured-end.Value > late*1.001 {
				t.Fatalf("seed %d: %s ends at %v, %v over the limit; at most %v are allowed", seed, end.Limit, end.Measured, end.Measured-end.Value, late)
			}
			break
		}
	}
}

// TestWatchIsCheap checks that distant limits and idle jobs need very few samples.
func TestWatchIsCheap(t *testing.T) {
	day := none()
	day.CPU.Hard = 24 * 3600
	warned := none()
	warned.Vmem = Bounds{900 << 20, 1 << 30}
	for name, c := range map[string]struct {
		limits JobWide
		host   Host
		most   int // samples in the first hour
	}{
		"without limits":                  {none(), Host{Processors: 2}, 40},
		"a day of CPU time":               {day, Host{Processors: 2}, 40},
		"s_vmem, h_vmem by the kernel":    {warned, Host{Processors: 2, Vmem: true}, 480},
		"s_vmem and h_vmem without group": {warned, Host{Processors: 2}, 120_000},
	} {
		w := NewWatch(c.limits, c.host, began)
		n := 0
		for ; w.Next().Before(began.Add(time.Hour)); n++ {
			if warn, end := w.Look(Sample{At: w.Next(), RSS: 1 << 20}); len(warn) > 0 || end != nil {
				t.Fatalf("%s: a sleeping job is warned or ended", name)
			}
		}
		if n > c.most {
			t.Errorf("%s: %d looks at a sleeping job in an hour; at most %d are allowed", name, n, c.most)
		}
	}
}

// TestWatchSeesWork checks that a working job is sampled each minute, however long it has run. A job
// that starts to work again is noticed with the next sample.
func TestWatchSeesWork(t *testing.T) {
	w := NewWatch(none(), Host{Processors: 2}, began)
	look := func(cpu time.Duration) time.Duration {
		at := w.Next()
		w.Look(Sample{At: at, CPU: w.last.CPU + cpu})
		return w.Next().Sub(at)
	}
	for w.Next().Before(began.Add(time.Hour)) {
		look(0)
	}
	if d := look(0); d != 2*time.Minute {
		t.Errorf("a job that has done nothing for an hour is looked at behind %v", d)
	}
	if d := look(time.Second); d != time.Minute {
		t.Errorf("one that works again behind %v", d)
	}
}

func TestWatchNamesTheLimit(t *testing.T) {
	l := none()
	l.CPU = Bounds{2, 3}
	w := NewWatch(l, Host{Processors: 1}, began)
	warn, end := w.Look(Sample{At: began.Add(2 * time.Second), CPU: 2100 * time.Millisecond})
	if len(warn) != 1 || warn[0].Limit != "s_cpu" || warn[0].Value != 2 || warn[0].Measured != 2.1 || end != nil {
		t.Errorf("at 2.1 s: %+v, %+v", warn, end)
	}
	warn, end = w.Look(Sample{At: began.Add(3 * time.Second), CPU: 3004 * time.Millisecond})
	if len(warn) != 0 || end == nil || end.Limit != "h_cpu" || end.Value != 3 || end.Measured != 3.004 {
		t.Errorf("at 3.004 s: %+v, %+v", warn, end)
	}
}

func TestAccount(t *testing.T) {
	var a Account
	at := func(seconds int, cpu time.Duration, rss uint64) Sample {
		return Sample{At: began.Add(time.Duration(seconds) * time.Second), CPU: cpu, RSS: rss}
	}
	a.Add(at(1, 1*time.Second, 1<<30)) // 1 GiB s: it held the memory during the whole second
	a.Add(at(9, 1*time.Second, 3<<30)) // nothing: it used no CPU time
	a.Add(at(10, 2*time.Second, 1<<30))
	if a.Mem != 3 || a.MaxVmem != 3<<30 {
		t.Errorf("mem %v, maxvmem %v; want 3 and 3 GiB", a.Mem, a.MaxVmem)
	}
	a.End(at(11, 4*time.Second, 0), 2<<30)
	if a.Mem != 5 || a.MaxVmem != 3<<30 {
		t.Errorf("at the end mem %v, maxvmem %v; want 5 and 3 GiB", a.Mem, a.MaxVmem)
	}
	var short Account
	short.End(at(1, time.Second, 0), 1<<30)
	if short.Mem != 1 || short.MaxVmem != 1<<30 {
		t.Errorf("a job that was never looked at: mem %v, maxvmem %v; want 1 and 1 GiB", short.Mem, short.MaxVmem)
	}
}

// TestUsageInterval checks that measurements for accounting alone are no more frequent than requested,
// and that limits are watched in any case.
func TestUsageInterval(t *testing.T) {
	for interval, want := range map[time.Duration]time.Duration{0: shortestUsage, 10 * time.Minute: 10 * time.Minute} {
		w := NewWatch(none(), Host{UsageInterval: interval}, began)
		if got := w.Next().Sub(began); got != want {
			t.Errorf("interval %v: the first look after %v, expected %v", interval, got, want)
		}
		l := none()
		l.CPU.Hard = 20
		w = NewWatch(l, Host{UsageInterval: interval}, began)
		w.Look(Sample{At: began.Add(15 * time.Second), CPU: 15 * time.Second})
		if got := w.Next().Sub(began); got > 20*time.Second {
			t.Errorf("interval %v: a job near h_cpu is looked at after %v", interval, got)
		}
	}
}
