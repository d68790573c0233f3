package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/limits"
	"github.com/execd-project/execd/limits/cgroup"
	"github.com/execd-project/execd/quantity"
)

// overrun is the amount by which jobs exceeded a limit, or the time that their end took.
type overrun struct {
	What   string  `json:"what"`
	Means  string  `json:"means"` // how the limit was enforced: control group or /proc
	Unit   string  `json:"unit"`
	Runs   int     `json:"runs"`
	Median float64 `json:"median"`
	P99    float64 `json:"p99"`
	Goal   string  `json:"goal"`
}

// measurement is one row: a job that exceeds a limit, and the measured value of its end.
type measurement struct {
	what, unit, goal string
	argv             []string // of the payload
	edit             func(d *job.Description)
	runs, atOnce     int
	kill             time.Duration // if not 0: end the job by a request after that time
	of               func(e *end) (float64, error)
}

// end describes a finished job.
type end struct {
	usage *jobdir.Usage
	asked time.Time // when its end was requested
	gone  time.Time // time at which its shepherd, which waits for all its processes, had exited
	beats []byte    // the file of the payload, or nil
}

func hard(r job.Resource, v uint64) func(d *job.Description) {
	return func(d *job.Description) { d.Limits[r] = job.Limit{Soft: quantity.Infinity, Hard: v} }
}

const mib = 1 << 20

// measurements returns the table of docs/performance.md.
func measurements(runs int) []measurement {
	few := max(runs/10, 3)
	return []measurement{
		{
			what: "h_rt=2, beyond it", unit: "ms", goal: "p99 <= 20", argv: []string{"tree", "1"},
			edit: hard(job.RT, 2), runs: runs, atOnce: runs, of: beyond(2),
		},
		{
			what: "h_rt=2 after an s_rt warning at 1, beyond it", unit: "ms", goal: "on time", argv: []string{"tree", "1"},
			edit: func(d *job.Description) {
				d.Limits[job.RT] = job.Limit{Soft: 1, Hard: 2}
				d.SoftRTWarns = true
			},
			runs: few, atOnce: few, of: beyond(2),
		},
		{
			what: "h_cpu=3, 4 busy processes, CPU used over it", unit: "%", goal: "<= 3", argv: []string{"burn", "4"},
			edit: hard(job.CPU, 3), runs: few, atOnce: 1, of: moreCPU(3),
		},
		{
			what: "h_cpu=3, processes of 10 ms each, CPU used over it", unit: "%", goal: "<= 3", argv: []string{"spawn", "2", "10"},
			edit: hard(job.CPU, 3), runs: few, atOnce: 1, of: moreCPU(3),
		},
		{
			what: "h_vmem=200M, 4 processes of 80 MB, ended after crossing it", unit: "ms", goal: "<= 50",
			argv: []string{"hold", "4", "80", "BEATS", "200"}, edit: hard(job.Vmem, 200*mib), runs: few, atOnce: 1, of: sinceCrossing,
		},
		{
			what: "h_vmem=200M, 8 processes of 190 MB, held at most", unit: "MB", goal: "the limit",
			argv: []string{"hold", "8", "190", "BEATS", "200"}, edit: hard(job.Vmem, 200*mib), runs: few, atOnce: 1, of: heldAtMost,
		},
		{
			what: "h_vmem=200M, 8 processes of 190 MB, ended after crossing it", unit: "ms", goal: "<= 50",
			argv: []string{"hold", "8", "190", "BEATS", "200"}, edit: hard(job.Vmem, 200*mib), runs: few, atOnce: 1, of: sinceCrossing,
		},
		{
			what: "h_rss=200M, 300 MB touched, held at most", unit: "MB", goal: "enforced",
			argv: []string{"hold", "1", "300", "BEATS", "200"}, edit: hard(job.RSS, 200*mib), runs: few, atOnce: 1, of: heldAtMost,
		},
		{
			what: "200 processes in sessions of their own, kill to nothing left", unit: "ms", goal: "<= 10",
			argv: []string{"tree", "200"}, edit: func(*job.Description) {}, runs: few, atOnce: 1, kill: 300 * time.Millisecond, of: untilGone,
		},
		{
			what: "a chain of forks through sessions, kill to nothing left", unit: "ms", goal: "<= 200",
			argv: []string{"chain", "setsid"}, edit: func(*job.Description) {}, runs: few, atOnce: 1, kill: 300 * time.Millisecond, of: untilGone,
		},
	}
}

func beyond(seconds float64) func(e *end) (float64, error) {
	return func(e *end) (float64, error) { return (e.usage.Wallclock - seconds) * 1e3, e.limited() }
}

func moreCPU(seconds float64) func(e *end) (float64, error) {
	return func(e *end) (float64, error) { return (e.usage.CPU/seconds - 1) * 100, e.limited() }
}

func (e *end) limited() error {
	if e.usage.Limit == nil {
		return errors.New("the job was not ended by its limit: " + e.usage.Reason)
	}
	return nil
}

func (e *end) word(i int) uint64 { return binary.NativeEndian.Uint64(e.beats[8*i:]) }

// The words of the payload's file: see test/payload.
func heldAtMost(e *end) (float64, error) { return float64(e.word(0)) / mib, e.limited() }

func sinceCrossing(e *end) (float64, error) {
	crossed, last := e.word(1), e.word(2)
	if crossed == 0 {
		return 0, e.limited() // the kernel prevented it
	}
	return float64(last-crossed) / 1e6, e.limited()
}

func untilGone(e *end) (float64, error) { return e.gone.Sub(e.asked).Seconds() * 1e3, nil }

// measureLimits measures each row without a control group, and with one if the machine supports
// that.
func measureLimits(ctx context.Context, r *report, m *maker, dir string, s shepherd, runs int) error {
	payload := filepath.Join(dir, "payload")
	if err := goBuild(ctx, payload, "github.com/execd-project/execd/test/payload"); err != nil {
		return err
	}
	beats := filepath.Join(dir, "beats")
	if err := os.WriteFile(beats, nil, 0o666); err != nil {
		return err
	}
	if err := os.Chmod(beats, 0o666); err != nil {
		return err
	}
	groups, err := openGroups(r)
	if err != nil {
		return err
	}
	defer func() {
		m.groups = nil
		if groups != nil {
			groups.Close()
		}
	}()
	ways := []*cgroup.Manager{nil}
	if groups != nil {
		ways = append(ways, groups)
	}
	for _, row := range measurements(runs) {
		for _, m.groups = range ways {
			means := "/proc"
			if m.groups != nil {
				means = "control group"
			}
			values, err := row.measure(ctx, m, s, payload, beats)
			if err != nil {
				return fmt.Errorf("%s, by %s: %w", row.what, means, err)
			}
			slices.Sort(values)
			r.Overruns = append(r.Overruns, overrun{
				What: row.what, Means: means, Unit: row.unit, Goal: row.goal, Runs: len(values),
				Median: values[len(values)/2], P99: values[min(len(values)-1, len(values)*99/100)],
			})
		}
	}
	return measureWatch(ctx, r, m, s, ways)
}

// measureWatch measures the cost of watching sleeping jobs.
func measureWatch(ctx context.Context, r *report, m *maker, s shepherd, ways []*cgroup.Manager) error {
	// For accounting, a job is measured at growing intervals. The benchmark measures the time after
	// its first minute.
	const jobs, settle, watched = 200, time.Minute, time.Minute
	for _, m.groups = range ways {
		name := s.name + ", all limits, by /proc"
		if m.groups != nil {
			name = s.name + ", all limits, by control group"
		}
		c := command{argv: []string{"/bin/sleep", "3600"}, edit: allLimits}
		if err := measureFootprint(ctx, r, m, shepherd{name, s.argv, s.env}, c, jobs, settle, watched); err != nil {
			return err
		}
	}
	return nil
}

// openGroups returns a manager for groups of jobs; nil if the machine supports none.
func openGroups(r *report) (*cgroup.Manager, error) {
	groups, err := cgroup.Open(cgroup.Config{Name: fmt.Sprintf("execd-bench-%d", os.Getpid()), MoveSelf: true})
	if err != nil {
		return nil, err
	}
	if err := groups.System().Check(cgroup.CPUTime); err != nil {
		r.skip("limits with a control group", err)
		groups.Close()
		return nil, nil //nolint:nilnil // nothing is an answer here
	}
	return groups, nil
}

func (row *measurement) measure(ctx context.Context, m *maker, s shepherd, payload, beats string) ([]float64, error) {
	c := command{argv: []string{payload}, edit: func(d *job.Description) {
		d.VmemLimit = job.VmemMemory // Go maps more memory than it uses
		d.LimitGrace = time.Minute
		row.edit(d)
	}}
	for _, a := range row.argv {
		c.argv = append(c.argv, strings.ReplaceAll(a, "BEATS", beats))
	}
	var values []float64
	for len(values) < row.runs {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := os.Truncate(beats, 0); err != nil {
			return nil, err
		}
		ends, err := row.batch(ctx, m, s, c)
		if err != nil {
			return nil, err
		}
		for _, e := range ends {
			if e.beats, err = os.ReadFile(beats); err != nil {
				return nil, err
			}
			if e.usage == nil {
				return nil, errors.New("a job has left no usage")
			}
			v, err := row.of(e)
			if err != nil {
				return nil, err
			}
			values = append(values, v)
		}
	}
	return values, nil
}

// batch runs the row's number of jobs at once.
func (row *measurement) batch(ctx context.Context, m *maker, s shepherd, c command) (ends []*end, err error) {
	jobs := map[int]*madeJob{}
	defer func() {
		for pid, j := range jobs {
			_ = syscall.Kill(pid, unix.SIGTERM)
			_, waited := waitSince(time.Now(), pid)
			err = errors.Join(err, waited, j.remove())
		}
	}()
	for range row.atOnce {
		j, err := m.make(c)
		if err != nil {
			return nil, err
		}
		pid, err := s.start(j)
		if err != nil {
			return nil, errors.Join(err, j.remove())
		}
		jobs[pid] = j
	}
	asked := map[int]time.Time{}
	if row.kill > 0 {
		if err := pause(ctx, row.kill); err != nil {
			return nil, err
		}
		for pid := range jobs {
			asked[pid] = time.Now()
			if err := syscall.Kill(pid, unix.SIGTSTP); err != nil {
				return nil, err
			}
		}
	}
	for len(jobs) > 0 {
		pid, err := syscall.Wait4(-1, nil, 0, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return nil, err
		}
		j := jobs[pid]
		if j == nil {
			continue
		}
		delete(jobs, pid)
		e := &end{asked: asked[pid], gone: time.Now()}
		e.usage, err = j.dir.Usage()
		if err = errors.Join(err, j.remove()); err != nil {
			return nil, err
		}
		ends = append(ends, e)
	}
	return ends, nil
}

// allLimits sets every limit that is watched, far above the usage.
func allLimits(d *job.Description) {
	d.VmemLimit = job.VmemMemory
	d.Limits[job.RT] = job.Limit{Soft: 3600, Hard: 7200}
	d.Limits[job.CPU] = job.Limit{Soft: 3600, Hard: 7200}
	d.Limits[job.Vmem] = job.Limit{Soft: 900 * mib, Hard: 1000 * mib}
	d.Limits[job.RSS] = job.Limit{Soft: 900 * mib, Hard: 1000 * mib}
}

// groupLimits returns the limits that the kernel enforces for a group.
func groupLimits(d *job.Description) cgroup.Limits {
	value := func(v uint64) uint64 {
		if v == quantity.Infinity {
			return 0
		}
		return v
	}
	wide := limits.OfJob(d)
	return cgroup.Limits{
		Vmem: value(wide.Vmem.Hard), RSS: value(wide.RSS.Hard),
		Counted: !wide.Vmem.None() || !wide.RSS.None(), CPUCounted: !wide.CPU.None(),
	}
}
