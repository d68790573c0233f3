package main_test

import (
	"strings"
	"testing"

	"github.com/execd-project/execd/internal/testenv/heldup"
)

// TestHeldUp checks that a process that holds up the kernel (see package heldup) does not delay the limits of its job.
func TestHeldUp(t *testing.T) {
	t.Parallel()
	device := heldup.Device(t)
	for name, m := range map[string]mode{"as a user": asUser, "as root": asRoot} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := inWorld(t, m)
			hostile := heldup.Program(t, w.dir)
			line := []string{"-cwd", "-l", "h_rt=3", "-v", strings.Join(heldup.Environment(device), ","), "-b", "y", "-shell", "n", hostile}
			if m == asRoot {
				line = append([]string{"--as", "alice"}, line...)
			}
			l := w.start(t, line...)
			if line := l.expect("^([0-9]+|" + heldup.Failure + ".*)$"); strings.HasPrefix(line, heldup.Failure) {
				t.Skip(line)
			}
			l.expect("h_rt")
			l.end(137)
			w.gone(t)
		})
	}
}
