package diagram

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A cluster as the recorded case has it: two queue instances of three slots, four
// licences, and a parallel environment of 100 slots that fills up.
var (
	instances  = []string{"Q:all.q@n1:slots", "Q:all.q@n2:slots"}
	capacities = map[string]float64{"Q:all.q@n1:slots": 3, "Q:all.q@n2:slots": 3, "G:global:lic": 4, "P:fill:slots": 100}
)

// pending are its jobs in the order of dispatch. All are known to last as long as they
// say and DURATION_OFFSET=10.
var pending = []struct {
	id       int
	reserve  bool
	slots    int // of the parallel environment, 0 for none
	lic      float64
	duration int64
}{
	{3, true, 5, 0, 310},
	{4, true, 0, 4, 310},
	{5, true, 6, 0, 70},
	{6, false, 0, 0, 70},
	{7, false, 0, 0, 510},
	{8, false, 0, 0, 1210},
	{9, false, 0, 1, 60},
	{10, false, 0, 1, 310},
	{11, false, 0, 0, 90},
}

const maxReservation = 2

// cluster plans the jobs with nothing but diagrams.
type cluster struct {
	t        *testing.T
	diagrams map[string]*Diagram
	lines    []string
}

func (c *cluster) book(job int, state string, at, duration int64, resource string, amount float64) {
	must(c.t, c.diagrams[resource].Add(one(at, End(at, duration), amount)))
	object := strings.SplitAfterN(resource, ":", 2)
	c.lines = append(c.lines, fmt.Sprintf("%d:1:%s:%d:%d:%s%s:%.6f", job, state, at, duration, object[0], object[1], amount))
}

// free returns the number of slots of an instance that a job can have.
func (c *cluster) free(instance string, at, duration int64) int {
	return int(c.diagrams[instance].Max(at, End(at, duration)).Left(capacities[instance]))
}

func TestGoldenReservation(t *testing.T) {
	text, err := os.ReadFile("testdata/18-reservation/schedule-first-run.txt")
	must(t, err)
	want := slices.DeleteFunc(strings.Fields(string(text)), func(line string) bool { return strings.HasPrefix(line, "::") })
	c := &cluster{t: t, diagrams: map[string]*Diagram{}}
	for resource := range capacities {
		c.diagrams[resource] = &Diagram{}
	}
	var now int64
	for _, line := range want {
		f := strings.Split(line, ":")
		start, err1 := strconv.ParseInt(f[3], 10, 64)
		duration, err2 := strconv.ParseInt(f[4], 10, 64)
		amount, err3 := strconv.ParseFloat(f[8], 64)
		if err1 != nil || err2 != nil || err3 != nil {
			t.Fatalf("%q", line)
		}
		if f[2] == "STARTING" {
			now = start
		}
		if f[2] == "RUNNING" {
			c.book(1, "", start, duration, strings.Join(f[5:8], ":"), amount)
			c.lines[len(c.lines)-1] = line
		}
	}
	reservations := 0
	for _, job := range pending {
		if job.slots > 0 {
			plan, at := c.parallel(now, job.slots, job.duration)
			if at != now && (!job.reserve || reservations == maxReservation) {
				continue
			}
			reservations++
			c.book(job.id, "RESERVING", at, job.duration, "P:fill:slots", float64(job.slots))
			for i, n := range plan {
				c.book(job.id, "RESERVING", at, job.duration, instances[i], float64(n))
			}
			continue
		}
		where, at, state := c.serial(now, job.lic, job.duration)
		if at != now {
			if !job.reserve || reservations == maxReservation {
				continue
			}
			reservations++
			state = "RESERVING"
		}
		if job.lic > 0 {
			c.book(job.id, state, at, job.duration, "G:global:lic", job.lic)
		}
		c.book(job.id, state, at, job.duration, where, 1)
	}
	if diff := cmp.Diff(want, c.lines); diff != "" {
		t.Errorf("schedule (-Grid Engine +ours)\n%s", diff)
	}
}

// parallel looks for the start of a parallel job, from the last event backwards.
func (c *cluster) parallel(now int64, slots int, duration int64) (plan [2]int, at int64) {
	all := []*Diagram{c.diagrams["P:fill:slots"], c.diagrams[instances[0]], c.diagrams[instances[1]]}
	try := append(slices.Collect(Events(now, slices.Values(all))), now)
	at = Forever
	for _, candidate := range try {
		var p [2]int
		got := 0
		for i, name := range instances {
			p[i] = min(slots-got, c.free(name, candidate, duration))
			got += p[i]
		}
		if got < slots || !all[0].Fits(100, Booking{candidate, End(candidate, duration), slots, 1}) {
			break
		}
		plan, at = p, candidate
	}
	return plan, at
}

// serial looks for an instance in which a job can start now, else for the one in
// which it can start first.
func (c *cluster) serial(now int64, lic float64, duration int64) (where string, at int64, state string) {
	global := c.diagrams["G:global:lic"]
	for _, name := range instances {
		if global.Fits(4, one(now, End(now, duration), lic)) && c.diagrams[name].Fits(3, one(now, End(now, duration), 1)) {
			return name, now, "STARTING"
		}
	}
	at = Forever
	for _, name := range instances {
		if t := max(global.Earliest(4, now, 1, lic), c.diagrams[name].Earliest(3, now, 1, 1)); t < at {
			where, at = name, t
		}
	}
	return where, at, ""
}

// TestCalendar checks that a queue that a calendar will close accepts only jobs that finish before.
func TestCalendar(t *testing.T) {
	var slots Diagram
	must(t, slots.Add(one(0, 50, 2)))               // a job that runs
	must(t, slots.Add(Booking{100, 200, 4, 1}))     // closed
	must(t, slots.Add(Booking{300, Forever, 4, 1})) // and then for good
	if !slots.Fits(4, one(10, 100, 2)) || slots.Fits(4, one(10, 101, 1)) || slots.Fits(4, one(10, 100, 3)) {
		t.Error("what fits until it closes")
	}
	if at := slots.Earliest(4, 10, 1, 1); at != Forever {
		t.Errorf("can start at %d", at)
	}
	must(t, slots.Remove(Booking{300, Forever, 4, 1}))
	if at := slots.Earliest(4, 10, 1, 1); at != 200 {
		t.Errorf("can start at %d", at)
	}
}
