package cgroup

import (
	"path"
	"slices"
	"strings"
)

// Version says which versions of control groups are mounted.
type Version string

// The versions.
const (
	None   Version = "none"
	V1     Version = "v1"
	V2     Version = "v2"
	Hybrid Version = "hybrid" // v1 controllers, and a v2 hierarchy in addition
)

// A Hierarchy is one mounted tree of groups.
type Hierarchy struct {
	Unified     bool     // v2
	Mount       string   // where it is mounted
	Controllers []string // v1: the mounted controllers; v2: those that the parent can enable for its groups
	Own         string   // directory of the group of this process; empty if it is not visible
	// Parent is the directory below which groups are created. If it is empty, Err is the reason.
	Parent string
	Err    error
}

// survey reads from /proc/self/mountinfo and /proc/self/cgroup which hierarchies are mounted
// (proc_pid_mountinfo(5), cgroups(7)). A hierarchy with several mounts is listed once, with the
// first mount.
func survey(mountinfo, self string) []Hierarchy {
	own := map[string]string{}
	for line := range strings.Lines(self) {
		// 4:cpu,cpuacct:/a/b and 0::/a/b; names of groups may contain colons
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(f) == 3 {
			own[f[1]] = f[2]
		}
	}
	var list []Hierarchy
	seen := map[string]bool{}
	for line := range strings.Lines(mountinfo) {
		before, after, found := strings.Cut(line, " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if !found || len(left) < 5 || len(right) < 3 {
			continue
		}
		root, mount := unescape(left[3]), unescape(left[4])
		h := Hierarchy{Mount: mount}
		key := ""
		switch right[0] {
		case "cgroup2":
			h.Unified = true
		case "cgroup":
			for option := range strings.SplitSeq(right[2], ",") {
				if slices.Contains(controllersV1, option) {
					h.Controllers = append(h.Controllers, option)
				}
			}
			if len(h.Controllers) == 0 {
				continue // name=systemd, and controllers that this package does not use
			}
			for name := range own {
				if slices.Contains(strings.Split(name, ","), h.Controllers[0]) {
					key = name
				}
			}
		default:
			continue
		}
		if id := right[0] + strings.Join(h.Controllers, ","); seen[id] {
			continue
		} else {
			seen[id] = true
		}
		if group, known := own[key]; known {
			h.Own = inMount(mount, root, group)
		}
		list = append(list, h)
	}
	return list
}

// inMount returns the directory of a group in a mount of the part of its hierarchy below root. It
// is empty if the group is outside that part.
func inMount(mount, root, group string) string {
	// A group outside this cgroup namespace begins with "/..", and so does the root of a mount from
	// outside (cgroup_namespaces(7)).
	if strings.HasPrefix(group, "/..") || strings.HasPrefix(root, "/..") {
		return ""
	}
	switch {
	case root == "/":
		return path.Join(mount, group)
	case group == root || strings.HasPrefix(group, root+"/"):
		return path.Join(mount, group[len(root):])
	}
	return ""
}

// unescape decodes the octal escapes of mountinfo: space, tab, newline, backslash.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// version returns the version of a list of mounted hierarchies.
func version(list []Hierarchy) Version {
	var v1, v2 bool
	for _, h := range list {
		v1 = v1 || !h.Unified
		v2 = v2 || h.Unified
	}
	switch {
	case v1 && v2:
		return Hybrid
	case v1:
		return V1
	case v2:
		return V2
	}
	return None
}
