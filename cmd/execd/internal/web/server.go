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
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/execd-project/execd/cmd/execd/internal/qclient"
)

//go:embed assets
var assets embed.FS

// server answers the requests of the caller's browsers.
type server struct {
	data  *source
	guard *guard
	user  string
	pages *template.Template
	live  *hub

	mu      sync.Mutex
	answers []answer // of the last actions, for the next page
}

// answer is the output of the command of an action.
type answer struct {
	key, text string
	bad       bool
}

// maxAnswers is the maximum number of answers kept. Each is shown once, right after its action.
const maxAnswers = 16

// newServer returns a server. Its streams end when ctx is done.
func newServer(ctx context.Context, session *qclient.Session, g *guard, user string) *server {
	s := &server{data: newSource(session), guard: g, user: user}
	s.pages = template.Must(template.New("").Funcs(functions).ParseFS(assets, "assets/*.html"))
	s.live = newHub(ctx, func(ctx context.Context, of string) []byte {
		u, err := url.Parse(of)
		if err != nil {
			return nil
		}
		text, _ := s.render(s.build(ctx, u), "content")
		return text
	})
	return s
}

// page is the data for the templates.
type page struct {
	Status   int
	Title    string
	Template string // of the content
	Path     string // path of the page with its query
	User     string
	CSRF     string
	Now      time.Time
	Live     bool   // the page is updated automatically
	Problem  string // why there is no content
	Answer   string // output of the command of an action
	Bad      bool   // the action failed
	Body     any
}

func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	for _, path := range []string{"/{$}", "/jobs", "/jobs/{job}", "/hosts/{host}", "/shares", "/quotas"} {
		mux.HandleFunc("GET "+path, s.show)
	}
	mux.HandleFunc("POST /jobs/{job}/{action}", s.act)
	mux.HandleFunc("GET /events", s.live.serve)
	mux.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) {
		s.plain(w, http.StatusNotFound, "There is no such page.")
	})
	files := http.NewServeMux()
	files.Handle("/", s.guard.wrap(mux, s.plain))
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
func (s *server) show(w http.ResponseWriter, r *http.Request) {
	p := s.build(r.Context(), r.URL)
	if key := r.URL.Query().Get("said"); key != "" {
		s.mu.Lock()
		if i := slices.IndexFunc(s.answers, func(a answer) bool { return a.key == key }); i >= 0 {
			p.Answer, p.Bad = s.answers[i].text, s.answers[i].bad
		}
		s.mu.Unlock()
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

// build returns the page of a URL.
func (s *server) build(ctx context.Context, u *url.URL) *page {
	query := u.Query()
	query.Del("said") // it is shown only once
	p := &page{Status: http.StatusOK, Path: u.Path, User: s.user, CSRF: s.guard.csrf, Now: time.Now(), Live: true}
	if len(query) > 0 {
		p.Path += "?" + query.Encode()
	}
	first, rest, _ := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
	var err error
	switch {
	case first == "" && rest == "":
		p.Title, p.Template = "Overview", "overview"
		p.Body, err = s.data.overview(ctx)
	case first == "jobs" && rest == "":
		p.Title, p.Template = "Jobs", "jobs"
		p.Body, err = s.data.jobs(ctx, s.user, query)
	case first == "jobs":
		p.Title, p.Template = "Job "+rest, "job"
		number, bad := strconv.ParseUint(rest, 10, 31)
		if bad != nil || number == 0 {
			err = &qclient.RefusedError{Message: "The number of a job is expected, such as 17."}
			break
		}
		p.Body, err = s.data.job(ctx, s.user, int(number), query, p.Now)
	case first == "hosts":
		p.Title, p.Template = "Host "+rest, "host"
		p.Body, err = s.data.host(ctx, rest)
	case first == "shares" && rest == "":
		p.Title, p.Template = "Share tree", "shares"
		p.Body, err = s.data.shares(ctx)
	case first == "quotas" && rest == "":
		p.Title, p.Template = "Quotas", "quotas"
		p.Body, err = s.data.quotas(ctx)
	default:
		err = &qclient.RefusedError{Message: "There is no such page."}
	}
	if err != nil {
		p.Template, p.Problem, p.Status = "plain", err.Error(), http.StatusBadGateway
		if qclient.Refused(err) {
			p.Status = http.StatusNotFound
		}
		if errors.Is(err, context.Canceled) {
			p.Problem = "execd web is being stopped."
		}
	}
	return p
}

// actions lists the commands of the buttons on the page of a job.
var actions = map[string][]string{
	"delete": {"qdel"}, "hold": {"qhold"}, "release": {"qrls"}, "requeue": {"qmod", "-rj"},
	"suspend": {"qmod", "-sj"}, "resume": {"qmod", "-usj"}, "clear": {"qmod", "-cj"},
}

// act runs the Grid Engine command for an action on a job, and redirects to the job's page, which
// shows the output.
func (s *server) act(w http.ResponseWriter, r *http.Request) {
	command := actions[r.PathValue("action")]
	number, err := strconv.ParseUint(r.PathValue("job"), 10, 31)
	if command == nil || err != nil || number == 0 {
		s.plain(w, http.StatusNotFound, "There is no such action.")
		return
	}
	said := answer{key: rand.Text()}
	a, err := s.data.session.Run(r.Context(), command[0], append(command[1:len(command):len(command)], strconv.FormatUint(number, 10))...)
	if err != nil {
		said.text, said.bad = err.Error(), true
	} else {
		said.text, said.bad = a.Message(), a.Status != 0
	}
	s.data.forget()
	s.mu.Lock()
	s.answers = append(s.answers, said)
	s.answers = s.answers[max(len(s.answers)-maxAnswers, 0):]
	s.mu.Unlock()
	http.Redirect(w, r, "/jobs/"+strconv.FormatUint(number, 10)+"?said="+said.key, http.StatusSeeOther)
}
