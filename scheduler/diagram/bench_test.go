package diagram

import (
	"fmt"
	"slices"
	"testing"
)

// staircase returns a diagram of jobs that began before now and end one after the other.
func staircase(b *testing.B, jobs int) (*Diagram, []Booking) {
	b.Helper()
	bookings := make([]Booking, 0, jobs)
	for i := range jobs {
		bookings = append(bookings, one(0, 1000+int64(i*7919%jobs)*60, 1))
	}
	var d Diagram
	must(b, d.AddAll(bookings))
	return &d, bookings
}

func BenchmarkBook(b *testing.B) {
	for _, jobs := range []int{0, 4, 64, 1024, 16384} {
		b.Run(fmt.Sprintf("jobs=%d", jobs), func(b *testing.B) {
			d, _ := staircase(b, jobs)
			capacity := float64(jobs + 1)
			next := one(0, 3600, 1)
			must(b, d.Add(next))
			must(b, d.Remove(next))
			b.ReportAllocs()
			for b.Loop() {
				if !d.Fits(capacity, next) {
					b.Fatal("does not fit")
				}
				if d.Add(next) != nil || d.Remove(next) != nil {
					b.Fatal("not booked")
				}
			}
		})
	}
}

func BenchmarkEarliest(b *testing.B) {
	for _, jobs := range []int{0, 4, 64, 1024, 16384} {
		b.Run(fmt.Sprintf("jobs=%d", jobs), func(b *testing.B) {
			d, _ := staircase(b, jobs)
			b.ReportAllocs()
			for b.Loop() {
				if d.Earliest(float64(jobs)+2, 0, jobs/2+1, 1) == Forever {
					b.Fatal("never")
				}
			}
		})
	}
}

func BenchmarkAddAll(b *testing.B) {
	for _, jobs := range []int{4, 64, 1024, 16384} {
		b.Run(fmt.Sprintf("jobs=%d", jobs), func(b *testing.B) {
			_, bookings := staircase(b, jobs)
			b.ReportAllocs()
			for b.Loop() {
				var d Diagram
				if err := d.AddAll(bookings); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkEvents looks at the last few events of many queue instances.
func BenchmarkEvents(b *testing.B) {
	for _, n := range []int{100, 10000} {
		b.Run(fmt.Sprintf("diagrams=%d", n), func(b *testing.B) {
			all := make([]*Diagram, n)
			for i := range all {
				_, bookings := staircase(b, 16)
				for j := range bookings {
					bookings[j].Until += int64(i)
				}
				all[i] = &Diagram{}
				must(b, all[i].AddAll(bookings))
			}
			b.ReportAllocs()
			for b.Loop() {
				seen := 0
				for range Events(0, slices.Values(all)) {
					if seen++; seen == 8 {
						break
					}
				}
			}
		})
	}
}
