package serve

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/agent"
	"github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/job"
)

// callEnv has this test make calls, as a process of another user.
const callEnv = "EXECD_TEST_CALLS"

// calls lists the calls that such a process makes.
type calls struct {
	Socket string
	Calls  [][2]string // methods and messages
}

func TestMain(m *testing.M) {
	if text := os.Getenv(callEnv); text != "" {
		if err := makeCalls(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func makeCalls(text string) error {
	var c calls
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	for _, q := range c.Calls {
		conn, err := net.Dial("unix", c.Socket)
		if err != nil {
			return err
		}
		request, err := http.NewRequest(http.MethodPost, "http://localhost"+api.Path+q[0], strings.NewReader(q[1]))
		if err != nil {
			return err
		}
		request.Header.Set("Content-Type", "application/json")
		go func() { _ = request.Write(conn) }() // the answer says whether it has arrived
		response, err := http.ReadResponse(bufio.NewReader(conn), request)
		if err != nil {
			return err
		}
		answer, err := io.ReadAll(response.Body)
		if err := errors.Join(err, conn.Close(), out.Encode(string(answer))); err != nil {
			return err
		}
	}
	return nil
}

// as makes calls as another user, and returns the answers.
func (r *running) as(uid uint32, list ...[2]string) []string {
	r.t.Helper()
	text, err := json.Marshal(calls{r.socket, list})
	if err != nil {
		r.t.Fatal(err)
	}
	cmd := exec.CommandContext(r.t.Context(), "/proc/self/exe")
	cmd.Env = []string{callEnv + "=" + string(text)}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		r.t.Fatalf("as user id %d: %v\n%s", uid, err, &stderr)
	}
	var answers []string
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var a string
		if err := d.Decode(&a); errors.Is(err, io.EOF) {
			return answers
		} else if err != nil {
			r.t.Fatal(err)
		}
		answers = append(answers, a)
	}
}

// Users of the tests: no account is needed for an id.
const (
	alice, bob, carol, nobody = 12001, 12002, 12003, 12004
)

func someUsers(uid uint32) (*userdb.User, error) {
	if name := map[uint32]string{alice: "alice", bob: "bob", carol: "carol"}[uid]; name != "" {
		return &userdb.User{Name: name, UID: uid}, nil
	}
	return nil, userdb.ErrUnknown
}

// TestManagersAreNoMasters checks that a manager of a cell cannot act as its master: a manager
// could otherwise become root, by a configuration with a prolog of root, or by a job of any user.
// If the master is a part of the daemon, only root can use the methods of a master.
func TestManagersAreNoMasters(t *testing.T) {
	testenv.Require(t, testenv.Root)
	r := run(t, func(o *Options) {
		o.Users = someUsers
		o.Managers = []string{"carol"}
		o.OwnMaster = true
		o.Install = func(context.Context, map[string]string) error {
			t.Error("a manager has installed a configuration")
			return nil
		}
	})
	for name, message := range map[string]string{
		"Start": `{"job":1,"owner":"alice"}`, "StartBatch": `{"starts":[]}`, "Admit": `{"job":1,"owner":"alice"}`,
		"Configure": `{"files":{"queues/all.q":"prolog root@/tmp/x"}}`, "SetTickets": `{"tickets":[]}`,
		"FullReport": "{}", "Reports": `{"after":0}`, "Acknowledge": `{"number":1}`,
	} {
		if answer := r.as(carol, [2]string{name, message})[0]; !strings.Contains(answer, name+" is for root") {
			t.Errorf("%s of a manager: %s", name, answer)
		}
	}
	if diff := cmp.Diff([]string(nil), r.agent.said()); diff != "" {
		t.Error(diff)
	}
	if answer := r.as(carol, [2]string{"Version", "{}"})[0]; strings.Contains(answer, `"Start"`) || !strings.Contains(answer, `"Drain"`) {
		t.Errorf("a manager is told to have the methods %s", answer)
	}
	answers := append(r.as(carol, [2]string{"Drain", `{"reason":"r"}`}), r.as(0, [2]string{"FullReport", "{}"})...)
	if diff := cmp.Diff([]string{"Drain r", "FullReport"}, r.agent.said()); diff != "" {
		t.Errorf("%q: %s", answers, diff)
	}
}

// TestUsers checks which methods users other than root may call on the socket.
func TestUsers(t *testing.T) {
	testenv.Require(t, testenv.Root)
	r := run(t, func(o *Options) {
		o.Users = someUsers
		o.Managers = []string{"carol"}
		o.Limits.UserBody = 1000
	})
	r.agent.put(agent.JobReport{
		ID: job.ID{Job: 7, Task: 1}, Owner: "alice", Name: "n", State: agent.Ended, PID: 5, Notes: []string{"/secret"}, Dir: "/secret",
		Outcome: &job.Outcome{Ran: true, ExitStatus: 1, FailedText: "/secret", Reason: "/secret"},
	})
	r.agent.put(agent.JobReport{ID: job.ID{Job: 7, Task: 2}, Owner: "alice"})
	r.agent.put(agent.JobReport{ID: job.ID{Job: 8, Task: 1}, Owner: "alice"})
	r.agent.put(agent.JobReport{ID: job.ID{Job: 8, Task: 2}, Owner: "bob"})

	refused := func(method string) [3]string {
		return [3]string{method, "{}", method + " is for root, managers and masters"}
	}
	tests := map[string]struct {
		uid   uint32
		calls [][3]string // method, message, part of the answer
		said  []string
	}{
		"what is the master's is not for users": {alice, [][3]string{
			refused("Start"), refused("StartBatch"), refused("Admit"), refused("SignalQueue"), refused("SetTickets"), refused("Configure"),
			refused("FullReport"), refused("Acknowledge"), refused("Drain"), refused("Resume"), refused("Shutdown"), refused("Reports"),
		}, nil},
		"all may look": {bob, [][3]string{
			{"Health", "", `"host":"n1"`},
			{"Version", "", `"methods":["Attach","Health","Job","Jobs","Signal","StartTask","Version"]`},
			{"Jobs", "", `"owner":"alice"`},
		}, nil},
		"an owner sees all of a job":       {alice, [][3]string{{"Job", `{"job":7,"task":1}`, `"directory":"/secret"`}}, nil},
		"others do not see where it is":    {bob, [][3]string{{"Job", `{"job":7,"task":1}`, `"name":"n","queue":"","slots":0,"outcome":{"failed":0,"class":`}}, nil},
		"an owner may order":               {alice, [][3]string{{"Signal", `{"job":7,"task":1,"order":"terminate"}`, "{}"}}, []string{"Signal 7.1 terminate"}},
		"or all tasks at once":             {alice, [][3]string{{"Signal", `{"job":7,"task":-1,"order":"suspend"}`, "{}"}}, []string{"Signal 7.-1 suspend"}},
		"if all of them are his":           {alice, [][3]string{{"Signal", `{"job":8,"task":-1,"order":"suspend"}`, "job 8.2 is of bob, and this is user alice"}}, nil},
		"but not what masters order":       {alice, [][3]string{{"Signal", `{"job":7,"task":1,"order":"resume_queue"}`, "managers and masters"}, {"Signal", `{"job":7,"task":1,"order":"reschedule"}`, "managers and masters"}}, nil},
		"others may not":                   {bob, [][3]string{{"Signal", `{"job":7,"task":1,"order":"kill"}`, "permission_denied"}}, nil},
		"nobody may what is not there":     {bob, [][3]string{{"Signal", `{"job":9,"order":"kill"}`, "not_found"}, {"Signal", `{"job":9,"task":-1,"order":"kill"}`, "not_found"}}, nil},
		"an owner may start tasks":         {alice, [][3]string{{"StartTask", `{"job":7,"task":1,"key":"a","command":["x"]}`, `"owner":"alice"`}}, []string{"StartTask 7.1"}},
		"and may say who he is":            {alice, [][3]string{{"StartTask", `{"job":7,"task":1,"key":"b","owner":"alice","command":["x"]}`, `"owner":"alice"`}}, []string{"StartTask 7.1"}},
		"but not that he is another":       {alice, [][3]string{{"StartTask", `{"job":8,"task":2,"key":"a","owner":"bob","command":["x"]}`, `owner is \"bob\", and this is user alice`}}, nil},
		"nor in jobs of others":            {alice, [][3]string{{"StartTask", `{"job":8,"task":2,"key":"a","command":["x"]}`, "job 8.2 is of bob"}}, nil},
		"users' messages are short":        {alice, [][3]string{{"Jobs", strings.Repeat(" ", 1001), "more than 1000 bytes"}}, nil},
		"managers may all":                 {carol, [][3]string{{"Drain", `{"reason":"r"}`, "{}"}, {"Signal", `{"job":7,"task":1,"order":"reschedule"}`, "{}"}, {"Job", `{"job":7,"task":1}`, "/secret"}}, []string{"Drain r", "Signal 7.1 reschedule"}},
		"who has no name is not served":    {nobody, [][3]string{{"Version", "", "cannot determine the name of user ID 12004"}}, nil},
		"root needs no name":               {0, [][3]string{{"FullReport", "", "{}"}}, []string{"FullReport"}},
		"users cannot replace the masters": {alice, [][3]string{{"Jobs", "", "jobs"}}, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r.agent.said()
			var list [][2]string
			for _, c := range test.calls {
				list = append(list, [2]string{c[0], c[1]})
			}
			for i, a := range r.as(test.uid, list...) {
				if !strings.Contains(a, test.calls[i][2]) {
					t.Errorf("%s: %s; want ...%s...", test.calls[i][0], a, test.calls[i][2])
				}
				if test.uid != alice && test.uid != carol && strings.Contains(a, "/secret") {
					t.Errorf("%s: others see: %s", test.calls[i][0], a)
				}
			}
			if diff := cmp.Diff(test.said, r.agent.said()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestConnections checks that a user who opens too many connections is refused with a reason, and
// that other users and root can still connect.
func TestConnections(t *testing.T) {
	testenv.Require(t, testenv.Root)
	r := run(t, func(o *Options) {
		o.Limits.Connections = 3
		o.Users = someUsers
	})
	open := func(uid uint32) net.Conn {
		t.Helper()
		conn := dialAs(t, r.socket, uid)
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	ask := func(conn net.Conn) string {
		t.Helper()
		request := "POST /execd.v1.Agent/Version HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
		if _, err := conn.Write([]byte(request)); err != nil && !errors.Is(err, syscall.EPIPE) {
			t.Fatal(err)
		}
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		return response.Status + " " + response.Header.Get("Retry-After")
	}
	var alices []net.Conn
	for range 3 {
		alices = append(alices, open(alice))
	}
	if got := ask(open(alice)); got != "429 Too Many Requests 1" {
		t.Errorf("the fourth: %s", got)
	}
	if got := ask(open(bob)); got != "200 OK " {
		t.Errorf("of another user: %s", got)
	}
	for range 5 {
		if got := ask(open(0)); got != "200 OK " {
			t.Errorf("of root: %s", got)
		}
	}
	if got := ask(alices[2]); got != "200 OK " {
		t.Errorf("the third: %s", got)
	}
	alices[0].Close()
	count := r.counts[0]
	if !soon(func() bool { count.mu.Lock(); defer count.mu.Unlock(); return count.of["uid 12001"] == 2 }) {
		t.Fatal("a connection that was closed counts")
	}
	if got := ask(open(alice)); got != "200 OK " {
		t.Errorf("after one was closed: %s", got)
	}
}

// dialAs connects as another user: the kernel notes who a thread is when it connects.
func dialAs(t *testing.T, socket string, uid uint32) net.Conn {
	t.Helper()
	type result struct {
		conn net.Conn
		err  error
	}
	done := make(chan result)
	go func() {
		lockThread() // it ends with the goroutine
		if _, _, e := syscall.RawSyscall(syscall.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0)); e != 0 {
			done <- result{err: e}
			return
		}
		conn, err := net.Dial("unix", socket)
		done <- result{conn, err}
	}()
	r := <-done
	if r.err != nil {
		t.Fatal(r.err)
	}
	return r.conn
}

func TestSocket(t *testing.T) {
	t.Run("everybody may connect", func(t *testing.T) {
		r := run(t, nil)
		info, err := os.Stat(r.socket)
		if err != nil || info.Mode() != os.ModeSocket|0o666 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
		if entries, err := os.ReadDir(filepath.Dir(r.socket)); len(entries) != 1 || err != nil {
			t.Errorf("in the directory are %v, %v", entries, err)
		}
		if a := r.Addresses(); len(a) != 1 || a[0].String() != r.socket {
			t.Errorf("addresses: %v", a)
		}
		r.stop()
		if _, err := os.Stat(r.socket); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("afterwards: %v", err)
		}
	})
	t.Run("the directory is made", func(t *testing.T) {
		r := run(t, func(o *Options) { o.Socket = filepath.Join(filepath.Dir(o.Socket), "a", "b") })
		if _, err := r.client().Version(t.Context()); err != nil {
			t.Error(err)
		}
	})
	t.Run("one that nobody listens on is replaced", func(t *testing.T) {
		dir := directory(t)
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "agent.sock"), Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		l.SetUnlinkOnClose(false)
		l.Close()
		r := run(t, func(o *Options) { o.Socket = filepath.Join(dir, "agent.sock") })
		if _, err := r.client().Version(t.Context()); err != nil {
			t.Error(err)
		}
	})
	t.Run("one of somebody else is left alone", func(t *testing.T) {
		r := run(t, nil)
		_, err := New(Options{Socket: r.socket})
		if err == nil || !strings.Contains(err.Error(), "another process listens there already") {
			t.Error(err)
		}
		if _, err := r.client().Version(t.Context()); err != nil {
			t.Error(err)
		}
	})
	t.Run("one that was replaced is left alone", func(t *testing.T) {
		r := run(t, nil)
		if err := os.Rename(r.socket, r.socket+".old"); err != nil {
			t.Fatal(err)
		}
		run(t, func(o *Options) { o.Socket = r.socket })
		r.stop()
		if _, err := r.client().Version(t.Context()); err != nil {
			t.Error(err)
		}
	})
	for name, test := range map[string]struct {
		prepare func(dir string) error
		want    string
	}{
		"a directory that others can write to": {func(dir string) error { return os.Chmod(dir, 0o775) }, "has mode 0775: other users could replace the socket"},
		"a directory of somebody else":         {func(dir string) error { return os.Chown(dir, alice, alice) }, "belongs to user ID 12001"},
		"a file":                               {func(dir string) error { return os.WriteFile(filepath.Join(dir, "s"), nil, 0o600) }, "it exists and is not a socket"},
	} {
		t.Run(name, func(t *testing.T) {
			testenv.Require(t, testenv.Root)
			dir := directory(t)
			if err := test.prepare(dir); err != nil {
				t.Fatal(err)
			}
			_, err := New(Options{Socket: filepath.Join(dir, "s")})
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "cannot listen on the socket ") {
				t.Errorf("got %v; want ...%s...", err, test.want)
			}
		})
	}
	if _, err := New(Options{}); err == nil || !strings.Contains(err.Error(), "neither a socket nor an address") {
		t.Error(err)
	}
}

const secret = "0123456789abcdef0123456789abcdef"

// tokenFile writes a file with a token.
func tokenFile(t *testing.T, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	if err := errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Chmod(path, mode)); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLoopback(t *testing.T) {
	path := tokenFile(t, secret+"\n", 0o600)
	r := run(t, func(o *Options) { o.Loopback = &Loopback{Address: "127.0.0.1:0", TokenFile: path} })
	address := r.Addresses()[1].String()
	c := dial(t, api.Options{Address: address, TokenFile: path, RetryFor: -1})
	if err := c.FullReport(t.Context()); err != nil {
		t.Error(err)
	}
	wrong := dial(t, api.Options{Address: address, Token: strings.Repeat("x", 32), RetryFor: -1})
	_, err := wrong.Version(t.Context())
	wantCode(t, "a wrong token", err, api.Unauthenticated, "the token is wrong")
	err = wrong.Reports(t.Context(), 0, func(api.Report) error { return nil })
	wantCode(t, "a stream with a wrong token", err, api.Unauthenticated, "the token is wrong")

	for name, header := range map[string]string{"no token": "", "another scheme": "Basic " + secret, "half of it": "Bearer " + secret[:16], "an empty one": "Bearer "} {
		request, err := http.NewRequest(http.MethodPost, "http://"+address+"/execd.v1.Agent/Version", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Authorization", header)
		request.Close = true
		response, err := http.DefaultTransport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != http.StatusUnauthorized || response.Header.Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("%s: %s", name, response.Status)
		}
	}

	// The file may be changed while the agent runs.
	if err := os.WriteFile(path, []byte(strings.Repeat("x", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := wrong.Version(t.Context()); err != nil {
		t.Errorf("with a new token: %v", err)
	}
	wantCode(t, "with the old token", c.FullReport(t.Context()), api.Unauthenticated, "wrong")
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = wrong.Version(t.Context())
	wantCode(t, "a token that all can read", err, api.Unauthenticated, "has mode 0644, expected 0600")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	_, err = wrong.Version(t.Context())
	wantCode(t, "no token file", err, api.Unauthenticated, "no such file")
}

func TestLoopbackRefused(t *testing.T) {
	good := tokenFile(t, secret, 0o600)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(good, link); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		address, token, want string
	}{
		"all addresses":                 {":0", good, "is not a loopback address"},
		"all addresses of IPv4":         {"0.0.0.0:0", good, "is not a loopback address: without certificates, expected one"},
		"all addresses of IPv6":         {"[::]:0", good, "is not a loopback address"},
		"another address":               {"192.0.2.1:0", good, "192.0.2.1:0 is not a loopback address"},
		"no port":                       {"127.0.0.1", good, "missing port"},
		"no token":                      {"127.0.0.1:0", "", "every user of this host can connect"},
		"no token file":                 {"127.0.0.1:0", good + ".not", "no such file"},
		"a token that all can read":     {"127.0.0.1:0", tokenFile(t, secret, 0o644), "has mode 0644, expected 0600"},
		"a token of the group":          {"127.0.0.1:0", tokenFile(t, secret, 0o640), "has mode 0640"},
		"a short token":                 {"127.0.0.1:0", tokenFile(t, "short", 0o600), "at least 32 characters"},
		"a token of several words":      {"127.0.0.1:0", tokenFile(t, secret+" "+secret, 0o600), "without blanks"},
		"a directory":                   {"127.0.0.1:0", t.TempDir(), "not a regular file"},
		"a link":                        {"127.0.0.1:0", link, "too many levels of symbolic links"},
		"an address that is not a name": {"no.such.host.invalid:0", good, "no.such.host.invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := New(Options{Loopback: &Loopback{Address: test.address, TokenFile: test.token}})
			if err == nil {
				s.Close()
			}
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "cannot listen on ") {
				t.Errorf("got %v; want ...%s...", err, test.want)
			}
		})
	}
	if os.Getuid() == 0 {
		if err := os.Chown(good, alice, alice); err != nil {
			t.Fatal(err)
		}
		_, err := New(Options{Loopback: &Loopback{Address: "127.0.0.1:0", TokenFile: good}})
		if err == nil || !strings.Contains(err.Error(), "belongs to user ID 12001") {
			t.Error(err)
		}
	}
}

// TestCertificateExpiresDuringConnection checks that a connection is refused once the certificate
// with which it was made has expired.
func TestCertificateExpiresDuringConnection(t *testing.T) {
	s := &Server{masters: set([]string{"master"})}
	a := newAuthority(t, "ca")
	leaf := a.issue(t, certificate{names: []string{"other", "master"}, until: time.Now().Add(time.Hour)}).Leaf
	state := &tls.ConnectionState{VerifiedChains: chains(leaf)}
	if p, err := s.master(state); err != nil || !p.manager || p.from != "master master" {
		t.Error(p, err)
	}
	leaf.NotAfter = time.Now().Add(-time.Second)
	_, err := s.master(state)
	wantCode(t, "later", err, api.Unauthenticated, "has expired at")
	_, err = s.master(&tls.ConnectionState{})
	wantCode(t, "without a certificate", err, api.Unauthenticated, "no certificate")
	if !slices.Equal(leaf.DNSNames, []string{"other", "master"}) {
		t.Error(leaf.DNSNames)
	}
}
