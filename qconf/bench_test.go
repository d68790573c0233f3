package qconf

import (
	"strconv"
	"strings"
	"testing"
)

// BenchmarkInstances measures a queue on ten thousand hosts, a tenth of which have settings of their
// own.
func BenchmarkInstances(b *testing.B) {
	const n = 10000
	var list, slots strings.Builder
	hosts := make([]string, n)
	slots.WriteString("16,[@all-hosts=32]")
	for i := range n {
		hosts[i] = "node" + strconv.Itoa(i) + ".example.org"
		list.WriteString(" " + hosts[i])
		if i%10 == 0 {
			slots.WriteString(",[" + hosts[i] + "=64]")
		}
	}
	g, err := ParseHostGroup("g", []byte("group_name @all-hosts\nhostlist"+list.String()))
	if err != nil {
		b.Fatal(err)
	}
	all, err := NewHostGroups(g)
	if err != nil {
		b.Fatal(err)
	}
	q, err := ParseQueue("q", []byte("qname q\nhostlist @all-hosts\nslots "+slots.String()))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		for _, h := range hosts {
			if _, err := q.Instance(h, all); err != nil {
				b.Fatal(err)
			}
		}
	}
}
