package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

const (
	patience = 3 * time.Minute
	secret   = "0123456789abcdef0123456789abcdef"
)

// something starts a server with the handler h, and returns a client of it.
func something(t *testing.T, h http.HandlerFunc, change ...func(*Options)) *Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	o := Options{
		Address: s.Listener.Addr().String(), Token: secret, RetryFor: patience, PauseMin: time.Microsecond, PauseMax: time.Millisecond,
	}
	for _, f := range change {
		f(&o)
	}
	c, err := Dial(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// say writes an answer. It ignores the error if the client has closed the connection.
func say(w io.Writer, text string) { _, _ = io.WriteString(w, text) }

// skip reads the whole message. After that a server notices if the client closes the connection.
func skip(r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }

func wantCode(t *testing.T, err error, code Code, text string) {
	t.Helper()
	e, ok := errors.AsType[*Error](err)
	if !ok || e == nil || e.Code != code || !strings.Contains(e.Error(), text) {
		t.Errorf("got %v; want %s: ...%s...", err, code, text)
	}
}

func TestDial(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("two words\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		options Options
		want    string
	}{
		"nothing":                     {Options{}, "expected either the address of an agent or the path of its socket"},
		"both":                        {Options{Address: "a:1", Socket: "/s"}, "expected either the address"},
		"no certificates":             {Options{Address: "a:1"}, "cannot talk to the agent a:1: certificates are missing: an address needs them, or a token if it is a loopback address"},
		"a token on a socket":         {Options{Socket: "/s", Token: "x"}, "cannot be used with a Unix socket"},
		"certificates on a socket":    {Options{Socket: "/s", TLS: &TLS{}}, "cannot be used with a Unix socket"},
		"certificates without files":  {Options{Address: "a:1", TLS: &TLS{}}, "TLS needs three files"},
		"certificates and a token":    {Options{Address: "a:1", TLS: &TLS{}, TokenFile: "x"}, "cannot be used together"},
		"certificates without a port": {Options{Address: "a", TLS: &TLS{}}, "missing port"},
		"files that are not there":    {Options{Address: "a:1", TLS: &TLS{CA: "/no", Certificate: "/no", Key: "/no"}}, "/no: no such file"},
		"a missing token file":        {Options{Address: "a:1", TokenFile: "/no"}, "cannot read the token: open /no"},
		"a token of two words":        {Options{Address: "a:1", TokenFile: file}, "expected one word"},
		"a token with a line's end":   {Options{Address: "a:1", Token: "a\nX: y"}, "expected one word"},
	} {
		if _, err := Dial(test.options); err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "cannot talk to the agent") {
			t.Errorf("%s: got %v; want ...%s...", name, err, test.want)
		}
	}
}

// TestTokenIsSentToLoopbackOnly checks that a token is not sent to another host.
func TestTokenIsSentToLoopbackOnly(t *testing.T) {
	for address, here := range map[string]bool{"127.0.0.1": true, "127.8.8.8": true, "::1": true, "192.0.2.1": false, "fe80::1": false, "0.0.0.0": false} {
		if err := checkHere(&net.TCPAddr{IP: net.ParseIP(address), Port: 1}); errors.Is(err, errNotHere) == here {
			t.Errorf("%s: %v", address, err)
		}
	}
	if err := checkHere(&net.UnixAddr{Name: "/s"}); err == nil {
		t.Error("a socket is a loopback address")
	}
	if !distrusted(fmt.Errorf("x: %w", errNotHere)) {
		t.Error("it is tried again")
	}
}

// TestCall checks that a call sends the expected request, and ignores unknown fields of the answer.
func TestCall(t *testing.T) {
	c := something(t, func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got := []string{r.Method, r.URL.Path, r.Header.Get("Content-Type"), r.Header.Get("Authorization"), r.Header.Get(EpochHeader), string(b)}
		want := []string{"POST", "/execd.v1.Agent/Job", "application/json", "Bearer " + secret, "5", `{"job":7,"task":0}`}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		say(w, `{"job":{"job":7,"task":0,"state":"running","new":[1,{}]},"newer":null}`)
	}, func(o *Options) { o.Epoch = 5 })
	j, err := c.Job(t.Context(), ID{Job: 7})
	if diff := cmp.Diff(Job{ID: ID{Job: 7}, State: Running}, j); diff != "" || err != nil {
		t.Error(err, diff)
	}
}

func TestAnswers(t *testing.T) {
	for name, test := range map[string]struct {
		status int
		header string // Retry-After
		body   string
		code   Code // empty for one that is not final
		want   string
	}{
		"an error of the agent":         {400, "", `{"code":"failed_precondition","message":"no room"}`, FailedPrecondition, "failed_precondition: no room"},
		"one that may pass":             {503, "", `{"code":"unavailable","message":"drained"}`, Unavailable, "drained"},
		"one with a code of the future": {418, "", `{"code":"new","message":"m","details":[]}`, "new", "m"},
		"a lack of connections":         {429, "1", `{"code":"resource_exhausted","message":"m"}`, "", ""},
		"a proxy":                       {502, "", "<html>", "", ""},
		"a proxy that is busy":          {503, "", "", "", ""},
		"a web server":                  {404, "", "<html>no such page", Unimplemented, `no agent answers with HTTP status 404: "<html>no`},
		"a closed door":                 {403, "", "", PermissionDenied, ""},
		"a login":                       {401, "", "", Unauthenticated, ""},
		"another protocol":              {400, "", "", Internal, ""},
		"a way elsewhere":               {302, "", "", Unknown, "302"},
		"a failure":                     {500, "", "", Unknown, ""},
		"a good status without JSON":    {200, "", "hello", Unknown, "cannot read the answer"},
		"a good status with other JSON": {200, "", `[]`, Unknown, "cannot read the answer"},
	} {
		t.Run(name, func(t *testing.T) {
			calls := 0
			c := something(t, func(w http.ResponseWriter, _ *http.Request) {
				if calls++; calls > 3 {
					say(w, `{"host":"n1"}`)
					return
				}
				w.Header().Set("Location", "http://192.0.2.1/")
				if test.header != "" {
					w.Header().Set("Retry-After", test.header)
				}
				w.WriteHeader(test.status)
				say(w, test.body)
			})
			h, err := c.Health(t.Context())
			if test.code == "" {
				if err != nil || h.Host != "n1" || calls != 4 {
					t.Errorf("after %d calls: %+v, %v", calls, h, err)
				}
				return
			}
			if wantCode(t, err, test.code, test.want); calls != 1 {
				t.Errorf("%d calls", calls)
			}
		})
	}
}

// TestStatuses checks that the codes have Connect's HTTP statuses, and that the client reads these
// statuses as Connect's codes for them.
func TestStatuses(t *testing.T) {
	want := map[Code]int{
		Canceled: 499, Unknown: 500, InvalidArgument: 400, DeadlineExceeded: 504, NotFound: 404, AlreadyExists: 409, PermissionDenied: 403,
		ResourceExhausted: 429, FailedPrecondition: 400, Unimplemented: 501, Internal: 500, Unavailable: 503, Unauthenticated: 401, "new": 500,
	}
	for code, status := range want {
		if got := code.Status(); got != status {
			t.Errorf("%s has status %d, want %d", code, got, status)
		}
	}
}

func TestRetry(t *testing.T) {
	gone := filepath.Join(t.TempDir(), "s")
	lost := 0
	c, err := Dial(Options{Socket: gone, RetryFor: 20 * time.Millisecond, PauseMin: time.Millisecond, Lost: func(error) { lost++ }})
	if err != nil {
		t.Fatal(err)
	}
	for lost == 0 && c.options.RetryFor < patience { // on a machine that stands still there is no time for a second try
		_, err = c.Version(t.Context())
		wantCode(t, err, Unavailable, "cannot reach the agent "+gone)
		if !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
		c.options.RetryFor *= 2
	}
	if lost == 0 {
		t.Error("it is not tried again")
	}

	ctx, cancel := context.WithCancel(t.Context())
	c.options.RetryFor = patience
	c.options.Lost = func(error) { cancel() }
	_, err = c.Version(ctx)
	wantCode(t, err, Unavailable, "cannot reach")

	c.options.RetryFor = -1
	c.options.Lost = func(error) { t.Error("it is tried again") }
	_, err = c.Version(t.Context())
	wantCode(t, err, Unavailable, "cannot reach")

	// Signals are sent once.
	c.options.RetryFor = patience
	wantCode(t, c.Signal(t.Context(), ID{Job: 7}, Usr1), Unavailable, "cannot reach")
	wantCode(t, c.Signal(t.Context(), ID{Job: 7}, Usr2), Unavailable, "cannot reach")
	_, err = c.Version(ctx)
	wantCode(t, err, Canceled, "cannot reach")
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestTimeout checks that the client repeats a call that is not answered in time.
func TestTimeout(t *testing.T) {
	var mu sync.Mutex
	calls := 0
	c := something(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		calls++
		first := calls == 1
		mu.Unlock()
		if first {
			skip(r)
			<-r.Context().Done()
			return
		}
		say(w, `{}`)
	}, func(o *Options) { o.Timeout = 500 * time.Millisecond })
	if err := c.FullReport(t.Context()); err != nil || calls < 2 {
		t.Errorf("%d calls, %v", calls, err)
	}
}

// TestPacking checks that each text arrives unchanged, whether it is UTF-8 or not, and that sending
// does not change the message.
func TestPacking(t *testing.T) {
	text := rapid.StringOf(rapid.RuneFrom([]rune{'a', 'é', '"', '\n', 0}))
	text = rapid.OneOf(text, rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }))
	rapid.Check(t, func(t *rapid.T) {
		s := Start{Command: rapid.SliceOf(text).Draw(t, "command"), Script: text.Draw(t, "script"), Directory: text.Draw(t, "directory")}
		s.Environment = map[string]string{"A": text.Draw(t, "a"), "B": text.Draw(t, "b")}
		before := fmt.Sprint(s)
		b, err := json.Marshal(s.packed())
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(s) != before {
			t.Fatalf("%v has become %v", before, s)
		}
		got := Start{Environment: map[string]string{}}
		if err := json.Unmarshal(b, &got); err != nil {
			t.Fatal(err)
		}
		for _, w := range got.CommandBase64 {
			got.Command = append(got.Command, string(w))
		}
		got.Script += string(got.ScriptBase64)
		got.Directory += string(got.DirectoryBase64)
		for name, v := range got.EnvironmentBase64 {
			got.Environment[name] = string(v)
		}
		if fmt.Sprintf("%q %q %q %q", got.Command, got.Script, got.Directory, got.Environment) !=
			fmt.Sprintf("%q %q %q %q", s.Command, s.Script, s.Directory, s.Environment) {
			t.Errorf("%+v arrives as %+v", s, got)
		}
		task := TaskStart{Command: s.Command, Environment: s.Environment, Directory: s.Directory}.packed()
		p := s.packed()
		if diff := cmp.Diff([]any{p.Command, p.CommandBase64, p.Environment, p.EnvironmentBase64, p.Directory, p.DirectoryBase64},
			[]any{task.Command, task.CommandBase64, task.Environment, task.EnvironmentBase64, task.Directory, task.DirectoryBase64}); diff != "" {
			t.Errorf("a task is packed otherwise: %s", diff)
		}
	})
}

// TestSequence checks that each call of a master with an epoch has its own number, which its
// repetitions share.
func TestSequence(t *testing.T) {
	for epoch, numbered := range map[uint64]bool{0: false, 5: true} {
		var got []string
		c := something(t, func(w http.ResponseWriter, r *http.Request) {
			got = append(got, r.Header.Get(SequenceHeader))
			if len(got) == 2 {
				w.WriteHeader(http.StatusBadGateway) // from a proxy
				return
			}
			say(w, `{}`)
		}, func(o *Options) { o.Epoch = epoch })
		for _, o := range []Order{Suspend, Resume, Usr1} {
			if err := c.Signal(t.Context(), ID{Job: 7}, o); err != nil {
				t.Error(err)
			}
		}
		if !numbered {
			if len(got) != 4 || strings.Join(got, "") != "" {
				t.Errorf("%q", got)
			}
			continue
		}
		if len(got) != 4 || got[1] != got[2] || len(got[0]) < 16 || got[0] >= got[1] || got[2] >= got[3] {
			t.Errorf("%q", got)
		}
	}
}
