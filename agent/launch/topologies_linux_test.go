package launch

import (
	"os"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/limits/topology"
)

// TestTopologies checks that the topology is read once, and again when other processors are online
// or the previous attempt failed.
func TestTopologies(t *testing.T) {
	var all Topologies
	defer all.Close()
	read, online := 0, ""
	file := func(path string) ([]byte, error) {
		if path == fileOnline && online != "" {
			return []byte(online), nil
		}
		if path != fileOnline {
			read++
		}
		return os.ReadFile(path)
	}
	want, err := readTopology()
	if err != nil {
		t.Fatal(err)
	}
	check := func(when string, want topology.Topology, reads bool) {
		t.Helper()
		read = 0
		got, err := all.read(file)
		if err != nil || !reflect.DeepEqual(got, want) || read > 0 != reads {
			t.Errorf("%s: %+v, %v; %d files are read", when, got, err, read)
		}
	}
	check("at first", want, true)
	check("then", want, false)
	if got, err := all.Read(); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	first := strconv.Itoa(want.Usable().First())
	online = first
	mine, err := allowed()
	if err != nil {
		t.Fatal(err)
	}
	less, err := topology.Read(file, mine)
	if err != nil {
		t.Fatal(err)
	}
	check("with others online", less, true)
	check("and then", less, false)
	online = "0-x"
	if got, err := all.read(file); err == nil {
		t.Errorf("an invalid list gives %+v", got)
	}
	online = first
	check("after an error", less, false)
	online = ""
	check("with all again", want, true)
}

// TestTopologiesInUse checks that the load value covers the jobs that the caller knows and those
// that it does not know, and that nothing is read again while nothing has changed.
func TestTopologiesInUse(t *testing.T) {
	var all Topologies
	top, err := all.Read()
	if err != nil {
		t.Fatal(err)
	}
	spool := newSpool(t)
	known, version, asked := map[string]string{}, uint64(0), 0
	check := func(when string, cores int, asks bool) {
		t.Helper()
		asked = 0
		text, err := all.InUse(spool, "host", version, func() map[string]string { asked++; return known })
		shape, _ := topology.ParseShape(text)
		if err != nil || len(shape.InUse()) != cores || !shape.SameHost(top.Shape()) || (asked > 0) != asks {
			t.Errorf("%s: %s, %v, asked %d times; expected %d cores", when, text, err, asked, cores)
		}
	}
	// age has the directory of all jobs look as if it had not been changed for a while.
	age := func(d time.Duration) {
		t.Helper()
		then := time.Now().Add(-d)
		if err := os.Chtimes(spool.Path()+"/active_jobs", then, then); err != nil {
			t.Fatal(err)
		}
	}
	check("at first", 0, true)
	check("as long as the next change may have the same time", 0, true)
	age(time.Hour)
	check("other time", 0, true)
	check("nothing new", 0, false)
	core := strconv.Itoa(top.Usable().First())
	j := preparedWithCores(t, spool, 1, "UNDEFINED", "-binding", "linear:1")
	check("a job that is not known", 1, true)
	age(2 * time.Hour)
	check("it is looked at", 1, true)
	check("each time", 1, true)
	known[spool.JobPath(job.ID{Job: 1, Task: 1})] = core
	check("it is known", 1, true)
	check("it is still", 1, false)
	known[spool.JobPath(job.ID{Job: 1, Task: 1})] = ""
	version++
	check("it has ended", 0, true)
	if err := j.Remove(false); err != nil {
		t.Fatal(err)
	}
	age(3 * time.Hour)
	check("it is gone", 0, true)
	check("nothing is left", 0, false)
}
