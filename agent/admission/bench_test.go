package admission

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// BenchmarkBook measures a book of one host with the configuration of a large cluster: the cost of
// making the book, and of booking and releasing each job.
func BenchmarkBook(b *testing.B) {
	for _, hosts := range []int{1, 1000} {
		f := files{"complexes": "mem mem MEMORY <= YES YES 0 0\n"}
		var names []string
		for i := range hosts {
			n := fmt.Sprintf("n%d", i+1)
			names = append(names, n)
			f["hosts/"+n] = "hostname " + n + "\ncomplex_values mem=64G\n"
		}
		f["hostgroups/@every"] = "group_name @every\nhostlist " + strings.Join(names, " ") + "\n"
		for _, q := range []string{"a.q", "b.q"} {
			f["queues/"+q] = "qname " + q + "\nhostlist @every\nslots 64\n"
		}
		cluster := f.cluster(b)
		b.Run(fmt.Sprintf("new/hosts=%d", hosts), func(b *testing.B) {
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			book, _ := New(cluster, "n1")
			runtime.GC()
			runtime.ReadMemStats(&after)
			runtime.KeepAlive(book)
			for b.Loop() {
				New(cluster, "n1")
			}
			b.ReportMetric(float64(after.HeapAlloc)-float64(before.HeapAlloc), "B/book") // Loop forgets what was reported before
		})
		b.Run(fmt.Sprintf("job/hosts=%d", hosts), func(b *testing.B) {
			book, _ := New(cluster, "n1")
			book.SetLoad(idle)
			x := &Booking{Request: ask(b, "-l mem=1G"), Owner: "ann", Grants: []Grant{{Queue: "a.q", Slots: 1}}}
			for b.Loop() {
				if err := book.Take(x, noon); err != nil {
					b.Fatal(err)
				}
				book.End(x.ID)
			}
		})
	}
}
