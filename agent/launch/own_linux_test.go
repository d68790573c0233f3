package launch

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/qconf"
)

// TestOwnRoundTrip checks that the agent's own file of a job is read as it was written, whatever it
// contains.
func TestOwnRoundTrip(t *testing.T) {
	for name, o := range map[string]own{
		"nothing": {},
		"everything": {
			boot: "5b83681e", uid: 1000, gid: 100, users: []int{1, 2}, slave: true, shared: true, ownShell: true,
			parent: "/a b\nuid=0", name: "7.1.q=\"x\"", groupIDs: []qconf.Range{{First: 1, Last: 2}, {First: 5, Last: 5}},
			devices: []string{"/dev/x", "/dev/y\n"}, unbound: "why\nslave=yes", notes: []string{"one", "two\\"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseOwn("launch", o.format())
			if err != nil || !reflect.DeepEqual(*got, o) {
				t.Errorf("%+v, %v, expected %+v", got, err, o)
			}
		})
	}
	if _, err := parseOwn("launch", []byte("a newer key=1\n")); err != nil {
		t.Error(err)
	}
	for name, text := range map[string]string{
		"no key": "uid", "no number": "gid=x\n", "no range": "gid_range=1\n", "no text": "note=x\n",
	} {
		if _, err := parseOwn("launch", []byte(text)); err == nil || !strings.HasPrefix(err.Error(), "launch:1: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzOwn(f *testing.F) {
	f.Add([]byte("boot=x\nuid=1\nnote=\"a\"\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		o, err := parseOwn("f", b)
		if err != nil {
			return
		}
		if _, err := parseOwn("f", o.format()); err != nil {
			t.Error(err)
		}
	})
}

// TestTaskDirectoryOfAnotherDaemon opens a task directory that another daemon has written: the
// TMPDIR of the task is that of its job, and is not removed with the task.
func TestTaskDirectoryOfAnotherDaemon(t *testing.T) {
	lookup := func(name string) (*userdb.User, error) {
		if name != "ada" {
			return nil, errors.New("who is that")
		}
		return &userdb.User{Name: name, UID: 1000, GID: 100}, nil
	}
	for task, shared := range map[string]bool{"": false, "1.host": true} {
		got, err := ownOf(&job.Description{ID: job.ID{Job: 1, PETask: task}, Owner: "ada"}, lookup)
		if err != nil || got.shared != shared || got.uid != 1000 || got.gid != 100 {
			t.Errorf("task %q: %+v, %v", task, got, err)
		}
	}
	if _, err := ownOf(&job.Description{Owner: "nobody else"}, lookup); err == nil {
		t.Error("nobody owns a job")
	}
}
