package launch

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/limits/cgroup"
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
		"no key": "uid\n", "no number": "gid=x\n", "no range": "gid_range=1\n", "no text": "note=x\n",
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

// TestOwnIsAppended checks that data that is found out later is appended to the file, and that a line that was being
// appended when the host stopped is ignored.
func TestOwnIsAppended(t *testing.T) {
	p := newPlace(t)
	o, err := p.order("true")
	if err != nil {
		t.Fatal(err)
	}
	j, err := Prepare(p.spool, o, seven)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = j.Remove(false) }()
	inode := func() uint64 {
		t.Helper()
		var st unix.Stat_t
		if err := unix.Stat(j.Dir.Path()+"/"+fileOwn, &st); err != nil {
			t.Fatal(err)
		}
		return st.Ino
	}
	same := func() {
		t.Helper()
		if known, err := readOwn(j.Dir); err != nil || !reflect.DeepEqual(known, &j.own) {
			t.Errorf("the file has %+v, want %+v (%v)", known, j.own, err)
		}
	}
	before := inode()
	j.own.project = 1 << 30
	j.own.deny = []cgroup.Device{{Major: 195, Minor: 1}}
	for range 2 {
		if err := j.writeOwn(); err != nil {
			t.Fatal(err)
		}
		same()
	}
	if inode() != before {
		t.Error("the file was replaced")
	}
	for _, torn := range []string{"note=\"half", "\x00\x00\x00"} {
		if err := j.Dir.WriteFile(fileOwn, append(j.own.format(), torn...)); err != nil {
			t.Fatal(err)
		}
		same()
	}
	j.own.project = 0 // not a longer text
	if err := j.writeOwn(); err != nil {
		t.Fatal(err)
	}
	same()
}
