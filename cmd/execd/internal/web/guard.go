package web

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// guard keeps other users and web sites away from the caller's pages:
//
//   - Other users of the host reach the port, but have neither the token nor the cookie. The token is
//     in the link that the command prints, and works once. Scripts cannot read the cookie, and the browser
//     does not send it with requests that other sites cause.
//   - Browsers send cookies to all ports of a host. The link therefore contains a unique host name,
//     RANDOM.localhost, which browsers resolve to the loopback interface (RFC 6761, section 6.3). A server
//     of another user on another port of 127.0.0.1 does not get the cookie.
//   - A web site that changes the address of its name to 127.0.0.1 (DNS rebinding) is refused because
//     of the name in its requests (Host).
//   - A web site that makes the caller's browser send a form is refused because of the origin of the
//     request, and by a token in each form.
type guard struct {
	hosts  []string // names with the port; the first one is used in links
	cookie string   // name of the cookie
	csrf   string   // token in each form
	origin *http.CrossOriginProtection
	opened func(link string) // called with the next link when a link was used; may be nil

	mu       sync.Mutex
	token    string            // works once
	sessions map[[32]byte]bool // hashes of the cookies of browsers
}

// maxSessions is the maximum number of browsers.
const maxSessions = 64

func newGuard(port int) *guard {
	p := strconv.Itoa(port)
	name := "execd-" + strings.ToLower(rand.Text()[:12]) + ".localhost"
	g := &guard{
		hosts:    []string{net.JoinHostPort(name, p), net.JoinHostPort("127.0.0.1", p), net.JoinHostPort("localhost", p)},
		cookie:   "execd-web-" + p,
		csrf:     rand.Text(),
		token:    rand.Text(),
		origin:   http.NewCrossOriginProtection(),
		sessions: map[[32]byte]bool{},
	}
	return g
}

// openPath is the path of the links.
const openPath = "/open"

// link returns the link that is valid now.
func (g *guard) link() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return "http://" + g.hosts[0] + openPath + "?token=" + g.token
}

// enter exchanges a token for a cookie. ok is false if the token is wrong or was used before.
func (g *guard) enter(token string) (value string, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if subtle.ConstantTimeCompare([]byte(token), []byte(g.token)) != 1 || len(g.sessions) >= maxSessions {
		return "", false
	}
	g.token = rand.Text()
	value = rand.Text() + rand.Text()
	g.sessions[sha256.Sum256([]byte(value))] = true
	return value, true
}

// known reports whether a request has the cookie of a browser that has entered.
func (g *guard) known(r *http.Request) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range r.CookiesNamed(g.cookie) {
		if g.sessions[sha256.Sum256([]byte(c.Value))] {
			return true
		}
	}
	return false
}

// policy allows a page to load only its own style and script, and to send forms only to this
// server.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// wrap returns a handler that passes on only requests of the caller's browsers. deny answers all
// others.
func (g *guard) wrap(next http.Handler, deny func(w http.ResponseWriter, status int, text string)) http.Handler {
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
		case !slices.Contains(g.hosts, strings.ToLower(r.Host)):
			deny(w, http.StatusMisdirectedRequest, "This server does not have the name in the address. Open the link that execd web prints.")
		case g.origin.Check(r) != nil:
			deny(w, http.StatusForbidden, "Another web site sent this request.")
		case r.URL.Path == openPath && r.Method == http.MethodGet:
			g.open(w, r, deny)
		case !g.known(r):
			deny(w, http.StatusUnauthorized, "Open the link that execd web prints. It works once; after that the command prints another one.")
		case r.Method == http.MethodPost && !g.form(w, r):
			deny(w, http.StatusForbidden, "The form is not from this run of execd web. Load the page again, and try again.")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// maxForm is the maximum size of a form, in bytes.
const maxForm = 16 << 10

// form reports whether a form contains the token of the pages.
func (g *guard) form(w http.ResponseWriter, r *http.Request) bool {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	return subtle.ConstantTimeCompare([]byte(r.PostFormValue("csrf")), []byte(g.csrf)) == 1
}

// open gives a browser its cookie. The page then loads the overview by itself. A redirect would
// count as part of the request of the site that contains the link, such as a terminal in a browser,
// and would lack the cookie (SameSite=Strict).
func (g *guard) open(w http.ResponseWriter, r *http.Request, deny func(http.ResponseWriter, int, string)) {
	value, ok := g.enter(r.URL.Query().Get("token"))
	if !ok {
		deny(w, http.StatusForbidden, "This link was used before, or is wrong. Open the link that execd web printed last.")
		return
	}
	http.SetCookie(w, &http.Cookie{Name: g.cookie, Value: value, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
	w.Header().Set("Refresh", "0; url=/")
	deny(w, http.StatusOK, "Welcome.")
	if g.opened != nil {
		g.opened(g.link())
	}
}
