package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/execd-project/execd/internal/host/gpu"
	"github.com/execd-project/execd/internal/printer"
	"github.com/execd-project/execd/limits/cgroup"
)

// Report holds the facts about a host, and the results of the checks.
type Report struct {
	Host   *Host
	Checks []Check
}

// New makes the report on a host.
func New(h *Host) *Report { return &Report{Host: h, Checks: Examine(h)} }

// The exit statuses of execd doctor.
const (
	StatusBest    = 0 // everything is enforced by the best means
	StatusMissing = 1 // something cannot be enforced
	StatusWorks   = 3 // everything is enforced, some of it not by the best means
)

// Status returns the exit status for all checks together.
func (r *Report) Status() int {
	status := StatusBest
	for _, c := range r.Checks {
		switch c.State {
		case Missing:
			return StatusMissing
		case Works:
			status = StatusWorks
		}
	}
	return status
}

// Text returns the report for people.
func (r *Report) Text() string {
	var b strings.Builder
	printer.Fprintf(&b, "%s\n\n", r.verdict())
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, f := range r.facts() {
		printer.Fprintf(w, "%s\t%s\n", f.name, f.value)
	}
	printer.Fprintf(w, "\n")
	for _, c := range r.Checks {
		printer.Fprintf(w, "%s\t%s\t%s\n", c.Name, c.State, c.Means)
	}
	_ = w.Flush() // to a strings.Builder
	gaps := r.gaps()
	if len(gaps) > 0 {
		b.WriteString("\nWhat could be better:\n")
	}
	for i, g := range gaps {
		printer.Fprintf(&b, "\n%s\n", strings.Join(g.names, ", "))
		for line := range strings.SplitSeq(g.reason, "\n") {
			printer.Fprintf(&b, "    %s\n", line)
		}
		// Checks with the same remedy are adjacent: the remedy follows the last one.
		if last := i == len(gaps)-1 || gaps[i+1].remedy != g.remedy; last && g.remedy != "" {
			printer.Fprintf(&b, "    => %s\n", g.remedy)
		}
	}
	// Remove the padding after the last column.
	lines := strings.Split(b.String(), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

// verdict summarizes the report in one line.
func (r *Report) verdict() string {
	var missing, works []string
	for _, c := range r.Checks {
		switch c.State {
		case Missing:
			missing = append(missing, c.Name)
		case Works:
			works = append(works, c.Name)
		}
	}
	gaps := ""
	if len(works) > 0 {
		gaps = "gaps in " + strings.Join(works, ", ")
	}
	switch {
	case len(missing) > 0 && gaps != "":
		return "missing: " + strings.Join(missing, ", ") + "; " + gaps
	case len(missing) > 0:
		return "missing: " + strings.Join(missing, ", ")
	case gaps != "":
		return "good, with " + gaps
	}
	return "good: all is enforced by the best means that Linux has"
}

// gap is a limitation that several checks share for the same reason.
type gap struct {
	names          []string
	reason, remedy string
}

func (r *Report) gaps() []*gap {
	var list []*gap
	for _, c := range r.Checks {
		if c.Reason == "" {
			continue
		}
		i := slices.IndexFunc(list, func(g *gap) bool { return g.reason == c.Reason && g.remedy == c.Remedy })
		if i < 0 {
			list = append(list, &gap{nil, c.Reason, c.Remedy})
			i = len(list) - 1
		}
		list[i].names = append(list[i].names, c.Name)
	}
	// Sort by remedy, in the order of their first occurrence; gaps without a remedy come last.
	first := map[string]int{"": len(list)}
	for i, g := range list {
		if _, ok := first[g.remedy]; !ok {
			first[g.remedy] = i
		}
	}
	slices.SortStableFunc(list, func(a, b *gap) int { return cmp.Compare(first[a.remedy], first[b.remedy]) })
	return list
}

type fact struct{ name, value string }

// facts returns the facts on which the checks are based.
func (r *Report) facts() []fact {
	h := r.Host
	list := []fact{{"kernel", h.Kernel}, {"user id", fmt.Sprint(h.UID)}, {"capabilities", listOr(h.Capabilities, "none")}}
	c := h.Cgroups
	list = append(list, fact{"control groups", string(c.Version)})
	if c.Off {
		list = append(list, fact{"", "switched off by the configuration"})
	}
	if c.Err != "" {
		list = append(list, fact{"", c.Err})
	}
	for _, t := range c.Hierarchies {
		kind, where := "v1", "groups of jobs in "+t.Parent
		if t.Unified {
			kind = "v2"
		}
		if t.Parent == "" {
			where = "cannot " + t.Reason
		}
		list = append(list, fact{"  " + t.Mount, kind + " " + listOr(t.Controllers, "without controllers") + "; " + where})
	}
	if len(c.Disabled) > 0 {
		list = append(list, fact{"  disabled at boot", strings.Join(c.Disabled, " ")})
	}
	list = append(list, fact{"systemd", systemdFact(h.Systemd)})
	if g := h.GroupIDs; g.Err != "" {
		list = append(list, fact{"gid_range", g.Err})
	} else if g.Range != "" {
		list = append(list, fact{"gid_range", fmt.Sprintf("%s, %d of %d are free", g.Range, g.Free, g.Total)})
	}
	if h.Topology != "" {
		list = append(list, fact{"cores", fmt.Sprintf("%s, %d processors, %d memory nodes", h.Topology, h.CPUs, h.Nodes)})
	}
	for i, g := range h.GPUs.Discrete() {
		name := "GPUs"
		if i > 0 {
			name = ""
		}
		list = append(list, fact{name, gpuFact(&g)})
	}
	for i := range h.Processes {
		name := "running daemon"
		if i > 0 {
			name = ""
		}
		list = append(list, fact{name, h.Processes[i].fact()})
	}
	var have, lack []string
	for _, k := range r.kernelFeatures() {
		if k.there {
			have = append(have, k.name)
		} else {
			lack = append(lack, k.name)
		}
	}
	list = append(list, fact{"kernel features", listOr(have, "none")})
	if len(lack) > 0 {
		list = append(list, fact{"  missing", strings.Join(lack, " ")})
	}
	return list
}

func gpuFact(g *gpu.GPU) string {
	text := g.Address + " " + cmp.Or(g.Model, string(g.Vendor))
	switch {
	case g.Instance != "":
		return text // the rest is in the line of its GPU
	case g.Divided:
		text += ", in MIG mode"
	}
	if g.NUMA >= 0 {
		text += fmt.Sprintf(", memory node %d", g.NUMA)
	}
	if g.UUID != "" {
		text += ", " + g.UUID
	}
	return text
}

func systemdFact(s Systemd) string {
	switch {
	case !s.Booted:
		return "not process 1"
	case s.Scope != "" && s.Controllers != nil:
		return "process 1; scope in " + s.Scope + " with " + listOr(s.Controllers, "no controllers")
	case s.Scope != "":
		return "process 1; scope in " + s.Scope
	}
	return "process 1; no scope: " + s.Err
}

type kernelFeature struct {
	name  string
	there bool
}

func (r *Report) kernelFeatures() []kernelFeature {
	h := r.Host
	return []kernelFeature{
		{"pidfd", h.Pidfd},
		{"clone-into-cgroup", h.IntoGroup},
		{"cgroup.kill", h.feature(cgroup.Kill).Works},
		{"cgroup-freezer", h.feature(cgroup.Freeze).Works},
		{"memory.peak", h.feature(cgroup.MemoryPeak).Works},
		{"swap-accounting", h.feature(cgroup.SwapLimit).Works},
		{"device-filter", h.feature(cgroup.Devices).Works},
		{"PSI", h.PSI},
		{"/proc/PID/task/TID/children", h.Children},
	}
}

func listOr(list []string, none string) string {
	if len(list) == 0 {
		return none
	}
	return strings.Join(list, " ")
}

// JSON returns the report for programs.
func (r *Report) JSON() ([]byte, error) {
	h := r.Host
	features, kernel := map[string]string{}, map[string]bool{}
	for f := range cgroup.NumFeatures {
		reason := h.feature(f).Reason
		features[f.String()] = reason
	}
	for _, k := range r.kernelFeatures() {
		kernel[k.name] = k.there
	}
	type systemd struct {
		Booted      bool     `json:"booted"`
		Unified     bool     `json:"unified"`
		Scope       string   `json:"scope"`
		Reason      string   `json:"reason"`
		Controllers []string `json:"controllers"`
	}
	type cgroups struct {
		Version     string            `json:"version"`
		Off         bool              `json:"off"`
		Hierarchies []Hierarchy       `json:"hierarchies"`
		Missing     map[string]string `json:"missing"` // features that groups lack, with the reason
	}
	for what, reason := range features {
		if reason == "" {
			delete(features, what)
		}
	}
	return printer.JSON(struct {
		Status       int             `json:"status"`
		Kernel       string          `json:"kernel"`
		UID          int             `json:"uid"`
		Capabilities []string        `json:"capabilities"`
		Cgroups      cgroups         `json:"cgroups"`
		Systemd      systemd         `json:"systemd"`
		GIDRange     string          `json:"gid_range"`
		FreeGIDs     int             `json:"gid_range_free"`
		Features     map[string]bool `json:"kernel_features"`
		GPUs         []gpuJSON       `json:"gpus"`
		Processes    []Process       `json:"processes"`
		Checks       []Check         `json:"checks"`
	}{
		r.Status(), h.Kernel, h.UID, h.Capabilities,
		cgroups{string(h.Cgroups.Version), h.Cgroups.Off, h.Cgroups.Hierarchies, features},
		systemd{h.Systemd.Booted, h.Systemd.Unified, h.Systemd.Scope, h.Systemd.Err, h.Systemd.Controllers},
		h.GroupIDs.Range, h.GroupIDs.Free, kernel, gpusJSON(h.GPUs), append([]Process{}, h.Processes...), r.Checks,
	})
}

type gpuJSON struct {
	Vendor  gpu.Vendor `json:"vendor"`
	Address string     `json:"address"`
	Model   string     `json:"model"`
	UUID    string     `json:"uuid"`
	NUMA    int        `json:"memory_node"` // -1 if unknown
	Problem string     `json:"problem"`
	// Instance says which MIG instance of the GPU at Address it is, "1.0"; empty for a whole GPU.
	Instance string `json:"instance,omitempty"`
}

// gpusJSON returns the GPUs that can be granted to jobs; never nil.
func gpusJSON(v *gpu.Inventory) []gpuJSON {
	list := []gpuJSON{}
	for _, g := range v.Discrete() {
		list = append(list, gpuJSON{g.Vendor, g.Address, g.Model, g.UUID, g.NUMA, g.Problem, g.Instance})
	}
	return list
}
