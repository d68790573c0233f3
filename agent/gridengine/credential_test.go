package gridengine

import (
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
	"testing"

	"github.com/execd-project/execd/agent/gridengine/commlib"
	"github.com/execd-project/execd/agent/gridengine/message"
	"github.com/execd-project/execd/internal/testenv"
)

// withMunge makes a world whose cell has security_mode munge. The link takes messages of root and of
// the user of this process.
func withMunge(t *testing.T) *world {
	t.Helper()
	socket := testenv.Munged(t)
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	self := message.Identity{UID: os.Getuid(), GID: os.Getgid(), User: me.Username, Group: "group"}
	w := newWorld(t, func(o *Options) {
		o.Cell.Security.Munge, o.MungeSocket, o.Identity = true, socket, self
		o.UserOf = func(uid uint32) string {
			u, err := user.LookupId(strconv.Itoa(int(uid)))
			if err != nil {
				return ""
			}
			return u.Username
		}
	})
	w.munged, w.codec = socket, &message.Codec{Protocol: message.OCS91, Identity: self}
	w.accept()
	return w
}

// TestMunge checks that in a cell with security_mode munge each message has a credential, and that
// the link tries the format of 9.1 first.
func TestMunge(t *testing.T) {
	w := withMunge(t)
	w.register()
	w.full()
	if w.unread != 0 {
		t.Errorf("%d requests were in another form", w.unread)
	}
	w.send(message.TagJobExecution, w.codec.EncodeDelivery(delivery(7, 1)))
	w.told("start 7")
	w.jobReport(7, message.StateWritten)
}

// TestMungeRefuses checks that the link refuses messages without a credential, with a credential
// that was used before, with that of another user, and with that of another user who claims to be
// root.
func TestMungeRefuses(t *testing.T) {
	w := withMunge(t)
	w.register()
	w.full()
	raw := func(n uint32, payload []byte) {
		if _, err := w.conn.Send(w.codec.Number(message.TagJobExecution), 0, payload); err != nil {
			t.Fatalf("job %d: %v", n, err)
		}
	}
	first := w.signed(w.codec.EncodeDelivery(delivery(1, 1)))
	raw(1, first)
	w.told("start 1")
	used, err := message.Credential(first)
	if err != nil {
		t.Fatal(err)
	}
	raw(2, w.codec.WithCredential(w.codec.EncodeDelivery(delivery(2, 1)), used))
	raw(3, w.codec.EncodeDelivery(delivery(3, 1)))
	if os.Getuid() == 0 {
		raw(4, w.codec.WithCredential(w.codec.EncodeDelivery(delivery(4, 1)), w.credentialOf("nobody", "65534\xff0\xffroot\xffroot\xff0\x00")))
		raw(5, w.codec.WithCredential(w.codec.EncodeDelivery(delivery(5, 1)), w.credentialOf("nobody", "0\xff0\xffroot\xffroot\xff0\x00")))
	}
	w.send(message.TagJobExecution, w.codec.EncodeDelivery(delivery(6, 1)))
	w.told("start 6")
	if n := len(w.commands.starts); n != 2 {
		t.Errorf("%d jobs were started", n)
	}
}

// credentialOf returns a credential that a user has asked for.
func (w *world) credentialOf(name, text string) string {
	w.Helper()
	cmd := exec.Command("setpriv", "--reuid="+name, "--clear-groups", "munge", "--socket="+w.munged)
	cmd.Stdin = strings.NewReader(text)
	out, err := cmd.Output()
	if err != nil {
		w.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// TestMungeTaskOfAnotherUser checks that only the owner of a job may request its tasks.
func TestMungeTaskOfAnotherUser(t *testing.T) {
	testenv.Require(t, testenv.Root)
	w := withMunge(t)
	w.register()
	w.full()
	conn, err := w.dial(commlib.Endpoint{Host: "localhost", Component: commlib.ExecdHandle})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Abort()
	ask := func(payload []byte) string {
		if _, err := conn.Send(w.codec.Number(message.TagJobExecution), 0, payload); err != nil {
			t.Fatal(err)
		}
		m, err := conn.Receive()
		if err != nil {
			t.Fatal(err)
		}
		w.verify(m)
		id, err := w.codec.DecodeTaskID(m.Payload)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	task := func(owner string) []byte {
		return w.codec.EncodeTaskRequest(&message.TaskRequest{Job: 7, Task: 1, Owner: owner, Cwd: "/"})
	}
	const text = "65534\xff65534\xffnobody\xffnogroup\xff0\x00"
	if id := ask(task("nobody")); id != message.TaskRefused {
		t.Errorf("without a credential the task %q was started", id)
	}
	if id := ask(w.codec.WithCredential(task("alice"), w.credentialOf("nobody", text))); id != message.TaskRefused {
		t.Errorf("another user has started the task %q", id)
	}
	if id := ask(w.codec.WithCredential(task("nobody"), w.credentialOf("nobody", text))); id == message.TaskRefused {
		t.Error("the owner's task was refused")
	}
}

// TestSecurityOtherRelease checks that the link refuses security_mode munge and tls for releases that do
// not have them.
func TestSecurityOtherRelease(t *testing.T) {
	for _, s := range []Security{{Munge: true}, {TLS: true}} {
		for _, p := range message.Protocols {
			o := Options{Cell: &Cell{Root: "/r", Name: "default", Security: s}, Protocol: p}
			if err := o.checkSecurity(); (err == nil) != (p.Name == "9.1") {
				t.Errorf("%s, %+v: %v", p.Name, s, err)
			}
		}
	}
}
