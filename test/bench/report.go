package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"
)

// report is the result of a run, as text and as JSON.
type report struct {
	Machine     string       `json:"machine"`
	User        string       `json:"user"` // user of the jobs
	Directory   string       `json:"directory"`
	CreateFile  float64      `json:"create_file_us"` // in that directory
	Executables []executable `json:"executables"`
	Lifecycles  []lifecycle  `json:"lifecycles"`
	Footprints  []usage      `json:"footprints"`
	Overruns    []overrun    `json:"overruns"`
	Skipped     []string     `json:"skipped"`
}

type executable struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

type lifecycle struct {
	Name   string  `json:"name"`
	Runs   int     `json:"runs"`
	Median float64 `json:"median_ms"`
	P10    float64 `json:"p10_ms"`
	P90    float64 `json:"p90_ms"`
	CPU    float64 `json:"median_cpu_ms"`
	// Ratio is the median divided by the floor's median.
	Ratio float64 `json:"ratio_to_floor"`
}

// usage is the usage of one of many shepherds: the average, except for sums.
type usage struct {
	Name             string  `json:"name"`
	Jobs             int     `json:"jobs"`
	PSS              int64   `json:"pss_bytes"`
	PrivateDirty     int64   `json:"private_dirty_bytes"`
	RSS              int64   `json:"rss_bytes"`
	Threads          float64 `json:"threads"`
	IdleSeconds      float64 `json:"idle_seconds"`
	TicksSum         int64   `json:"cpu_ticks_of_all"`
	CPUMillisSum     float64 `json:"cpu_ms_of_all"`
	ContextSwitchSum int64   `json:"context_switches_of_all"`
}

func newReport() *report {
	r := &report{Lifecycles: []lifecycle{}, Footprints: []usage{}, Overruns: []overrun{}, Skipped: []string{}}
	var u unix.Utsname
	if err := unix.Uname(&u); err == nil {
		r.Machine = "Linux " + unix.ByteSliceToString(u.Release[:]) + ", "
	}
	r.Machine += fmt.Sprintf("%d processors, %s", runtime.NumCPU(), runtime.Version())
	return r
}

func (r *report) skip(what string, why error) {
	r.Skipped = append(r.Skipped, what+": "+why.Error())
}

func (r *report) executable(name, path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	r.Executables = append(r.Executables, executable{name, info.Size()})
	return nil
}

func (r *report) lifecycle(name string, took []cost) {
	var byClock, cpu []time.Duration
	for _, c := range took {
		byClock, cpu = append(byClock, c.time), append(cpu, c.cpu)
	}
	l := lifecycle{
		Name: name, Runs: len(took), Ratio: 1,
		Median: percentile(50, byClock), P10: percentile(10, byClock), P90: percentile(90, byClock),
		CPU: percentile(50, cpu),
	}
	if len(r.Lifecycles) > 0 {
		l.Ratio = l.Median / r.Lifecycles[0].Median
	}
	r.Lifecycles = append(r.Lifecycles, l)
}

// percentile returns a percentile in milliseconds.
func percentile(p int, d []time.Duration) float64 {
	slices.Sort(d)
	return d[len(d)*p/100].Seconds() * 1e3
}

func (r *report) footprint(name string, n int, idle time.Duration, before, after footprint) {
	each := int64(n)
	r.Footprints = append(r.Footprints, usage{
		Name: name, Jobs: n,
		PSS: after.pss / each, PrivateDirty: after.privateDirty / each, RSS: after.rss / each,
		Threads:          float64(after.threads) / float64(n),
		IdleSeconds:      idle.Seconds(),
		TicksSum:         after.ticks - before.ticks,
		CPUMillisSum:     (after.cpu - before.cpu).Seconds() * 1e3,
		ContextSwitchSum: after.switches - before.switches,
	})
}

func (r *report) print(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(cells ...string) { fmt.Fprintln(t, strings.Join(cells, "\t")+"\t") }
	fmt.Fprintf(w, "%s; jobs of user %s in %s, where a new file takes %.0f us\n", r.Machine, r.User, r.Directory, r.CreateFile)
	if len(r.Lifecycles) > 0 {
		fmt.Fprint(w, "\nOne lifecycle around /bin/true, milliseconds, measured in turns\n")
		row("", "median", "p10", "p90", "of floor", "CPU", "runs")
		for _, l := range r.Lifecycles {
			row(l.Name, ms(l.Median), ms(l.P10), ms(l.P90), fmt.Sprintf("%.1fx", l.Ratio), ms(l.CPU), fmt.Sprint(l.Runs))
		}
		t.Flush()
	}
	if len(r.Footprints) > 0 {
		u := r.Footprints[0]
		fmt.Fprintf(w, "\n%d shepherds at once while their jobs sleep: MB of each; CPU and context switches of all in %.0f s\n", u.Jobs, u.IdleSeconds)
		row("", "PSS", "private dirty", "RSS", "threads", "CPU ticks", "CPU ms", "switches")
		for _, u := range r.Footprints {
			row(u.Name, mb(u.PSS), mb(u.PrivateDirty), mb(u.RSS), fmt.Sprintf("%.1f", u.Threads),
				fmt.Sprint(u.TicksSum), fmt.Sprintf("%.1f", u.CPUMillisSum), fmt.Sprint(u.ContextSwitchSum))
		}
		t.Flush()
	}
	if len(r.Overruns) > 0 {
		fmt.Fprint(w, "\nHow exactly limits are kept\n")
		row("", "by", "median", "p99", "", "goal", "runs")
		for _, o := range r.Overruns {
			row(o.What, o.Means, fmt.Sprintf("%.1f", o.Median), fmt.Sprintf("%.1f", o.P99), o.Unit, o.Goal, fmt.Sprint(o.Runs))
		}
		t.Flush()
	}
	fmt.Fprint(w, "\nSize of the executables, bytes (that of the original without its libraries)\n")
	for _, e := range r.Executables {
		row(e.Name, fmt.Sprint(e.Bytes))
	}
	t.Flush()
	for _, s := range r.Skipped {
		fmt.Fprintf(w, "\nskipped: %s\n", s)
	}
}

func ms(f float64) string { return fmt.Sprintf("%.2f", f) }

func mb(bytes int64) string { return fmt.Sprintf("%.2f", float64(bytes)/1e6) }
