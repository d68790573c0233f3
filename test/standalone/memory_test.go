package standalone

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/execd-project/execd/internal/testenv"
)

// TestMemoryPool runs eight jobs of two users at once that take memory without end, four with a
// request and four without one. Each is ended at the amount that it has booked, the pool suffices
// for all of them, and a job that stays within its booking keeps running.
func TestMemoryPool(t *testing.T) {
	testenv.Require(t, testenv.Root)
	testenv.Require(t, testenv.Cgroup)
	m := newMachine(t, 9)
	m.write("conf/complexes", "m_mem_free m_mem_free MEMORY <= YES YES 40M 0\n")
	m.write("conf/conf/global", groupIDs()+"min_uid 1\nmin_gid 1\nqmaster_params MEMORY_POOL=m_mem_free\nexecd_params VMEM_LIMIT=memory\n")
	m.write("conf/hosts/"+hostName, "hostname "+hostName+"\ncomplex_values m_mem_free=360M\n")
	users := someUsers(t, 2)
	out := m.open("out")
	m.write("hog.sh", "#!/bin/sh\nexec awk 'BEGIN { x = \"xxxxxxxxxxxxxxxx\"; while (length(x) < 2^30) x = x x }'\n")
	m.write("good.sh", "#!/bin/sh\nulimit -v; while [ ! -e "+out+"/over ]; do sleep 0.1; done\n")
	m.start()
	qsub := func(user int, script string, args ...string) string {
		line := append([]string{"-terse", "-wd", "/", "-j", "y", "-o", out}, args...)
		return m.submitted(m.as(users[user], "qsub", append(line, filepath.Join(m.dir, script))...))
	}
	good := qsub(0, "good.sh", "-l", "h_rss=40M,mem_free=1M", "-o", out+"/good")
	var hogs []string
	for i := range 4 {
		hogs = append(hogs, qsub(i%2, "hog.sh"), qsub(i%2, "hog.sh", "-l", "m_mem_free=30M,vf=40M"))
	}
	waiting := qsub(1, "good.sh", "-l", "h_vmem=361M", "-o", "/dev/null")
	m.until("the allocators have been ended", func() bool {
		rest := m.root("qstat", "-u", "*").stdout
		return !slices.ContainsFunc(hogs, func(id string) bool { return strings.Contains(rest, "\n"+fmt.Sprintf("%7s", id)+" ") })
	})
	if r := m.root("qstat", "-j", waiting); !strings.Contains(r.stdout, "m_mem_free=361") || !strings.Contains(r.stdout, "it offers only hc:m_mem_free=") {
		t.Errorf("a job that books more than the pool has: %+v", r)
	}
	m.root("qdel", waiting)
	testenv.WriteFile(t, filepath.Join(out, "over"), "")
	m.until("all jobs have left", func() bool { return m.root("qstat", "-u", "*").stdout == "" })
	for _, id := range hogs {
		r := m.root("qacct", "-j", id)
		if memory := field(r.stdout, "maxvmem"); !atMost(memory, 40) || field(r.stdout, "exit_status") == "0" {
			t.Errorf("an allocator had %s:\n%s", memory, r.stdout)
		}
	}
	if r := m.root("qacct", "-j", good); field(r.stdout, "exit_status") != "0" || field(r.stdout, "failed") != "0" {
		t.Errorf("the job within its limit:\n%s", r.stdout)
	}
	if text, err := os.ReadFile(filepath.Join(out, "good")); err != nil || strings.TrimSpace(string(text)) != "unlimited" {
		t.Errorf("its address space is limited to %q, %v", text, err)
	}
}

// field returns a field of a record in the output of qacct.
func field(text, name string) string {
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == name {
			return f[1]
		}
	}
	return ""
}

// atMost reports whether an amount of memory, such as 41.5MB, is at most mb, plus an allowance for
// memory that maxvmem also includes: the pages of programs, which other jobs may have read first.
func atMost(text string, mb float64) bool {
	number, ok := strings.CutSuffix(text, "MB")
	v, err := strconv.ParseFloat(number, 64)
	return ok && err == nil && v <= mb+8
}
