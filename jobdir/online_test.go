package jobdir

import (
	"testing"
	"time"
)

func TestOnlineRoundTrip(t *testing.T) {
	want := Online{
		At: time.Unix(1795229673, 877908554), Wallclock: 12.5, CPU: 3.25, Mem: 0.125, IO: 1e-9, IOWait: 7, Vmem: 1 << 40, MaxVmem: 1 << 41,
	}
	got, err := ParseOnline("usage_online", FormatOnline(&want))
	if err != nil || !got.At.Equal(want.At) {
		t.Fatalf("got %+v, %v", got, err)
	}
	if got.At = want.At; *got != want {
		t.Errorf("got %+v, want %+v", *got, want)
	}
	if _, err := ParseOnline("usage_online", []byte("cpu=many\n")); err == nil {
		t.Error("cpu=many is accepted")
	}
	if _, err := ParseOnline("usage_online", []byte("of_tomorrow=1\n")); err != nil {
		t.Error(err)
	}
}

func FuzzParseOnline(f *testing.F) {
	f.Add(FormatOnline(&Online{At: time.Unix(1, 5), CPU: 1.5, Vmem: 3}))
	f.Fuzz(func(t *testing.T, b []byte) {
		o, err := ParseOnline("f", b)
		if err != nil {
			return
		}
		if _, err := ParseOnline("f", FormatOnline(o)); err != nil {
			t.Errorf("%q is printed as something that cannot be read: %v", b, err)
		}
	})
}
