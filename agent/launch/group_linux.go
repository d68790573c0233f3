package launch

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/agent/scope"
	"github.com/execd-project/execd/internal/failpoint"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/limits"
	"github.com/execd-project/execd/limits/binding"
	"github.com/execd-project/execd/limits/cgroup"
	"github.com/execd-project/execd/limits/group"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/quantity"
)

// groupPatience is the time limit for the end of the remaining processes in a job's group.
// Processes that take longer are in uninterruptible sleep, and may stay forever.
const groupPatience = 10 * time.Second

// Groups makes the control groups of all jobs that this process starts. Make one with OpenGroups. A nil
// Groups makes none.
type Groups struct {
	// Warning says why, on a host with systemd, jobs do not run in a scope; it is empty if they do.
	Warning string

	manager *cgroup.Manager
	params  qconf.CgroupsParams
	scope   *scope.Scope // nil without
}

// OpenGroups prepares the control groups for an assignment's jobs in a spool area, according to the
// configuration of the host. It returns nil if the configuration disables them. It is not an error
// if this host does not support them: jobs then run without.
//
// Where systemd runs, jobs get a scope (package scope). That of an ordinary user
// takes the calling process along, and is made for limits only.
func OpenGroups(spool *jobdir.Spool, o *Assignment) (*Groups, error) {
	return openGroups(spool, o.Config, o.GPUs.Numbered(), o.needsGroup)
}

// OpenGroupsFor does what OpenGroups does, for a daemon that does not have its jobs yet. gpus says
// whether the access of jobs to GPUs has to be restricted.
func OpenGroupsFor(spool *jobdir.Spool, config *qconf.Configuration, gpus bool) (*Groups, error) {
	return openGroups(spool, config, gpus, func() bool { return true })
}

func openGroups(spool *jobdir.Spool, c *qconf.Configuration, gpus bool, needed func() bool) (*Groups, error) {
	params := c.CgroupsParams
	if params.Off || !c.ExecdParams.UseCgroups {
		return nil, nil //nolint:nilnil // its methods take it
	}
	name, err := groupsName(spool.Path())
	if err != nil {
		return nil, err
	}
	config := cgroup.Config{Name: name, Path: params.Path, Devices: gpus || len(params.Devices) > 0, MoveSelf: true}
	g := &Groups{params: params}
	if params.Systemd && (params.Path == "" || strings.HasPrefix(scope.Mount+"/", strings.TrimSuffix(params.Path, "/")+"/")) {
		if err := g.useScope(&config, needed); err != nil && !errors.Is(err, scope.ErrNoManager) {
			g.Warning = "jobs have no scope of their own, and may be ended with the service or session that started them: " + err.Error()
		}
	}
	if g.manager, err = cgroup.Open(config); err != nil {
		g.scope.Close()
		return nil, err
	}
	return g, nil
}

// useScope makes config create groups within a systemd scope.
func (g *Groups) useScope(config *cgroup.Config, needed func() bool) error {
	if os.Geteuid() != 0 {
		if !needed() {
			return nil
		}
		return scope.Move() // it is delegated to this process, and package cgroup finds it
	}
	var err error
	if g.scope, err = scope.Open(); err == nil {
		config.Within = g.scope.Group
	}
	return err
}

// needsGroup reports whether a limit of the jobs can only be enforced by a group.
func (o *Assignment) needsGroup() bool {
	w := limits.OfJob(&job.Description{Limits: o.limits(), HostSlots: o.Slots, VmemLimit: o.vmemLimit()})
	p := o.Config.CgroupsParams
	// The default of pids_limit is there to protect others from the user. Here it is the user's
	// own session that would be moved.
	pids := p.Pids > 0 && p.Pids != qconf.DefaultPids
	return !w.Vmem.None() || !w.RSS.None() || pids || len(p.Devices) > 0 || p.Weight == qconf.Yes
}

// groupsName returns the name of the parent group of all job groups of a spool area. Job numbers
// are unique only within a spool area, and containers may share a hierarchy but not the area.
// Device and inode number identify an area while it exists, and nothing has to be stored.
func groupsName(path string) (string, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return "", &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	return "execd-" + strconv.FormatUint(st.Dev, 16) + "-" + strconv.FormatUint(st.Ino, 16), nil
}

// Close removes what is no longer needed. Groups of jobs stay.
func (g *Groups) Close() {
	if g != nil {
		g.manager.Close()
		g.scope.Close()
	}
}

// start starts a supervisor, in the scope if there is one.
func (g *Groups) start(path string, argv []string, attr *os.ProcAttr) (*os.Process, error) {
	if g == nil || g.scope == nil {
		return os.StartProcess(path, argv, attr)
	}
	return g.scope.Start(path, argv, attr)
}

// makeGroup makes the control group of the job and writes its paths for the supervisor. The
// directory of the job must exist, because Groups.Sweep removes groups without one.
func (j *Job) makeGroup(devices []string) error {
	g := j.groups
	if g == nil || !j.Description.AddGroupKill {
		// Processes of a job that may outlive it cannot be in a group that ends
		// with it (ENABLE_ADDGRP_KILL=false of execd_params).
		return nil
	}
	l, err := g.limits(j.Description, j.Affinity, devices)
	if err != nil {
		return err
	}
	for _, d := range j.own.deny {
		if !slices.Contains(l.Deny, d) {
			l.Deny = append(l.Deny, d)
		}
	}
	l.Filter = j.filter && g.manager.System().Check(cgroup.Devices) == nil
	j.Notes = append(j.Notes, g.unenforced(l)...)
	if !g.manager.Wanted(l) {
		return nil
	}
	made, err := g.manager.Create(cgroup.Name(j.Description.ID), l)
	if err != nil && l.CPUs != "" && !errors.Is(err, cgroup.ErrExists) {
		// The parent group may have fewer processors than this process. The supervisor sets the
		// affinity, too.
		j.Notes = append(j.Notes, "the job could leave its processors: "+err.Error())
		l.CPUs, l.Mems = "", ""
		if !g.manager.Wanted(l) {
			return nil
		}
		made, err = g.manager.Create(cgroup.Name(j.Description.ID), l)
	}
	if err != nil {
		return err
	}
	failpoint.At("launch-group-made")
	j.group, j.groupGone = made.Paths(), false
	told := *j.group
	if !g.params.Killing {
		told.File[group.CgroupKill] = ""
	}
	if !g.params.Freezer {
		told.File[group.CgroupFreeze], told.File[group.FreezerState] = "", ""
	}
	return j.Dir.WriteFile(jobdir.FileCgroup, []byte(told.Format()))
}

// limits returns the limits of a job for its group. granted are the devices that the job may open.
func (g *Groups) limits(d *job.Description, a binding.Affinity, granted []string) (cgroup.Limits, error) {
	w, slots := limits.OfJob(d), uint64(max(d.HostSlots, 1))
	l := cgroup.Limits{
		Pids:    mostThreads(g.params, d.HostSlots),
		Counted: !w.Vmem.None() || !w.RSS.None(), CPUCounted: !w.CPU.None(),
	}
	if g.params.HVmemLimit {
		l.Vmem = g.memory(w.Vmem.Hard)
	}
	if g.params.HRSSLimit {
		l.RSS = g.memory(w.RSS.Hard)
	}
	if g.params.Cpuset {
		l.CPUs, l.Mems = a.CPUs.String(), a.Mems.String()
	}
	// With v1 all jobs would have to be in a hierarchy that costs time to enter:
	// next to a group, processes outside of groups weigh as much as it does, each.
	auto := g.params.Weight == qconf.Auto && slots > 1
	if at := g.manager.System().Where(cgroup.CPUWeight); g.params.Weight == qconf.Yes || auto && at != nil && at.Unified {
		const one, most = 100, 10000
		l.CPUWeight = min(one*slots, most)
	}
	var err error
	l.Deny, err = denied(g.params.Devices, granted)
	return l, err
}

// memory returns a limit of memory in the form of package cgroup, where 0 means no limit.
func (g *Groups) memory(v uint64) uint64 {
	if v == quantity.Infinity {
		return 0
	}
	return max(v, g.params.MinMemory)
}

// unenforced returns the limits that the kernel cannot enforce, with the reasons.
func (g *Groups) unenforced(l cgroup.Limits) []string {
	var notes []string
	check := func(wanted bool, f cgroup.Feature, what string) bool {
		err := g.manager.System().Check(f)
		if wanted && err != nil {
			notes = append(notes, what+": "+err.Error())
		}
		return err == nil
	}
	memory := l.Vmem > 0 || l.RSS > 0
	name := "h_vmem"
	switch {
	case l.Vmem == 0:
		name = "h_rss"
	case l.RSS > 0:
		name = "h_vmem and h_rss"
	}
	if check(memory, cgroup.MemoryLimit, name+" of the whole job can only be watched") {
		check(l.Vmem > 0 && swap(), cgroup.SwapLimit, "h_vmem limits the RAM of the whole job, its swap can only be watched")
	}
	// The default was not requested explicitly.
	check(l.Pids > 0 && g.params.Pids != qconf.DefaultPids, cgroup.PidsLimit,
		"pids_limit limits the processes of the user, in place of those of the job")
	check(l.CPUWeight > 0, cgroup.CPUWeight, "cpu_weight has no effect")
	check(len(l.Deny) > 0, cgroup.Devices, "the job could open devices that it has not been granted")
	return notes
}

// swap reports whether the host has swap space.
func swap() bool {
	var info unix.Sysinfo_t
	return unix.Sysinfo(&info) == nil && info.Totalswap > 0
}

// endGroup ends the remaining processes in the job's group and releases the group. After a normal
// end of the supervisor there are none.
func (j *Job) endGroup() {
	if j.group == nil || j.groupGone {
		return
	}
	if j.groupGone = cgroup.RemoveEmpty(j.group); j.groupGone {
		return
	}
	if open, err := group.Open(j.group); err == nil {
		_ = open.Kill(groupPatience) // Remove reports processes that do not end
		open.Close()
	}
}

// removeGroup removes the group of the job and ends all processes in it.
func (j *Job) removeGroup() error {
	if j.group == nil || j.groupGone {
		return nil
	}
	if err := cgroup.RemovePaths(j.group, groupPatience); err != nil {
		return err
	}
	j.groupGone = true
	return nil
}

// removeRecordedGroup removes the group that the directory of a job names.
func removeRecordedGroup(dir *jobdir.Dir) error {
	paths, err := recordedGroup(dir)
	if paths == nil || err != nil {
		return err
	}
	return cgroup.RemovePaths(paths, groupPatience)
}

// remove removes the group of a job that may not have been written down.
func (g *Groups) remove(id job.ID) error {
	if g == nil {
		return nil
	}
	found, err := g.manager.Load(cgroup.Name(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return found.Remove(groupPatience)
}

// Sweep removes the groups without a job directory. Such a group is left if its creator was killed
// before it recorded the group, or after the job directory was removed, or if the whole spool area
// was removed and its inode number reused. During the call, only processes that keep a job's
// directory as long as its group may start jobs in the area. g may be nil.
func (g *Groups) Sweep(spool *jobdir.Spool) error {
	if g == nil {
		return nil
	}
	// The groups are listed before the directories, because each directory is created before its
	// group and removed after it.
	known := sync.OnceValues(func() (map[string]bool, error) {
		ids, err := spool.Jobs()
		names := map[string]bool{}
		for _, id := range ids {
			names[cgroup.Name(id)] = true
		}
		return names, err
	})
	_, err := g.manager.Sweep(groupPatience, func(name string) bool {
		jobs, err := known()
		return err == nil && !jobs[ofJob(name)]
	})
	return err
}

// ofJob returns the name of the group of the job to whose task a group belongs.
func ofJob(name string) string {
	number, rest, _ := strings.Cut(name, ".")
	task, _, _ := strings.Cut(rest, ".")
	return number + "." + task
}
