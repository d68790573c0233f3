package topology

import (
	"slices"
	"strings"
	"testing"
)

// fourDevices returns the devices of a host with two sockets of two cores: two at one root of the first
// socket, one at another root there, and two on the second socket.
func fourDevices(t *testing.T) (Shape, []Device) {
	t.Helper()
	shape, err := ParseShape("SCCSCC")
	if err != nil {
		t.Fatal(err)
	}
	first, second := []Pair{{0, 0}, {0, 1}}, []Pair{{1, 0}, {1, 1}}
	return shape, []Device{
		{"0", first, "pci0000:00"},
		{"1", first, "pci0000:40"},
		{"2", first, "pci0000:40"},
		{"3", second, "pci0000:80"},
		{"4", second, "pci0000:c0"},
	}
}

func TestDevicesAsText(t *testing.T) {
	shape, list := fourDevices(t)
	list = append(list, Device{ID: "5"}, Device{ID: "no place", Root: "x"})
	text := FormatDevices(shape, list)
	const want = "0:pci0000:00/SccSCC 1,2:pci0000:40/SccSCC 3:pci0000:80/SCCScc 4:pci0000:c0/SCCScc 5:/SCCSCC"
	if text != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
	back, err := ParseDevices(shape, text)
	if err != nil || FormatDevices(shape, back) != want || len(back) != 6 {
		t.Errorf("read again: %+v, %v", back, err)
	}
}

func FuzzParseDevices(f *testing.F) {
	f.Add("0,1:pci0000:40/SccSCC 2:/SCCScc")
	f.Add("0:x/S")
	f.Add("0")
	shape, _ := ParseShape("SCCSCC")
	f.Fuzz(func(t *testing.T, text string) {
		list, err := ParseDevices(shape, text)
		if err != nil {
			return
		}
		again, err := ParseDevices(shape, FormatDevices(shape, list))
		if err != nil {
			t.Fatalf("%q gives %q: %v", text, FormatDevices(shape, list), err)
		}
		if len(again) > len(list) {
			t.Errorf("%q has %d devices, and then %d", text, len(list), len(again))
		}
	})
}

func TestDevicesAreNotReadWrongly(t *testing.T) {
	shape, _ := fourDevices(t)
	for _, text := range []string{"0", "0:x", ":x/SCCSCC", "0:x/SCC", "0:x/Q", strings.Repeat("1,", maxDevices) + "1:x/SCCSCC"} {
		if list, err := ParseDevices(shape, text); err == nil {
			t.Errorf("%.50q is read as %+v", text, list)
		}
	}
}

func TestChosenDevices(t *testing.T) {
	_, list := fourDevices(t)
	for sentence, c := range map[string]struct {
		free, has []int
		cores     []Pair
		n         int
		want      []int
	}{
		"without cores the first in the list":                     {free: []int{0, 1, 2, 3, 4}, n: 1, want: []int{0}},
		"two that share a root":                                   {free: []int{0, 1, 2, 3, 4}, n: 2, want: []int{1, 2}},
		"near the cores":                                          {free: []int{0, 1, 2, 3, 4}, cores: []Pair{{1, 1}}, n: 1, want: []int{3}},
		"near the cores rather than at one root":                  {free: []int{0, 1, 2, 3, 4}, cores: []Pair{{1, 1}}, n: 2, want: []int{3, 4}},
		"far ones where no near one is free":                      {free: []int{0, 1}, cores: []Pair{{1, 0}}, n: 1, want: []int{0}},
		"at the root of those that the job has":                   {free: []int{0, 2, 3}, has: []int{1}, n: 1, want: []int{2}},
		"on the same memory node if the root has no other":        {free: []int{2, 3, 4}, has: []int{0}, n: 1, want: []int{2}},
		"three: the root first, then the same node":               {free: []int{0, 1, 2, 3}, n: 3, want: []int{0, 1, 2}},
		"near both sockets if the job has cores of both":          {free: []int{0, 4}, cores: []Pair{{0, 0}, {1, 0}}, n: 2, want: []int{0, 4}},
		"two devices rather than one of them twice":               {free: []int{1, 1, 3}, n: 2, want: []int{1, 3}},
		"all of them if there are too few":                        {free: []int{0, 4}, n: 3, want: []int{0, 4}},
		"the pair near the cores rather than two roots near them": {free: []int{0, 1, 2}, cores: []Pair{{0, 1}}, n: 2, want: []int{1, 2}},
	} {
		pick := func(at []int) (of []Device) {
			for _, i := range at {
				of = append(of, list[i])
			}
			return of
		}
		var got []int
		for _, i := range ChooseDevices(pick(c.free), pick(c.has), c.cores, c.n) {
			got = append(got, c.free[i])
		}
		slices.Sort(got)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", sentence, got, c.want)
		}
	}
}
