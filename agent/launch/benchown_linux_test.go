package launch

import (
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/qconf"
)

// BenchmarkOwnMachine measures what private files, limited scratch space and the filter of devices add to
// the start of a job: the time from its preparation to its first instruction, in any order with jobs that use
// none of them. It reports the first decile, because other work on the machine adds many milliseconds to
// some starts. It leaves out what the machine cannot do.
func BenchmarkOwnMachine(b *testing.B) {
	testenv.Require(b, testenv.Root, testenv.Cgroup)
	p := newPlace(b)
	withDevices, err := qconf.ParseConfiguration("global", []byte("cgroups_params devices=/dev/full\n"))
	if err != nil {
		b.Fatal(err)
	}
	spool, o := orderOf(b)
	o.Config = withDevices
	o.Groups.Close()
	groups, err := OpenGroups(spool, o)
	if err != nil {
		b.Fatal(err)
	}
	o.Groups = groups // closed at the end of the benchmark

	kinds := map[string]func(o *Assignment){
		"none":          func(*Assignment) {},
		"private-files": func(o *Assignment) { o.Config.ExecdParams.PrivateTmp.Default = true },
		"filter":        func(o *Assignment) { o.Config.CgroupsParams = withDevices.CgroupsParams },
		"both": func(o *Assignment) {
			o.Config.ExecdParams.PrivateTmp.Default, o.Config.CgroupsParams = true, withDevices.CgroupsParams
		},
		"both-and-quota": func(o *Assignment) {
			o.Config.ExecdParams.PrivateTmp.Default, o.Config.CgroupsParams = true, withDevices.CgroupsParams
			o.Config.ExecdParams.ScratchLimit = qconf.ScratchQuota
		},
	}
	for _, how := range []qconf.ScratchLimit{qconf.ScratchQuota, qconf.ScratchImage, qconf.ScratchTmpfs} {
		kinds[string(how)] = func(o *Assignment) { o.Config.ExecdParams.ScratchLimit = how }
	}
	times := map[string][]float64{}
	run := func(kind string) error {
		o := p.limited(b, qconf.ScratchUnlimited, "exec /bin/date +%s%N")
		o.Groups, o.Queue.Tmpdir = groups, "/tmp" // with other directories a job's own /tmp has more mounts
		kinds[kind](o)
		began := time.Now()
		j, err := Prepare(p.spool, o, seven)
		if err != nil {
			return err
		}
		if len(j.Notes) > 0 {
			return errors.Join(errors.New(j.Notes[0]), j.Remove(false))
		}
		launched(b, j)
		out := j.Collect(waited(b, j))
		text, err := os.ReadFile(p.dir + "/out/o")
		first, numberErr := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err = errors.Join(err, numberErr, j.Remove(false), os.Remove(p.dir+"/out/o")); err != nil || out.Failed != 0 {
			b.Fatalf("%s: %+v, %v", kind, out, err)
		}
		times[kind] = append(times[kind], float64(first-began.UnixNano())/1e6)
		return nil
	}
	for kind := range kinds {
		if err := run(kind); err != nil {
			b.Logf("without %s: %v", kind, err)
			delete(kinds, kind)
		}
	}
	clear(times)
	names := slices.Sorted(maps.Keys(kinds))
	for b.Loop() {
		// The kernel still removes the image of a job when the next one starts, which would always be of one kind.
		for _, i := range rand.Perm(len(names)) {
			if err := run(names[i]); err != nil {
				b.Fatal(err)
			}
		}
	}
	quick := func(kind string) float64 {
		slices.Sort(times[kind])
		return times[kind][len(times[kind])/10]
	}
	for _, kind := range names {
		if kind == "none" {
			b.ReportMetric(quick(kind), "ms")
			continue
		}
		b.ReportMetric(quick(kind)-quick("none"), "ms-more-"+kind)
		b.ReportMetric(quick(kind)/quick("none"), "ratio-"+kind)
	}
}
