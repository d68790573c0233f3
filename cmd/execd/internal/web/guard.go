package web

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"encoding/hex"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/execd-project/execd/internal/host/userdb"
)

// guard keeps other users and web sites away from the pages of a user:
//
//   - A browser enters with a link, which works once and belongs to one user, and gets a cookie. Scripts
//     cannot read the cookie, and the browser does not send it with requests that other sites cause.
//     A daemon also accepts certificates of users.
//   - A web site that changes the address of its name to that of this server (DNS rebinding) is refused
//     because of the name in its requests (Host).
//   - A web site that makes the user's browser send a form is refused because of the origin of the
//     request, and by a token in each form.
//
// Browsers send cookies to all ports of a host. The links of execd web therefore contain a unique host
// name, RANDOM.localhost, which browsers resolve to the loopback interface (RFC 6761, section 6.3). A
// server of another user on another port of 127.0.0.1 does not get the cookie. The cookies of a daemon
// go over TLS only.
type guard struct {
	rules
	origin *http.CrossOriginProtection
	key    [32]byte // of the tokens in forms

	mu       sync.Mutex
	links    map[[32]byte]*pass // by the hash of their token
	sessions map[[32]byte]*pass // by the hash of the cookie of a browser
}

// rules are the differences between execd web and a daemon.
type rules struct {
	base   string                 // of links: scheme, host and port
	named  func(host string) bool // reports whether requests may name this host and port
	cookie string                 // name of the cookie
	secure bool                   // the pages are served over TLS
	how    string                 // how to get a link
	// The lifetimes of links and sessions; 0 for no limit.
	linkTime, sessionTime time.Duration
	// The maximum numbers of a user. Of a user who has more links or sessions, the oldest one ends if
	// replace is true; otherwise the new one is refused.
	most    int
	replace bool
	// opened is called when a user has entered with a link. It may be nil.
	opened func(u *userdb.User)
	// certified returns the user of a verified certificate. It is nil if there are none.
	certified func(c *x509.Certificate) (*userdb.User, error)
}

// pass is a link that was not used yet, or the session of a browser.
type pass struct {
	user *userdb.User
	at   time.Time // when it was made
}

func newGuard(r rules) *guard {
	g := &guard{rules: r, origin: http.NewCrossOriginProtection(), links: map[[32]byte]*pass{}, sessions: map[[32]byte]*pass{}}
	_, _ = rand.Read(g.key[:]) // never fails
	return g
}

// ownRules are the rules of execd web on a port of the loopback interface.
func ownRules(port int) rules {
	p := strconv.Itoa(port)
	name := net.JoinHostPort("execd-"+strings.ToLower(rand.Text()[:12])+".localhost", p)
	hosts := []string{name, net.JoinHostPort("127.0.0.1", p), net.JoinHostPort("localhost", p)}
	const most = 64
	return rules{
		base: "http://" + name, cookie: "execd-web-" + p, most: most,
		named: func(host string) bool { return slices.Contains(hosts, host) },
		how:   "Open the link that execd web printed last. It works once; after that the command prints another one.",
	}
}

// openPath is the path of the links.
const openPath = "/open"

// link makes a link for a user.
func (g *guard) link(u *userdb.User) string {
	token := rand.Text() + rand.Text()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.add(g.links, token, u, g.linkTime, true)
	return g.base + openPath + "?token=" + url.QueryEscape(token)
}

// add adds a pass, if the user may have more. The caller holds g.mu.
func (g *guard) add(to map[[32]byte]*pass, secret string, u *userdb.User, life time.Duration, replace bool) bool {
	now := time.Now()
	var oldest [32]byte
	n := 0
	for key, p := range to {
		switch {
		case life > 0 && now.Sub(p.at) > life:
			delete(to, key)
		case p.user.UID == u.UID:
			if n == 0 || p.at.Before(to[oldest].at) {
				oldest = key
			}
			n++
		}
	}
	if n >= g.most {
		if !replace {
			return false
		}
		delete(to, oldest)
	}
	to[sha256.Sum256([]byte(secret))] = &pass{u, now}
	return true
}

// enter exchanges the token of a link for a cookie. ok is false if the token is wrong, too old or was
// used before.
func (g *guard) enter(token string) (cookie string, u *userdb.User, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	key := sha256.Sum256([]byte(token)) // so that the time of the search tells nothing
	p := g.links[key]
	if p == nil {
		return "", nil, false
	}
	delete(g.links, key)
	cookie = rand.Text() + rand.Text()
	if g.linkTime > 0 && time.Since(p.at) > g.linkTime || !g.add(g.sessions, cookie, p.user, g.sessionTime, g.replace) {
		return "", nil, false
	}
	return cookie, p.user, true
}

// visitor returns the user of a request; nil for a stranger.
func (g *guard) visitor(r *http.Request) *userdb.User {
	g.mu.Lock()
	for _, c := range r.CookiesNamed(g.cookie) {
		p := g.sessions[sha256.Sum256([]byte(c.Value))]
		if p != nil && (g.sessionTime == 0 || time.Since(p.at) <= g.sessionTime) {
			g.mu.Unlock()
			return p.user
		}
	}
	g.mu.Unlock()
	if g.certified == nil || r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return nil
	}
	leaf := r.TLS.VerifiedChains[0][0]
	if time.Now().After(leaf.NotAfter) { // the handshake may have been long ago
		return nil
	}
	u, err := g.certified(leaf)
	if err != nil {
		return nil
	}
	return u
}

// leave ends the session of a browser.
func (g *guard) leave(r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range r.CookiesNamed(g.cookie) {
		delete(g.sessions, sha256.Sum256([]byte(c.Value)))
	}
}

// formToken returns the token in the forms of a user.
func (g *guard) formToken(u *userdb.User) string {
	h := hmac.New(sha256.New, g.key[:])
	h.Write([]byte(strconv.FormatUint(uint64(u.UID), 10)))
	return hex.EncodeToString(h.Sum(nil))
}

// policy allows a page to load only its own style and script, and to send forms only to this
// server.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// pages answer the requests of users.
type pages interface {
	// serve answers a request of a user.
	serve(w http.ResponseWriter, r *http.Request, u *userdb.User)
	// plain answers with a page that contains only a sentence.
	plain(w http.ResponseWriter, status int, text string)
}

// wrap passes on only requests of the users' browsers.
func (g *guard) wrap(to pages) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range map[string]string{
			"Content-Security-Policy":      policy,
			"X-Content-Type-Options":       "nosniff",
			"X-Frame-Options":              "DENY",
			"Referrer-Policy":              "same-origin",
			"Cross-Origin-Opener-Policy":   "same-origin",
			"Cross-Origin-Resource-Policy": "same-origin",
			"Cache-Control":                "no-store",
		} {
			w.Header().Set(name, value)
		}
		switch {
		case !g.named(strings.ToLower(r.Host)):
			to.plain(w, http.StatusMisdirectedRequest, "This server does not have the name in the address. "+g.how)
			return
		case g.origin.Check(r) != nil:
			to.plain(w, http.StatusForbidden, "Another web site sent this request.")
			return
		case r.URL.Path == openPath && r.Method == http.MethodGet:
			g.open(w, r, to)
			return
		}
		u := g.visitor(r)
		switch {
		case u == nil:
			to.plain(w, http.StatusUnauthorized, g.how)
		case r.Method == http.MethodPost && !g.form(w, r, u):
			to.plain(w, http.StatusForbidden, "The form is not of this page, or the server was started again. Load the page again, and try again.")
		default:
			to.serve(w, r, u)
		}
	})
}

// maxForm is the maximum size of a form, in bytes.
const maxForm = 16 << 10

// form reports whether a form contains the token of the pages of a user.
func (g *guard) form(w http.ResponseWriter, r *http.Request, u *userdb.User) bool {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	return subtle.ConstantTimeCompare([]byte(r.PostFormValue("csrf")), []byte(g.formToken(u))) == 1
}

// open gives a browser its cookie. The page then loads the overview by itself. A redirect would
// count as part of the request of the site that contains the link, such as a terminal in a browser,
// and would lack the cookie (SameSite=Strict).
func (g *guard) open(w http.ResponseWriter, r *http.Request, to pages) {
	value, u, ok := g.enter(r.URL.Query().Get("token"))
	if !ok {
		to.plain(w, http.StatusForbidden, "This link was used before, is too old, or is wrong. "+g.how)
		return
	}
	welcome(r)
	http.SetCookie(w, &http.Cookie{
		Name: g.cookie, Value: value, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: g.secure, MaxAge: int(g.sessionTime.Seconds()),
	})
	w.Header().Set("Refresh", "0; url=/")
	to.plain(w, http.StatusOK, "Welcome.")
	if g.opened != nil {
		g.opened(u)
	}
}
