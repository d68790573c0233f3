package testenv

import (
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func TestDecide(t *testing.T) {
	lacks := func(missing ...Need) func(Need) error {
		return func(n Need) error {
			if slices.Contains(missing, n) {
				return errors.New("there is none")
			}
			return nil
		}
	}
	tests := map[string]struct {
		required, needs []Need
		check           func(Need) error
		fatal           bool
		reason          string
	}{
		"everything is there":                                     {nil, []Need{Root, Cgroup}, lacks(), false, ""},
		"a missing need skips":                                    {nil, []Need{Root, Cgroup}, lacks(Cgroup), false, "needs cgroup: there is none"},
		"a missing need that is required fails":                   {[]Need{Cgroup}, []Need{Cgroup}, lacks(Cgroup), true, "lacks it"},
		"a required need that is there does neither":              {[]Need{Cgroup}, []Need{Cgroup}, lacks(), false, ""},
		"a required need that is not asked for":                   {[]Need{VM}, []Need{Cgroup}, lacks(VM), false, ""},
		"a failure is not hidden by an earlier skip":              {[]Need{VM}, []Need{Cgroup, VM}, lacks(Cgroup, VM), true, `"vm"`},
		"systemd that is required can be had in a guest":          {[]Need{Systemd}, []Need{Systemd}, lacks(Systemd, Guest), false, "make test-vm"},
		"a guest that is required can be had":                     {[]Need{Guest}, []Need{Guest}, lacks(Guest), false, "make test-vm"},
		"systemd that is required and cannot be had is a failure": {[]Need{Systemd}, []Need{Systemd}, lacks(Systemd, Guest, VM), true, "lacks it"},
		"in a guest nothing is to be had elsewhere":               {[]Need{Systemd}, []Need{Systemd}, lacks(Systemd), true, "lacks it"},
		"a skip for a guest does not hide a failure":              {[]Need{Systemd, Root}, []Need{Systemd, Root}, lacks(Systemd, Guest, Root), true, `"root"`},
		"the first of several missing needs is named":             {nil, []Need{Systemd, VM}, lacks(Systemd, VM), false, "needs systemd"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			fatal, reason := decide(test.required, test.needs, test.check)
			if fatal != test.fatal || !strings.Contains(reason, test.reason) || (reason == "") != (test.reason == "") {
				t.Errorf("decide = %v, %q; want %v, %q", fatal, reason, test.fatal, test.reason)
			}
		})
	}
}

func TestParse(t *testing.T) {
	got, err := parse(" root, gridengine ,,vm")
	if want := []Need{Root, GridEngine, VM}; err != nil || !slices.Equal(got, want) {
		t.Errorf("parse = %v, %v; want %v", got, err, want)
	}
	if got, err := parse("root,gridengin"); err == nil {
		t.Errorf("parse accepted a word that means nothing: %v", got)
	}
}

// TestRequireSkipsOrFails runs the real thing on a need that cannot be met: there
// is no program in an empty PATH.
func TestRequireSkipsOrFails(t *testing.T) {
	for value, want := range map[string]string{"": "skip", "vm": "fatal", "nonsense": "fatal"} {
		t.Run("with "+value, func(t *testing.T) {
			t.Setenv("PATH", "")
			t.Setenv(Env, value)
			rec := &recorder{TB: t}
			done := make(chan struct{})
			go func() { defer close(done); Require(rec, VM) }()
			<-done
			if rec.got != want {
				t.Errorf("Require did %q, want %q", rec.got, want)
			}
		})
	}
}

// recorder notes how a test would have ended, without ending the real one.
type recorder struct {
	testing.TB
	got string
}

func (r *recorder) Helper()      {}
func (r *recorder) Fatal(...any) { r.got = "fatal"; runtime.Goexit() }
func (r *recorder) Skip(...any)  { r.got = "skip"; runtime.Goexit() }
