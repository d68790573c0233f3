package verifier

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/execd-project/execd/internal/host/program"
	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/internal/trust"
	"github.com/execd-project/execd/submit"
)

// mostServers is the maximum number of concurrent verifiers of a site: normally one, and more if it
// hangs or is slow.
const mostServers = 4

// defaultUser is the user of verifiers of a daemon that runs as root, if the configuration names
// none.
const defaultUser = "nobody"

// Server runs the verifiers of a site. One process checks one job after another; while it is busy,
// the server starts further ones.
type Server struct {
	log   Log
	slots chan struct{}

	mu     sync.Mutex
	idle   []*served
	closed bool
	ended  sync.WaitGroup // waits for verifiers that are quitting
}

// served is a verifier that serves several jobs.
type served struct {
	*conversation
	from origin
}

// origin identifies the program of a verifier. If it changes, the verifier is restarted.
type origin struct {
	url      string
	dev, ino uint64
	size     int64
	changed  time.Time
}

// NewServer returns a server without running verifiers. log receives the messages of verifiers, and
// warnings about them.
func NewServer(log Log) *Server {
	return &Server{log: log, slots: make(chan struct{}, mostServers)}
}

// Verify checks a job with the verifier of a jsv_url (sge_types(5)). patience is the timeout for
// each answer. The error is a *RejectedError, or describes the fault of the verifier.
func (s *Server) Verify(ctx context.Context, url string, patience time.Duration, parameters []submit.Parameter, environment []submit.Variable) ([]submit.Correction, error) {
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	user, path, err := split(url)
	if err != nil {
		return nil, err
	}
	from, err := originOf(url, path)
	if err != nil {
		return nil, err
	}
	if v := s.take(from); v != nil {
		changes, err := s.ask(ctx, v, patience, parameters, environment)
		// A verifier that has ended, or has written something since the last job, is not used for
		// this one.
		if err == nil || v.started || ctx.Err() != nil {
			return changes, err
		}
	}
	as, err := s.whom(user, path)
	if err != nil {
		return nil, err
	}
	c, err := talkTo(path, as, s.log, patience)
	if err != nil {
		return nil, err
	}
	return s.ask(ctx, &served{c, from}, patience, parameters, environment)
}

// ask asks a verifier about a job. After its answer the verifier stays available.
func (s *Server) ask(ctx context.Context, v *served, patience time.Duration, parameters []submit.Parameter, environment []submit.Variable) ([]submit.Correction, error) {
	v.patience = patience
	stop := context.AfterFunc(ctx, v.end)
	late := time.AfterFunc(patience, v.end)
	changes, err := v.verify(parameters, environment)
	good := err == nil || errors.As(err, new(*RejectedError))
	if stop() && late.Stop() && good {
		s.give(v)
		return changes, err
	}
	v.end()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.ended.Go(func() { v.quit(false) })
	}
	return changes, err
}

// originOf looks at the program.
func originOf(url, path string) (origin, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return origin{}, &URLError{fmt.Sprintf("JSV file %q does not exist", path)}
	}
	if err := executable(path); err != nil {
		return origin{}, err
	}
	o := origin{url: url}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		// Its owner and its mode count, too.
		o.dev, o.ino, o.size, o.changed = st.Dev, st.Ino, st.Size, time.Unix(st.Ctim.Unix())
	}
	return o, nil
}

// take finds an idle verifier. It drops verifiers of another origin.
func (s *Server) take(from origin) (v *served) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var rest []*served
	for _, x := range s.idle {
		switch {
		case x.from != from:
			s.dismiss(x)
		case v == nil:
			v = x
		default:
			rest = append(rest, x)
		}
	}
	s.idle = rest
	return v
}

// give makes a verifier available for the next job, unless there already is one.
func (s *Server) give(v *served) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.idle) > 0 {
		s.dismiss(v)
		return
	}
	s.idle = append(s.idle, v)
}

func (s *Server) dismiss(v *served) { s.ended.Go(func() { v.quit(true) }) }

// Retire ends verifiers that have nothing to do: the configuration has changed.
func (s *Server) Retire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.idle {
		s.dismiss(v)
	}
	s.idle = nil
}

// Close ends all verifiers. Call it after all calls of Verify have returned.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.Retire()
	s.ended.Wait()
}

// environment returns the environment of a site's verifier.
func environment(id program.Identity) []string {
	list := []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "SHELL=/bin/sh",
		"USER=" + id.Name, "LOGNAME=" + id.Name, "HOME=" + id.Home,
	}
	for _, name := range []string{"SGE_ROOT", "SGE_CELL"} {
		if v, ok := os.LookupEnv(name); ok {
			list = append(list, name+"="+v)
		}
	}
	return list
}

// whom returns the user that a verifier runs as. A daemon that runs as root runs it as root only if
// the URL says so, because the verifier reads values that users choose. It does not run a verifier
// that can be changed by anyone except root and that user.
func (s *Server) whom(user, path string) (whom, error) {
	root := os.Geteuid() == 0
	id := program.Own()
	switch {
	case !root && user != "" && user != id.Name:
		return whom{}, &URLError{fmt.Sprintf("the JSV URL names the user %q, and this daemon is that of %q", user, id.Name)}
	case root && user == "":
		user = defaultUser
	}
	if user != "" {
		var err error
		id, err = program.Lookup(user)
		switch {
		case errors.Is(err, userdb.ErrUnknown):
			return whom{}, &URLError{fmt.Sprintf("user %q specified in JSV URL does not exist", user)}
		case err != nil:
			return whom{}, err
		}
	}
	exposed, err := id.Trusted(path)
	if e, ok := errors.AsType[*trust.Error](err); ok {
		return whom{}, &URLError{fmt.Sprintf("JSV %q is not run as %s: %s", path, id.Name, e)}
	}
	if err != nil {
		return whom{}, err
	}
	if exposed != "" {
		s.log("WARNING", fmt.Sprintf("others can change what runs as %s: %s", id.Name, exposed))
	}
	w := whom{environment: environment(id), directory: "/"}
	if root {
		w.credential = &syscall.Credential{Uid: id.UID, Gid: id.GID, Groups: id.Groups}
	}
	return w, nil
}
