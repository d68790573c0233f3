package qconf

import (
	"strings"
	"testing"
)

func TestScratchLimitWords(t *testing.T) {
	for text, want := range map[string]ScratchLimit{
		"none": ScratchUnlimited, "SCRATCH_LIMIT=none": ScratchUnlimited, "SCRATCH_LIMIT=auto": ScratchAuto, "SCRATCH_LIMIT=QUOTA": ScratchQuota,
		"SCRATCH_LIMIT=image": ScratchImage, "KEEP_ACTIVE SCRATCH_LIMIT=tmpfs": ScratchTmpfs,
	} {
		same(t, text, want, conf(t, "execd_params "+text+"\n").ExecdParams.ScratchLimit)
	}
	var e ExecdParams
	if _, err := readScratchLimit(&e, "lvm"); err == nil || !strings.Contains(err.Error(), `"lvm" is unknown, expected one of auto, quota, image, tmpfs, none`) {
		t.Errorf("the error is %v", err)
	}
}

func TestRequestedScratch(t *testing.T) {
	for name, c := range map[string]struct {
		complex string
		request Setting
		slots   int
		want    uint64
	}{
		"a request for the job":         {"scratch disk MEMORY <= YES JOB 0 0", Setting{Name: "scratch", Value: "20G"}, 4, 20 << 30},
		"by the shortcut":               {"scratch disk MEMORY <= YES JOB 0 0", Setting{Name: "disk", Value: "1M"}, 1, 1 << 20},
		"for each slot":                 {"scratch disk MEMORY <= YES YES 0 0", Setting{Name: "disk", Value: "1M"}, 4, 4 << 20},
		"the default":                   {"scratch disk MEMORY <= YES JOB 3M 0", Setting{}, 1, 3 << 20},
		"less than the default":         {"scratch disk MEMORY <= YES JOB 3M 0", Setting{Name: "scratch", Value: "2M"}, 1, 2 << 20},
		"a complex that is not booked":  {"scratch disk MEMORY <= YES NO 0 0", Setting{Name: "scratch", Value: "3M"}, 1, 3 << 20},
		"another request":               {"scratch disk MEMORY <= YES JOB 0 0", Setting{Name: "gpu", Value: "1"}, 1, 0},
		"none":                          {"scratch disk MEMORY <= YES JOB 0 0", Setting{Name: "scratch", Value: "0"}, 1, 0},
		"without end":                   {"scratch disk MEMORY <= YES JOB 0 0", Setting{Name: "scratch", Value: "INFINITY"}, 1, 0},
		"nonsense":                      {"scratch disk MEMORY <= YES JOB 0 0", Setting{Name: "scratch", Value: "much"}, 1, 0},
		"a number that is not a memory": {"scratch disk INT <= YES JOB 0 0", Setting{Name: "scratch", Value: "2"}, 1, 0},
	} {
		complexes, err := ParseComplexes("", []byte(DefaultComplexes().Format()+c.complex+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		same(t, name, c.want, complexes.RequestedScratch([]Setting{c.request}, c.slots))
	}
	same(t, "unknown complexes", uint64(5), (*Complexes)(nil).RequestedScratch([]Setting{{Name: "scratch", Value: "5"}}, 1))
	same(t, "no such complex", uint64(0), DefaultComplexes().RequestedScratch([]Setting{{Name: "scratch", Value: "5"}}, 1))
}
