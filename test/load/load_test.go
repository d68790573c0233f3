// Package load compares the load report for this host with that of a real sge_execd.
package load

import (
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/limits/topology"
	"github.com/execd-project/execd/loadsensor/builtin"
	"github.com/execd-project/execd/test/gridengine"
)

// ours lists the values that the original lacks.
var ours = []string{
	builtin.MemAvailable, builtin.PressureCPUSome, builtin.PressureMemorySome, builtin.PressureMemoryFull,
	builtin.PressureIOSome, builtin.PressureIOFull, builtin.TmpDirFree, builtin.TmpDirTotal,
}

// TestBuiltinValues checks that both report the same names, each in the same format, and the same
// numbers for values that do not change.
func TestBuiltinValues(t *testing.T) {
	testenv.Require(t, testenv.Root, testenv.GridEngine)
	cell := gridengine.Start(t, gridengine.Config{Conf: map[string]string{"load_report_time": "00:00:01"}})
	reader := builtin.New(builtin.Options{Processors: processors})
	defer reader.Close()

	var theirs map[string]string
	if err := cell.Poll(time.Minute, "the host has reported its load", func() (bool, error) {
		text, err := cell.Root("qconf", "-se", cell.Host)
		theirs = loadValues(text)
		return theirs["np_load_avg"] != "" && theirs["cpu"] != "", err
	}); err != nil {
		t.Fatal(err)
	}
	values, missing := reader.Read()
	for _, m := range missing {
		if !slices.Contains(ours, m.Name) {
			t.Errorf("%s is missing: %s", m.Name, m.Reason)
		}
	}
	have := map[string]string{}
	for _, v := range values {
		if slices.Contains(ours, v.Name) {
			if _, ok := theirs[v.Name]; ok {
				t.Errorf("the original has %s, too", v.Name)
			}
			continue
		}
		have[v.Name] = v.Text
	}
	if diff := cmp.Diff(shapes(theirs), shapes(have)); diff != "" {
		t.Errorf("names and formats (-sge_execd +execd)\n%s", diff)
	}
	for _, v := range values {
		// Swap space does not change during the test.
		if text, ok := theirs[v.Name]; ok && v.Static && text != v.Text {
			t.Errorf("%s: sge_execd %s, execd %s", v.Name, text, v.Text)
		}
	}
	// Values that change have changed little within the second or two between both readings: memory
	// by less than a tenth of the total, the longest load average by less than a few processes. The
	// test repeats this, since other programs also use this host.
	total := number(t, have["mem_total"])
	var apart []string
	err := cell.Poll(3*time.Minute, "sge_execd and execd agree", func() (bool, error) {
		text, err := cell.Root("qconf", "-se", cell.Host)
		if err != nil {
			return false, err
		}
		theirs, apart = loadValues(text), nil
		values, _ := reader.Read()
		for _, v := range values {
			have[v.Name] = v.Text
		}
		for name, within := range map[string]float64{
			"mem_free": total / 10, "mem_used": total / 10, "swap_free": total / 10, "swap_used": total / 10,
			"virtual_free": total / 10, "virtual_used": total / 10, "load_long": 3, "np_load_long": 3,
		} {
			if math.Abs(number(t, theirs[name])-number(t, have[name])) > within {
				apart = append(apart, name+": sge_execd "+theirs[name]+", execd "+have[name])
			}
		}
		return len(apart) == 0, nil
	})
	if err != nil {
		t.Errorf("%v: %s", err, strings.Join(apart, "; "))
	}
	if have["m_topology_inuse"] != theirs["m_topology_inuse"] {
		t.Errorf("m_topology_inuse: sge_execd %s, execd %s", theirs["m_topology_inuse"], have["m_topology_inuse"])
	}
}

// processors returns the data that an agent supplies while no job is bound.
func processors() (builtin.Processors, error) {
	top, err := topology.Read(os.ReadFile, topology.Allowed{})
	if err != nil {
		return builtin.Processors{}, err
	}
	shape := top.Shape().String()
	return builtin.Processors{
		Sockets: top.NumSockets(), Cores: top.NumCores(), Threads: top.NumThreads(), Topology: shape, InUse: shape,
	}, nil
}

// loadValues returns the output of qconf -se, which contains the values as they were reported;
// qhost(1) would round them.
func loadValues(host string) map[string]string {
	values := map[string]string{}
	for line := range strings.Lines(host) {
		list, ok := strings.CutPrefix(line, "load_values")
		if !ok {
			continue
		}
		for setting := range strings.SplitSeq(strings.TrimSpace(list), ",") {
			if name, value, ok := strings.Cut(setting, "="); ok {
				values[name] = value
			}
		}
	}
	return values
}

var digits = regexp.MustCompile(`[0-9]+`)

// shapes replaces numbers: "12.345678M" becomes "N.6M", with the number of decimals.
func shapes(values map[string]string) map[string]string {
	out := map[string]string{}
	for name, text := range values {
		whole, decimals, _ := strings.Cut(text, ".")
		if strings.Trim(whole, "0123456789") != "" {
			out[name] = "text"
			continue
		}
		out[name] = "N"
		if d := digits.FindString(decimals); d != "" {
			out[name] += "." + strconv.Itoa(len(d)) + strings.TrimPrefix(decimals, d)
		}
	}
	return out
}

func number(t *testing.T, text string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(strings.TrimSuffix(text, "M"), 64)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return v
}
