package starter

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/limits"
)

// TestToldWhatIsNew checks that the usage is written if it has changed enough, and not for a job that
// sleeps.
func TestToldWhatIsNew(t *testing.T) {
	const mib = 1 << 20
	start := time.Unix(1_700_000_000, 0)
	first := limits.Sample{At: start.Add(2 * time.Second), CPU: 5 * time.Millisecond, RSS: 8 * mib}
	for name, c := range map[string]struct {
		then func(s *limits.Sample)
		told bool
	}{
		"nothing has changed":                   {func(*limits.Sample) {}, false},
		"less than a tick of CPU time":          {func(s *limits.Sample) { s.CPU += 9 * time.Millisecond }, false},
		"a tick of CPU time":                    {func(s *limits.Sample) { s.CPU += 10 * time.Millisecond }, true},
		"more memory":                           {func(s *limits.Sample) { s.RSS += 4096 }, true},
		"less memory":                           {func(s *limits.Sample) { s.RSS -= 4096 }, true},
		"memory that has gone to swap":          {func(s *limits.Sample) { s.RSS -= mib; s.Swap += mib }, false},
		"news within a second of the last time": {func(s *limits.Sample) { s.CPU += time.Second; s.At = first.At.Add(time.Second / 2) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTeller(t, start)
			s.tell(first)
			before := s.online()
			if before == nil || before.CPU != 0.005 || before.Vmem != 8*mib || before.Wallclock != 2 {
				t.Fatalf("at first there is %+v", before)
			}
			next := first
			next.At = first.At.Add(time.Hour)
			c.then(&next)
			s.tell(next)
			if after := s.online(); (*after != *before) != c.told {
				t.Errorf("got %+v behind %+v, expected news: %v", *after, *before, c.told)
			}
		})
	}
	t.Run("what was used at most between two times", func(t *testing.T) {
		s := newTeller(t, start)
		s.tell(first)
		peak, low := first, first
		peak.At, peak.RSS = first.At.Add(time.Second/2), 100*mib
		s.tell(peak)
		low.At = first.At.Add(time.Minute)
		s.tell(low)
		if o := s.online(); o.MaxVmem != 100*mib || o.Vmem != 8*mib || o.MaxRSS != 100*mib || o.RSS != 8*mib {
			t.Errorf("got %+v", *o)
		}
	})
	t.Run("ticks that add up", func(t *testing.T) {
		s := newTeller(t, start)
		next := first
		for range 5 {
			s.tell(next)
			next.CPU += 4 * time.Millisecond
			next.At = next.At.Add(time.Minute)
		}
		if o := s.online(); o.CPU != 0.017 { // 5, 9 and 13 are one value, 17 is new, 21 is not
			t.Errorf("got %v s of CPU time", o.CPU)
		}
	})
	t.Run("nothing in the first second", func(t *testing.T) {
		s := newTeller(t, start)
		early := first
		early.At = start.Add(time.Second / 2)
		s.tell(early)
		if o := s.online(); o != nil {
			t.Errorf("got %+v", *o)
		}
	})
}

// teller is a supervisor with only a job directory.
type teller struct {
	*testing.T
	s *Shepherd
}

func newTeller(t *testing.T, start time.Time) *teller {
	t.Helper()
	dir, err := jobdir.OpenDir(t.TempDir(), os.Getuid())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dir.Close() })
	s := &Shepherd{dir: dir, d: &job.Description{}, active: &running{start: start}, io: ioFiles{-1, -1}}
	s.meter = &meter{s: s}
	return &teller{t, s}
}

// tell performs the part of a look that is tested here.
func (w *teller) tell(sample limits.Sample) {
	w.s.account.Add(sample)
	w.s.tellOnline(&sample)
}

func (w *teller) online() *jobdir.Online {
	w.Helper()
	o, err := w.s.dir.Online()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.Fatal(err)
	}
	return o
}

// TestOwnCPU checks that time in which this process does not run does not count.
func TestOwnCPU(t *testing.T) {
	const wait = 500 * time.Millisecond
	before := ownCPU()
	if err := exec.CommandContext(t.Context(), "sleep", "0.5").Run(); err != nil {
		t.Fatal(err)
	}
	if used := ownCPU() - before; used > wait/2 {
		t.Errorf("the process has used %s while it waited for %s", used, wait)
	}
	for before := ownCPU(); ownCPU()-before < 10*time.Millisecond; { // ends only if used CPU time counts
	}
}
