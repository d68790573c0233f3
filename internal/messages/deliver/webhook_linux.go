package deliver

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/execd-project/execd/internal/messages"
	"github.com/execd-project/execd/internal/printable"
	"github.com/execd-project/execd/internal/textfile"
	"github.com/execd-project/execd/internal/userfile"
)

// attemptTimeout is the time of one attempt, with the resolution of the name. pauses are the pauses
// between attempts.
const attemptTimeout = 10 * time.Second

var pauses = []time.Duration{2 * time.Second, 10 * time.Second, 30 * time.Second}

// Timeout is the longest time that a message to a webhook takes.
const Timeout = 4*attemptTimeout + 42*time.Second

// refusedError is an answer or an address for which a further attempt makes no sense.
type refusedError struct{ error }

func (e *refusedError) Unwrap() error { return e.error }

// post sends the message, signed as Standard Webhooks 1.0.0 says (standardwebhooks.com), and again
// after errors that may be temporary.
func post(ctx context.Context, o *Order, r *messages.Receiver, body []byte) error {
	client, err := clientFor(r)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	var key []byte
	if r.Secret != "" {
		if key, err = readSecret(r.Secret); err != nil {
			return err
		}
	}
	for try := 0; ; try++ {
		err := attempt(ctx, client, o, r, key, body)
		if e := (*refusedError)(nil); err == nil || errors.As(err, &e) || try == len(pauses) {
			return withoutURL(err)
		}
		select {
		case <-time.After(pauses[try]):
		case <-ctx.Done():
			return withoutURL(err)
		}
	}
}

// withoutURL removes the URL from an error: it often contains a key, and errors go to a log.
func withoutURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

func attempt(ctx context.Context, client *http.Client, o *Order, r *messages.Receiver, key, body []byte) error {
	ctx, cancel := context.WithTimeoutCause(ctx, attemptTimeout, fmt.Errorf("no answer within %s", attemptTimeout))
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, r.To, bytes.NewReader(body))
	if err != nil {
		return &refusedError{err}
	}
	now := strconv.FormatInt(time.Now().Unix(), 10)
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("User-Agent", "execd/"+o.Version)
	q.Header.Set("Webhook-Id", o.Message.ID)
	q.Header.Set("Webhook-Timestamp", now)
	if key != nil {
		q.Header.Set("Webhook-Signature", Sign(key, o.Message.ID, now, body))
	}
	answer, err := client.Do(q)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	// The connection is not used again, and what the receiver says matters only to people.
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 200))
	switch code := answer.StatusCode; {
	case code >= 200 && code < 300:
		return nil
	default:
		err := fmt.Errorf("the receiver answers %d %s", code, printable.Clip(strings.TrimSpace(string(text)), 200))
		if code >= 500 || code == http.StatusTooManyRequests || code == http.StatusRequestTimeout {
			return err
		}
		return &refusedError{err}
	}
}

// Sign returns the value of the header webhook-signature.
func Sign(key []byte, id, timestamp string, body []byte) string {
	h := hmac.New(sha256.New, key)
	_, _ = io.WriteString(h, id+"."+timestamp+".") // a hash returns no error
	_, _ = h.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(h.Sum(nil))
}

// The length of a key in bytes.
const (
	shortestKey = 16
	longestFile = 4 << 10
)

// readSecret reads the key of signatures from a file that only its owner, who is the user of this
// process, can read. whsec_ and base64 is the form of Standard Webhooks; any other text is the key
// itself, without blanks at its ends.
func readSecret(path string) ([]byte, error) {
	f, err := userfile.Open(path, userfile.NoFollow)
	if err != nil {
		return nil, fmt.Errorf("cannot read the secret: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("cannot read the secret: %w", err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(st.Uid) != os.Geteuid() || info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("the secret %s has mode %04o: expected a file of your own with mode 0600", path, info.Mode().Perm())
	}
	text, err := textfile.ReadAll(f, longestFile)
	if err != nil {
		return nil, fmt.Errorf("cannot read the secret: %w", err)
	}
	key := bytes.TrimSpace(text)
	if coded, ok := bytes.CutPrefix(key, []byte("whsec_")); ok {
		if key, err = base64.StdEncoding.DecodeString(string(coded)); err != nil {
			return nil, fmt.Errorf("the secret %s: expected base64 after whsec_", path)
		}
	}
	if len(key) < shortestKey {
		return nil, fmt.Errorf("the secret %s has %d bytes: expected at least %d", path, len(key), shortestKey)
	}
	return key, nil
}

// clientFor returns a client that uses no proxy, follows no redirections, and checks the address of
// each connection.
func clientFor(r *messages.Receiver) (*http.Client, error) {
	dialer := &net.Dialer{}
	if !r.Site {
		dialer.Control = refusePrivate
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if r.CA != "" {
		text, err := userfile.Read(r.CA, 1<<20)
		if err != nil {
			return nil, fmt.Errorf("cannot read the certificates: %w", err)
		}
		if config.RootCAs, err = x509.SystemCertPool(); err != nil {
			config.RootCAs = x509.NewCertPool()
		}
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s has no certificates in PEM form", r.CA)
		}
	}
	return &http.Client{
		Transport: &http.Transport{
			DialContext: dialer.DialContext, TLSClientConfig: config, DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10,
			ForceAttemptHTTP2: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse // it could lead elsewhere, and the signature is not meant for that place
		},
	}, nil
}

// refusePrivate refuses connections to addresses that are not public, and to those of this host. The
// net package calls it with the address to which it is about to connect, after the name was resolved:
// a name that resolves to a different address the next time changes nothing.
func refusePrivate(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return &refusedError{err}
	}
	if !public(to.Addr()) || own(to.Addr()) {
		return &refusedError{fmt.Errorf("%s is a private address: webhooks of users must have public ones", to.Addr())}
	}
	return nil
}

// special are the networks of IANA's registries of special-purpose addresses that netip has no
// method for, and those in which an address contains another one.
var special = func() (list []netip.Prefix) {
	for _, text := range []string{
		"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
		"::/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20", "5f00::/16", "fec0::/10",
	} {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}()

// public reports whether an address is one of the public Internet.
func public(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	return a.IsGlobalUnicast() && !a.IsPrivate() && !slices.ContainsFunc(special, func(p netip.Prefix) bool { return p.Contains(a) })
}

// own reports whether an address is one of this host.
func own(a netip.Addr) bool {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return true
	}
	return slices.ContainsFunc(list, func(i net.Addr) bool {
		n, ok := i.(*net.IPNet)
		if !ok {
			return false
		}
		mine, ok := netip.AddrFromSlice(n.IP)
		return ok && mine.Unmap() == a.Unmap().WithZone("")
	})
}
