package deliver

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/messages"
)

func order(r ...messages.Receiver) *Order {
	m := messages.Message{ID: "m1", Event: messages.Ended, Host: "n1", Job: messages.Job{ID: 7, Name: "x", Owner: "alice"}}
	m.Describe()
	return &Order{Message: m, Receivers: r, Version: "1"}
}

// server answers with the statuses, the last one again and again.
func server(t *testing.T, statuses ...int) (r messages.Receiver, requests func() int, last func() (*http.Request, string)) {
	t.Helper()
	var count atomic.Int32
	var request atomic.Pointer[http.Request]
	var body atomic.Value
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		text, _ := io.ReadAll(q.Body)
		request.Store(q)
		body.Store(string(text))
		n := int(count.Add(1))
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(statuses[min(n, len(statuses))-1])
	}))
	t.Cleanup(s.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return messages.Receiver{Kind: messages.Webhook, To: s.URL + "/hook?key=abc", CA: ca, Site: true, Line: 3},
		func() int { return int(count.Load()) }, func() (*http.Request, string) { return request.Load(), body.Load().(string) }
}

// withoutPauses removes the pauses between attempts.
func withoutPauses(t *testing.T) {
	t.Helper()
	before := pauses
	pauses = make([]time.Duration, len(before))
	t.Cleanup(func() { pauses = before })
}

func secret(t *testing.T, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestSign uses the key and the signature of the example of Standard Webhooks 1.0.0.
func TestSign(t *testing.T) {
	key, err := base64.StdEncoding.DecodeString("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	got := Sign(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", []byte(`{"test": 2432232314}`))
	if got != "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=" {
		t.Error(got)
	}
}

func TestWebhook(t *testing.T) {
	withoutPauses(t)
	for name, c := range map[string]struct {
		statuses []int
		requests int
		err      string
	}{
		"the first attempt succeeds":            {statuses: []int{204}, requests: 1},
		"a later attempt succeeds":              {statuses: []int{500, 429, 200}, requests: 3},
		"no attempt succeeds":                   {statuses: []int{503}, requests: 4, err: "the receiver answers 503"},
		"a refusal is final":                    {statuses: []int{403}, requests: 1, err: "the receiver answers 403"},
		"a redirection is not followed":         {statuses: []int{302, 200}, requests: 1, err: "the receiver answers 302"},
		"a redirection of POST is not followed": {statuses: []int{307, 200}, requests: 1, err: "the receiver answers 307"},
	} {
		t.Run(name, func(t *testing.T) {
			r, requests, last := server(t, c.statuses...)
			r.Secret = secret(t, "0123456789abcdef\n", 0o600)
			o := order(r)
			failures := All(t.Context(), o)
			if requests() != c.requests {
				t.Errorf("%d requests, expected %d", requests(), c.requests)
			}
			if c.err == "" && len(failures) > 0 || c.err != "" && (len(failures) != 1 || !strings.Contains(failures[0].Error, c.err) || failures[0].Line != 3) {
				t.Fatalf("%+v", failures)
			}
			q, body := last()
			if want := Sign([]byte("0123456789abcdef"), "m1", q.Header.Get("Webhook-Timestamp"), []byte(body)); q.Header.Get("Webhook-Signature") != want || q.Header.Get("Webhook-Id") != "m1" {
				t.Errorf("%v", q.Header)
			}
			var m messages.Message
			if err := json.Unmarshal([]byte(body), &m); err != nil || m.Text != o.Message.Text || m.Job.ID != 7 {
				t.Errorf("%s (%v)", body, err)
			}
		})
	}
}

// TestHangingWebhook checks that a receiver that does not answer delays no other receiver, and that
// the error does not contain the key in its URL.
func TestHangingWebhook(t *testing.T) {
	entered, leave := make(chan struct{}, 10), make(chan struct{})
	s := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { entered <- struct{}{}; <-leave }))
	t.Cleanup(s.Close)
	t.Cleanup(func() { close(leave) })
	good, _, _ := server(t, 200)
	bad := good
	bad.To = s.URL + "/?key=abc"
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan []Result, 1)
	go func() {
		done <- All(ctx, order(bad, good, messages.Receiver{Kind: messages.Program, To: script(t, "cat >"+fifo)}))
	}()
	<-entered
	// The open of the pipe waits for the program.
	if text, err := os.ReadFile(fifo); err != nil || !strings.Contains(string(text), `"id":"m1"`) {
		t.Errorf("%q (%v)", text, err)
	}
	cancel()
	// The program may be about to exit.
	if r := <-done; len(r) == 0 || !strings.HasPrefix(r[0].Error, "webhook: ") || strings.Contains(r[0].Error, "key=abc") {
		t.Errorf("%+v", r)
	}
}

// TestHostileWebhooks sends messages to receivers that never end their answers, and to one with a certificate of
// an unknown authority.
func TestHostileWebhooks(t *testing.T) {
	withoutPauses(t)
	const most = 64 << 20 // bytes, more than the kernel's buffers have
	for name, c := range map[string]struct {
		begin, part, err string // the server sends the part again and again
		unknown          bool
		requests         int
	}{
		"an endless success":   {begin: "HTTP/1.1 200 OK\r\nContent-Length: 1099511627776\r\n\r\n", part: strings.Repeat("x", 1<<16), requests: 1},
		"an endless refusal":   {begin: "HTTP/1.1 400 No\r\nContent-Length: 1099511627776\r\n\r\n", part: strings.Repeat("\x1b]0;x\a", 1<<13), err: `the receiver answers 400 \x1b]0;x\x07`, requests: 1},
		"endless headers":      {begin: "HTTP/1.1 200 OK\r\n", part: "X-A: " + strings.Repeat("y", 1000) + "\r\n", err: "headers exceeded", requests: 1 + len(pauses)},
		"no HTTP":              {begin: "SSH-2.0-OpenSSH\r\n", part: "\x00", err: "malformed HTTP", requests: 1 + len(pauses)},
		"an unknown authority": {unknown: true, err: "certificate signed by unknown authority"},
	} {
		t.Run(name, func(t *testing.T) {
			var requests atomic.Int32
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				requests.Add(1)
				conn, _, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				sent, err := io.WriteString(conn, c.begin)
				for err == nil && sent < most {
					var n int
					n, err = io.WriteString(conn, c.part)
					sent += n
				}
				if sent >= most {
					t.Errorf("the answer was read to the end")
				}
			}))
			s.Config.ErrorLog = log.New(io.Discard, "", 0) // the server of the unknown authority complains
			s.StartTLS()
			t.Cleanup(s.Close)
			r := messages.Receiver{Kind: messages.Webhook, To: s.URL, Site: true}
			if !c.unknown {
				r.CA = filepath.Join(t.TempDir(), "ca.pem")
				if err := os.WriteFile(r.CA, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			failures := All(t.Context(), order(r))
			if c.err == "" && len(failures) > 0 || c.err != "" && (len(failures) != 1 || !strings.Contains(failures[0].Error, c.err) || len(failures[0].Error) > 500) {
				t.Errorf("%.1000v", failures)
			}
			if int(requests.Load()) != c.requests {
				t.Errorf("%d requests, expected %d", requests.Load(), c.requests)
			}
		})
	}
}

func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil { //nolint:gosec // it is executed
		t.Fatal(err)
	}
	return path
}

func TestPrivateAddresses(t *testing.T) {
	r, requests, _ := server(t, 200)
	r.Site = false
	port := r.To[strings.LastIndexByte(r.To, ':'):]
	for _, host := range []string{"127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "127.1.2.3", "0.0.0.0"} {
		r.To = "https://" + host + port
		if list := All(t.Context(), order(r)); len(list) != 1 {
			t.Errorf("%s: %+v", host, list)
		} else if !strings.Contains(list[0].Error, "private address") {
			t.Logf("%s: %+v", host, list) // a host without IPv6 has other errors
		}
	}
	if requests() > 0 {
		t.Errorf("%d requests", requests())
	}
	for address, want := range map[string]bool{
		"8.8.8.8": true, "2606:4700::1111": true, "::ffff:8.8.8.8": true,
		"10.1.2.3": false, "172.16.0.1": false, "192.168.1.1": false, "169.254.169.254": false, "100.64.0.1": false, "127.0.0.1": false, "0.0.0.0": false,
		"224.0.0.1": false, "255.255.255.255": false, "198.18.0.1": false, "192.0.0.8": false, "::": false, "::1": false, "fe80::1%eth0": false, "fd00::1": false,
		"::ffff:10.0.0.1": false, "::10.0.0.1": false, "64:ff9b::a00:1": false, "2002:a00:1::": false, "ff02::1": false, "fec0::1": false,
	} {
		if got := public(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s: %t, expected %t", address, got, want)
		}
	}
}

func TestSecret(t *testing.T) {
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(secret(t, "0123456789abcdef", 0o600), link); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ path, key, err string }{
		"plain":              {path: secret(t, " 0123456789abcdef\n", 0o600), key: "0123456789abcdef"},
		"base64":             {path: secret(t, "whsec_MDEyMzQ1Njc4OWFiY2RlZg==", 0o400), key: "0123456789abcdef"},
		"bad base64":         {path: secret(t, "whsec_*", 0o600), err: "expected base64"},
		"open to the group":  {path: secret(t, "0123456789abcdef", 0o640), err: "expected a file of your own with mode 0600"},
		"too short":          {path: secret(t, "abc", 0o600), err: "has 3 bytes: expected at least 16"},
		"too long":           {path: secret(t, strings.Repeat("x", 5000), 0o600), err: "cannot read the secret"},
		"a link":             {path: link, err: "a symbolic link"},
		"a pipe or a device": {path: "/dev/zero", err: "it is a device"},
	} {
		t.Run(name, func(t *testing.T) {
			key, err := readSecret(c.path)
			if string(key) != c.key || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("%q, %v, expected %q", key, err, c.err)
			}
		})
	}
}

// TestGiveUpProtection checks that helpers are not protected when the host is out of memory, although
// a daemon may be. In most test environments root may not protect a process, so a file is in the place
// of that of proc(5).
func TestGiveUpProtection(t *testing.T) {
	path := filepath.Join(t.TempDir(), "oom_score_adj")
	for text, want := range map[string]string{"-900\n": "0", "0\n": "0\n", "300\n": "300\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		giveUpProtection(path)
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%q: %q, expected %q (%v)", text, got, want, err)
		}
	}
	giveUpProtection(filepath.Join(path, "missing"))
}

// TestDesktopText checks that texts are escaped for notify-send(1), which replaces escapes as in C and
// then reads the text as markup.
func TestDesktopText(t *testing.T) {
	if got, want := desktopText(`job 7 (<b>\x1b\n&) of alice`), `job 7 (&lt;b&gt;\\x1b\\n&amp;) of alice`; got != want {
		t.Errorf("%s, expected %s", got, want)
	}
}

func TestProgram(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	good := messages.Receiver{Kind: messages.Program, To: script(t, `{ cat; echo "$EXECD_EVENT $EXECD_JOB $EXECD_TEXT"; env; } >`+out)}
	bad := messages.Receiver{Kind: messages.Program, To: script(t, "echo no room >&2; exit 3"), Line: 2}
	t.Setenv("SECRET", "hunter2")
	if list := All(t.Context(), order(good, bad)); len(list) != 1 || list[0].Line != 2 || !strings.Contains(list[0].Error, "exit status 3: no room") {
		t.Errorf("%+v", list)
	}
	text, err := os.ReadFile(out)
	if err != nil || !strings.Contains(string(text), "ended 7 job 7 (x) of alice on n1") || strings.Contains(string(text), "hunter2") {
		t.Errorf("%s (%v)", text, err)
	}
}
