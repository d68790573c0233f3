package jobdir

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/job"
)

// TestCloseBesideUse checks that Close may be called while other goroutines use the directory. They
// access this directory or get fs.ErrClosed, even if the kernel assigns the descriptor number to
// another file.
func TestCloseBesideUse(t *testing.T) {
	s := newSpool(t)
	other := publicDir(t, 0o755)
	must(t, os.WriteFile(other+"/"+FileOnline, []byte("another directory\n"), 0o644))
	for round := range 100 {
		d, err := s.Create(simple(job.ID{Job: round + 1}), CreateOptions{NoSync: true})
		must(t, err)
		must(t, d.WriteOnline(&Online{At: time.Unix(1, 0), CPU: 7}))
		var wait sync.WaitGroup
		begun := make(chan struct{}, 4)
		for range cap(begun) {
			wait.Go(func() {
				for first := true; ; first = false {
					o, err := d.Online()
					if errors.Is(err, fs.ErrClosed) {
						return
					}
					if err != nil || o == nil || o.CPU != 7 {
						t.Errorf("it reads %+v, %v", o, err)
						return
					}
					if first {
						begun <- struct{}{}
					}
				}
			})
		}
		for range cap(begun) {
			<-begun
		}
		must(t, d.Close())
		fd, err := unix.Open(other, unix.O_DIRECTORY|unix.O_CLOEXEC, 0) // it gets the same descriptor number
		must(t, err)
		wait.Wait()
		unix.Close(fd)
	}
}

// TestUseAfterClose checks that after Close every method fails with fs.ErrClosed.
func TestUseAfterClose(t *testing.T) {
	s := newSpool(t)
	d, err := s.Create(simple(job.ID{Job: 1}), CreateOptions{NoSync: true})
	must(t, err)
	must(t, d.Close())
	must(t, d.Close())
	for name, use := range map[string]func() error{
		"Append":       func() error { return d.Append(FileTrace, "x\n") },
		"Exists":       func() error { _, err := d.Exists(FileConfig); return err },
		"Mark":         func() error { return d.Mark(FileConfig, "mark") },
		"ModTime":      func() error { _, err := d.ModTime(FileConfig); return err },
		"Online":       func() error { _, err := d.Online(); return err },
		"OpenAppend":   func() error { _, err := d.OpenAppend(FileTrace); return err },
		"PETasks":      func() error { _, err := d.PETasks(); return err },
		"ReadFile":     func() error { _, err := d.ReadFile(FileConfig); return err },
		"Remove":       func() error { return d.Remove(FileConfig) },
		"Reserve":      func() error { return d.Reserve(FileUsage, 10) },
		"Sync":         func() error { return d.Sync() },
		"Use":          func() error { return d.Use(func(int) error { return nil }) },
		"Version":      func() error { _, err := d.Version(FileConfig); return err },
		"WriteDurably": func() error { return d.WriteDurably("x", nil) },
		"WriteFile":    func() error { return d.WriteFile("x", nil) },
	} {
		if err := use(); !errors.Is(err, fs.ErrClosed) || strings.Contains(err.Error(), "bad file descriptor") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
