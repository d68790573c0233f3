package messages

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/execd-project/execd/internal/host/program"
	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/internal/printable"
	"github.com/execd-project/execd/internal/textfile"
	"github.com/execd-project/execd/internal/userfile"
)

// Limits of an outbox.
const (
	mostHelpers = 64  // processes that deliver messages of users at the same time
	eachHelpers = 2   // of one user
	siteHelpers = 4   // of the site, in addition
	mostWaiting = 100 // messages of one user
	siteWaiting = 1000
	// helperTimeout is longer than all attempts to reach a webhook take.
	helperTimeout = 2 * time.Minute
)

// defaultUser is the user of receivers of the site, if a daemon of root delivers to them and their
// file names no user.
const defaultUser = "nobody"

// Options are the options of an outbox.
type Options struct {
	// Helper is the command line that delivers a message: see package deliver.
	Helper  []string
	Version string
	// Site reads the file with the receivers of the site. The error is fs.ErrNotExist if there is none.
	Site func() ([]byte, error)
	// Lookup finds a user; nil is program.Lookup.
	Lookup func(name string) (program.Identity, error)
	// Now returns the time; nil is time.Now.
	Now func() time.Time
	// Confine makes a control group for a process with the rights of a user. The caller closes the
	// directory, and remove ends all processes in the group. It is nil if processes need no group, and
	// unused if the daemon is not root.
	Confine func() (dir *os.File, remove func(), err error)
	// Failed is called, possibly by several goroutines, if a message was not delivered to a receiver.
	// owner is empty for receivers of the site.
	Failed func(owner string, err error)
}

// Outbox delivers messages in the background. Make one with NewOutbox.
type Outbox struct {
	options Options
	helpers chan struct{} // a slot for each running process for users
	ctx     context.Context
	cancel  context.CancelFunc

	mu     sync.Mutex
	queues map[string]*queue // by owner; "" is that of the site
	known  map[string]known  // by owner
	closed bool
	ended  sync.WaitGroup
}

// queue holds the messages of a user, or of the site.
type queue struct {
	waiting []item
	workers int
	asking  bool // an item with times is waiting or in work
}

// item is a message, or a question for the times after which pending jobs are reported.
type item struct {
	message *Message
	times   func([]time.Duration)
}

// NewOutbox returns an outbox. Close ends it.
func NewOutbox(o Options) *Outbox {
	if o.Lookup == nil {
		o.Lookup = program.Lookup
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	b := &Outbox{options: o, helpers: make(chan struct{}, mostHelpers), queues: map[string]*queue{}, known: map[string]known{}}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	return b
}

// Post queues a message for the receivers of the owner of its job and for those of the site. It
// does not wait.
func (b *Outbox) Post(m *Message) {
	if !m.UserOnly {
		b.add("", item{message: m})
	}
	if !m.SiteOnly {
		b.add(m.Job.Owner, item{message: m})
	}
}

// Times calls a function with the times after which receivers of a user, or with an empty name of the
// site, expect a message about a pending job, if there are any. It does nothing if an earlier question
// about the user is not answered yet. The times may be a minute old.
func (b *Outbox) Times(owner string, then func([]time.Duration)) {
	b.add(owner, item{times: then})
}

func (b *Outbox) add(owner string, i item) {
	each, most := eachHelpers, mostWaiting
	if owner == "" {
		each, most = siteHelpers, siteWaiting
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	q := b.queues[owner]
	if q == nil {
		q = &queue{}
		b.queues[owner] = q
	}
	switch {
	case i.times != nil && q.asking:
		return
	case i.times != nil:
		q.asking = true
	case len(q.waiting) >= most:
		b.ended.Go(func() {
			b.options.Failed(owner, fmt.Errorf("message about job %d: %d others are waiting", i.message.Job.ID, most))
		})
		return
	}
	if q.waiting = append(q.waiting, i); q.workers < each {
		q.workers++
		b.ended.Go(func() { b.work(owner, q) })
	}
}

// work delivers the messages of a queue until there are no more.
func (b *Outbox) work(owner string, q *queue) {
	for {
		b.mu.Lock()
		if len(q.waiting) == 0 || b.ctx.Err() != nil {
			if q.workers--; q.workers == 0 {
				delete(b.queues, owner)
			}
			b.mu.Unlock()
			return
		}
		i := q.waiting[0]
		q.waiting = q.waiting[1:]
		b.mu.Unlock()
		b.do(owner, i)
		if i.times != nil {
			b.mu.Lock()
			q.asking = false
			b.mu.Unlock()
		}
	}
}

// known is a file as it was at a time.
type known struct {
	as   program.Identity
	file *File
	at   time.Time
}

// A file is read again for a message after keepFile, because many jobs may end in the same second, and
// after keepTimes for a question of Times: these come again and again, and the file may be on a server
// and its user in a directory service. The files of at most mostKnown users are stored.
const (
	keepFile  = time.Second
	keepTimes = time.Minute
	mostKnown = 1000
)

// current returns the receivers of a user, or of the site, as they were at most some time ago: see
// receivers.
func (b *Outbox) current(owner string, age time.Duration) (program.Identity, *File, error) {
	now := b.options.Now()
	b.mu.Lock()
	k, ok := b.known[owner]
	b.mu.Unlock()
	if past := now.Sub(k.at); ok && past >= 0 && past < age {
		return k.as, k.file, nil
	}
	as, file, err := b.receivers(owner)
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.known) >= mostKnown {
		clear(b.known)
	}
	b.known[owner] = known{as, file, now}
	return as, file, err
}

func (b *Outbox) do(owner string, i item) {
	age := keepFile
	if i.times != nil {
		age = keepTimes
	}
	as, file, err := b.current(owner, age)
	if err != nil {
		if i.times == nil { // otherwise it would be logged all the time
			b.options.Failed(owner, err)
		}
	}
	if file == nil {
		return
	}
	if i.times != nil {
		if list := file.PendingTimes(); len(list) > 0 {
			i.times(list)
		}
		return
	}
	if list := file.For(i.message); len(list) > 0 {
		b.deliver(owner, as, i.message, list)
	}
}

// receivers reads the file of a user, or of the site, and returns it with the user that delivers to
// its receivers. The file is nil if there is none.
func (b *Outbox) receivers(owner string) (program.Identity, *File, error) {
	site, err := b.site()
	if site == nil {
		site = &File{NoUsers: err != nil} // it may have been switched off
	}
	me := program.Own()
	if owner == "" {
		if site.RunAs == "" && me.UID == 0 {
			site.RunAs = defaultUser
		}
		if len(site.Receivers) == 0 || me.UID != 0 && (site.RunAs == "" || site.RunAs == me.Name) {
			return me, site, err
		}
		as, e := b.become(site.RunAs)
		if e != nil {
			return me, nil, errors.Join(err, e)
		}
		return as, site, err
	}
	if site.NoUsers || me.UID != 0 && owner != me.Name {
		return me, nil, nil
	}
	as := me
	if me.UID == 0 {
		if as, err = b.become(owner); err != nil {
			return me, nil, nil //nolint:nilerr // a job of root, or of a user who was removed: no receivers
		}
	}
	text, path, err := readUserFile(as)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return as, nil, nil
	}
	if err != nil {
		return as, nil, err
	}
	f, err := Parse(text, false)
	if e, ok := errors.AsType[*LineError](err); ok { // what the user wrote may be secret, and this error goes to a log
		err = fmt.Errorf("%s: mistake in line %d: the user sees it with \"execd messages\"", path, e.Line)
	}
	return as, f, err
}

// site reads the file of the site.
func (b *Outbox) site() (*File, error) {
	text, err := b.options.Site()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	f, err := Parse(text, true)
	if err != nil {
		err = fmt.Errorf("file %s of the configuration: %w", SiteFile, err)
	}
	return f, err
}

// become returns a user that the daemon can become.
func (b *Outbox) become(name string) (program.Identity, error) {
	as, err := b.options.Lookup(name)
	switch {
	case err != nil:
		return as, fmt.Errorf("user %q of the receivers: %w", name, err)
	case as.UID == 0:
		return as, errors.New("cannot deliver messages as root, because users choose a part of them; name another user")
	case os.Geteuid() != 0:
		return as, fmt.Errorf("only root can deliver messages as user %s", name)
	}
	return as, nil
}

// readUserFile reads the file with the receivers of a user with the rights of the user.
func readUserFile(as program.Identity) (text []byte, path string, err error) {
	if !filepath.IsAbs(as.Home) {
		return nil, "", fs.ErrNotExist
	}
	path = filepath.Join(as.Home, UserFile)
	if os.Geteuid() != 0 {
		text, err = userfile.Read(path, MostBytes)
		return text, path, err
	}
	f, err := (&userfile.Rights{UID: as.UID, GID: as.GID, Groups: as.Groups}).Open(path, 0)
	if err != nil {
		return nil, path, err
	}
	defer f.Close()
	text, err = textfile.ReadAll(f, MostBytes)
	return text, path, err
}

// ReadOwn reads the file with the receivers of the user of this process.
func ReadOwn() (f *File, path string, err error) {
	me := program.Own()
	if u, e := userdb.System().UserID(me.UID); e != nil {
		return nil, "", e
	} else if !filepath.IsAbs(u.Home) {
		return nil, "", fmt.Errorf("user %s has no home directory", u.Name)
	}
	path = filepath.Join(me.Home, UserFile)
	text, err := userfile.Read(path, MostBytes)
	if err != nil {
		return nil, path, err
	}
	if f, err = Parse(text, false); err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return f, path, err
}

// deliver starts a process with the rights of a user that delivers a message.
func (b *Outbox) deliver(owner string, as program.Identity, m *Message, list []Receiver) {
	if owner != "" {
		select {
		case b.helpers <- struct{}{}:
			defer func() { <-b.helpers }()
		case <-b.ctx.Done():
			return
		}
	}
	for _, err := range b.help(as, m, list) {
		b.options.Failed(owner, fmt.Errorf("message about job %d: %w", m.Job.ID, err))
	}
}

// help runs the process and returns the failures.
func (b *Outbox) help(as program.Identity, m *Message, list []Receiver) []error {
	order, err := json.Marshal(map[string]any{"message": m, "receivers": list, "version": b.options.Version})
	if err != nil {
		return []error{err}
	}
	out, errs := program.Head{Most: 16 << 10}, program.Head{Most: 1000}
	c := program.Command{
		Path: b.options.Helper[0], Args: b.options.Helper[1:], Dir: "/", Stdin: bytes.NewReader(order), Stdout: &out, Stderr: &errs, WaitDelay: time.Second,
		Env: []string{"PATH=" + program.SearchPath, "HOME=" + as.Home, "USER=" + as.Name, "LOGNAME=" + as.Name, "GOMAXPROCS=2"},
	}
	if os.Geteuid() == 0 {
		c.As = as.Credential()
	}
	if os.Geteuid() == 0 && b.options.Confine != nil {
		dir, remove, err := b.options.Confine()
		if err != nil {
			return []error{fmt.Errorf("cannot confine the process that delivers it: %w", err)}
		}
		defer remove()
		defer dir.Close()
		c.Cgroup = dir
	}
	ctx, cancel := context.WithTimeoutCause(b.ctx, helperTimeout, fmt.Errorf("the process that delivers it has not ended within %s", helperTimeout))
	defer cancel()
	if err := program.Run(ctx, &c); err != nil {
		return []error{fmt.Errorf("%w: %s", err, printable.Clip(string(errs.Kept), 300))}
	}
	var failures []error
	for d := json.NewDecoder(bytes.NewReader(out.Kept)); ; {
		var r struct {
			Line  int    `json:"line"`
			Error string `json:"error"`
		}
		if err := d.Decode(&r); err != nil {
			if !errors.Is(err, io.EOF) {
				failures = append(failures, errors.New("the process that delivers it wrote something unexpected"))
			}
			return failures
		}
		failures = append(failures, fmt.Errorf("receiver in line %d: %s", r.Line, printable.Clip(r.Error, 600)))
	}
}

// Close accepts no more messages, waits until all are delivered or the context ends, and kills the
// remaining processes.
func (b *Outbox) Close(ctx context.Context) {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	done := make(chan struct{})
	go func() { b.ended.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
	}
	b.cancel()
	select { // a home directory on a server that does not answer is not waited for
	case <-done:
	case <-time.After(2 * time.Second):
	}
}
