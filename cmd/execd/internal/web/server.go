package web

import (
	"bytes"
	"context"
	"crypto/rand"
	"embed"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/execd-project/execd/cmd/execd/internal/qclient"
	"github.com/execd-project/execd/internal/host/userdb"
)

//go:embed assets
var assets embed.FS

// server answers the requests of users' browsers.
type server struct {
	ctx   context.Context //nolint:containedctx // the life of the streams
	guard *guard
	pages *template.Template
	// begin makes the content for a user.
	begin func(u *userdb.User) content
	// updates is held by the page that is rendered for an update: of all users together only one
	// at a time.
	updates chan struct{}
	leaves  bool // users can sign out

	mu     sync.Mutex
	states map[uint32]*userState // by user ID
}

// userState holds the data and the streams of a signed-in user.
type userState struct {
	user  *userdb.User
	csrf  string
	data  content
	live  *hub
	turns chan struct{} // for the requests that are being answered
	used  time.Time     // guarded by server.mu

	mu      sync.Mutex
	answers []answer // of the last actions, for the next page
}

// content provides the pages of one user.
type content interface {
	// menu lists the pages of the menu.
	menu() []tab
	// fill sets the title, the template and the data of the page of an address.
	fill(ctx context.Context, p *page, u *url.URL) error
	// act carries out an action on a job. It reports false if there is no such action.
	act(r *http.Request, job, action string) (answer, bool)
}

// answer is the output of the command of an action.
type answer struct {
	key, text string
	bad       bool
}

const (
	// maxAnswers is the maximum number of answers kept. Each is shown once, right after its action.
	maxAnswers = 16
	// maxRequests is the maximum number of concurrent requests of a user, besides streams. Others wait.
	maxRequests = 4
	// unused is the time after which the server forgets a user without open pages.
	unused = 10 * time.Minute
)

// newServer returns a server. Its streams end when ctx is done.
func newServer(ctx context.Context, g *guard, begin func(*userdb.User) content) *server {
	s := &server{ctx: ctx, guard: g, begin: begin, updates: make(chan struct{}, 1), states: map[uint32]*userState{}}
	s.pages = template.Must(template.New("").Funcs(functions).ParseFS(assets, "assets/*.html"))
	return s
}

// userStateOf returns the state of a user, creating it on first use.
func (s *server) userStateOf(u *userdb.User) *userState {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.states[u.UID]
	if d == nil {
		for uid, other := range s.states {
			if time.Since(other.used) > unused && other.live.idle() {
				delete(s.states, uid)
			}
		}
		d = &userState{user: u, csrf: s.guard.formToken(u), data: s.begin(u), turns: make(chan struct{}, maxRequests)}
		d.live = newHub(s.ctx, s.updates, func(ctx context.Context, of string) []byte {
			address, err := url.Parse(of)
			if err != nil {
				return nil
			}
			text, _ := s.render(s.build(ctx, d, address), "content")
			return text
		})
		s.states[u.UID] = d
	}
	d.used = time.Now()
	return d
}

// wait waits, after the context is done, until no page is being rendered.
func (s *server) wait() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.states {
		d.live.wait()
	}
}

// page is the data for the templates.
type page struct {
	Status   int
	Title    string
	Menu     []tab
	Template string // of the content
	Path     string // path of the page with its query
	User     string
	CSRF     string
	Leaves   bool // the user can sign out
	Now      time.Time
	Live     bool   // the page is updated automatically
	Problem  string // why there is no content
	Answer   string // output of the command of an action
	Bad      bool   // the action failed
	Body     any
}

// serve answers a request of a user.
func (s *server) serve(w http.ResponseWriter, r *http.Request, u *userdb.User) {
	welcome(r)
	d := s.userStateOf(u)
	if r.URL.Path == "/events" && r.Method == http.MethodGet {
		d.live.serve(w, r)
		return
	}
	select {
	case d.turns <- struct{}{}:
		defer func() { <-d.turns }()
	case <-r.Context().Done():
		return
	}
	mux := http.NewServeMux()
	for _, path := range []string{"/{$}", "/jobs", "/jobs/{job}", "/hosts/{host}", "/shares", "/quotas", "/log"} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) { s.show(w, r, d) })
	}
	mux.HandleFunc("POST /jobs/{job}/{action}", func(w http.ResponseWriter, r *http.Request) { s.act(w, r, d) })
	mux.HandleFunc("POST /leave", func(w http.ResponseWriter, r *http.Request) {
		s.guard.leave(r)
		s.plain(w, http.StatusUnauthorized, "You have signed out. "+s.guard.how)
	})
	mux.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) {
		s.plain(w, http.StatusNotFound, "There is no such page.")
	})
	mux.ServeHTTP(w, r)
}

func (s *server) handler() http.Handler {
	files := http.NewServeMux()
	files.Handle("/", s.guard.wrap(s))
	// Files of the project contain no data of the user, and the page for strangers needs the style.
	for name, kind := range map[string]string{"style.css": "text/css; charset=utf-8", "live.js": "text/javascript; charset=utf-8", "icon.svg": "image/svg+xml"} {
		files.HandleFunc("GET /"+name, func(w http.ResponseWriter, _ *http.Request) {
			text, _ := assets.ReadFile("assets/" + name)
			w.Header().Set("Content-Type", kind)
			w.Header().Set("Content-Security-Policy", policy)
			w.Header().Set("X-Content-Type-Options", "nosniff")
			w.Header().Set("Cross-Origin-Resource-Policy", "same-origin")
			_, _ = w.Write(text)
		})
	}
	return files
}

// plain answers with a page that contains only a sentence.
func (s *server) plain(w http.ResponseWriter, status int, text string) {
	p := &page{Status: status, Title: http.StatusText(status), Template: "plain", Problem: text}
	if status == http.StatusOK {
		p.Title = "execd"
	}
	s.write(w, p)
}

// show answers with a page.
func (s *server) show(w http.ResponseWriter, r *http.Request, d *userState) {
	p := s.build(r.Context(), d, r.URL)
	if key := r.URL.Query().Get("said"); key != "" {
		d.mu.Lock()
		if i := slices.IndexFunc(d.answers, func(a answer) bool { return a.key == key }); i >= 0 {
			p.Answer, p.Bad = d.answers[i].text, d.answers[i].bad
		}
		d.mu.Unlock()
	}
	s.write(w, p)
}

func (s *server) write(w http.ResponseWriter, p *page) {
	text, err := s.render(p, "page")
	if err != nil {
		http.Error(w, "internal error: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(p.Status)
	_, _ = w.Write(text)
}

func (s *server) render(p *page, name string) ([]byte, error) {
	var b bytes.Buffer
	err := s.pages.ExecuteTemplate(&b, name, p)
	return b.Bytes(), err
}

// build returns the page of a URL for a user.
func (s *server) build(ctx context.Context, d *userState, u *url.URL) *page {
	query := u.Query()
	query.Del("said") // it is shown only once
	p := &page{Status: http.StatusOK, Path: u.Path, User: d.user.Name, CSRF: d.csrf, Leaves: s.leaves, Now: time.Now(), Live: true}
	if len(query) > 0 {
		p.Path += "?" + query.Encode()
	}
	p.Menu = d.data.menu()
	err := d.data.fill(ctx, p, u)
	for i := range p.Menu {
		p.Menu[i].Here = p.Menu[i].Name == p.Title
	}
	if err != nil {
		p.Template, p.Problem, p.Status = "plain", err.Error(), http.StatusBadGateway
		if qclient.Refused(err) {
			p.Status = http.StatusNotFound
		}
		if errors.Is(err, context.Canceled) {
			p.Problem = "The server is being stopped."
		}
	}
	return p
}

// act carries out an action on a job, and redirects to the job's page, which shows the answer.
func (s *server) act(w http.ResponseWriter, r *http.Request, d *userState) {
	said, known := d.data.act(r, r.PathValue("job"), r.PathValue("action"))
	if !known {
		s.plain(w, http.StatusNotFound, "There is no such action, or there is nothing to change.")
		return
	}
	said.key = rand.Text()
	d.mu.Lock()
	d.answers = append(d.answers, said)
	d.answers = d.answers[max(len(d.answers)-maxAnswers, 0):]
	d.mu.Unlock()
	http.Redirect(w, r, "/jobs/"+url.PathEscape(r.PathValue("job"))+"?said="+said.key, http.StatusSeeOther)
}
