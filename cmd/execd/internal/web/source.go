package web

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/execd-project/execd/cmd/execd/internal/qclient"
	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/qstat"
)

// source provides the data of the pages of one user.
type source struct {
	session *qclient.Session
	// views are the answers to this user, and common those that are the same for all users. Both may
	// be the same.
	views, common *views
	// open opens files with the rights of the user.
	open opener
	// ofOwner returns the function that opens the output files of another user's job, whose paths that
	// user chose. Managers have no more rights to these files than the kernel gives them; root's pages
	// open them with the rights of the owner.
	ofOwner func(owner string) (opener, error)
	// records opens the accounting file.
	records func(path string) (*os.File, error)
	// onlyRecent limits the accounting records of a job to the end of the file.
	onlyRecent bool

	mu        sync.Mutex
	histories map[int]*history // by job
	reading   chan struct{}    // for files that are being read
}

// opener opens a file for reading.
type opener func(path string) (*os.File, error)

// maxReading is the maximum number of files of a user that are being read. A file system may not
// answer.
const maxReading = 4

// newSource returns the source for a user. common may be nil.
func newSource(session *qclient.Session, common *views, u *userdb.User, open opener) *source {
	s := &source{session: session, views: newViews(), common: common, open: open, records: open, histories: map[int]*history{}, reading: make(chan struct{}, maxReading)}
	if s.common == nil {
		s.common = s.views
	}
	s.ofOwner = func(string) (opener, error) { return open, nil }
	if u.UID == 0 {
		s.ofOwner = func(owner string) (opener, error) {
			of, err := userdb.System().User(owner)
			if err != nil {
				return nil, err
			}
			return userFile(of), nil
		}
	}
	return s
}

// views are answers of the daemon. Pages that need the same answer within a short time share it.
type views struct {
	mu    sync.Mutex
	found map[string]*view
}

// view is the output of a command, which may not have arrived yet.
type view struct {
	ready chan struct{}
	doc   *qstat.Document
	err   error
}

// fresh is the minimum time for which a view is reused.
const fresh = time.Second

func newViews() *views { return &views{found: map[string]*view{}} }

// everybodys are the commands whose output is the same for all users.
var everybodys = map[string]bool{"qhost": true, "sge_share_mon": true}

// ask returns the JSON output of a command. The document is shared: callers must not change it.
func (s *source) ask(ctx context.Context, command ...string) (*qstat.Document, error) {
	in := s.views
	if everybodys[command[0]] || command[0] == "qstat" && len(command) > 2 && command[1] == "-u" && command[2] == "*" {
		in = s.common
	}
	key := strings.Join(command, "\x00")
	in.mu.Lock()
	v := in.found[key]
	if v == nil {
		v = &view{ready: make(chan struct{})}
		in.found[key] = v
		// Other pages may wait for it too, so it continues if the browser leaves this page.
		go s.fetch(context.WithoutCancel(ctx), in, key, v, command)
	}
	in.mu.Unlock()
	select {
	case <-v.ready:
		return v.doc, v.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// askTime is the maximum time that a page waits for the daemon.
const askTime = 30 * time.Second

func (s *source) fetch(ctx context.Context, in *views, key string, v *view, command []string) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	begin := time.Now()
	v.doc, v.err = s.session.View(ctx, command[0], command[1:]...)
	close(v.ready)
	time.AfterFunc(max(fresh, time.Since(begin)), func() { in.forget(key, v) })
}

// forget removes a view that has expired. A list of many jobs is large.
func (in *views) forget(key string, v *view) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.found[key] == v {
		delete(in.found, key)
	}
}

// forget makes the next pages ask the daemon again, after an action.
func (s *source) forget() {
	for _, in := range []*views{s.views, s.common} {
		in.mu.Lock()
		clear(in.found)
		in.mu.Unlock()
	}
}

// readTime is the maximum time that a page waits for a file of a user.
const readTime = 5 * time.Second

var errSlowFile = errors.New("the file system does not answer; load the page again later")

// read runs a function that reads files, for at most readTime: the file system of a user may hang.
func read[T any](ctx context.Context, s *source, do func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	var none T
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	select {
	case s.reading <- struct{}{}:
	case <-ctx.Done():
		return none, errSlowFile
	}
	done := make(chan result, 1)
	go func() {
		defer func() { <-s.reading }()
		value, err := do()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		return none, errSlowFile
	}
}
