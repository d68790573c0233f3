package launcher

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/host/passed"
	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/internal/submission"
	"github.com/execd-project/execd/internal/submission/claim"
	"github.com/execd-project/execd/internal/textfile"
	"github.com/execd-project/execd/internal/trust"
	"github.com/execd-project/execd/jobdir"
)

// Submissions are the digests of users' submissions, in the directory "submissions" of the spool
// directory, which only root can access. An entry is a symbolic link UID.KEY, whose target is the
// digest. When the first task of the job starts, the entry gets a second name UID.KEY.NUMBER, with the job number: a
// hard link, because a new symbolic link takes ten times as long. An entry with a second name, as its number of names
// says, belongs to this job only. If an entry does not exist yet (see Amend), or the file system has no hard links of
// symbolic links, a symbolic link UID.KEY.job has the job number as its target.
// If a verifier of the site has to check the submission, the digest is that of its submission.Verification,
// with the prefix "jsv:", and after the verification a link UID.KEY.verified has the digest of the submission.
// Links are created atomically, need no block of the disk, and are not kept in memory.
type Submissions struct {
	known knownSubmissions

	dir *os.File

	keeping sync.Mutex // held by Keep

	binding sync.Mutex // held while an entry is bound to a job

	mu    sync.Mutex     // held while entries are made and removed
	count map[uint32]int // entries of a user
	all   int            // entries of all users
}

const (
	dirSubmissions = "submissions"
	suffixBound    = ".job"
	suffixVerified = ".verified"
	// prefixUnverified begins the target of an entry that a verifier of the site has to check.
	prefixUnverified = "jsv:"
	// mostSubmissions is how many entries there may be, mostSubmissionsEach how many of them a user may have.
	// The keys of all have to fit into an order of the front, see mostContent.
	mostSubmissions, mostSubmissionsEach = 450_000, 250_000
	// forgettable is the age of entries that Keep removes: a younger one may be of a job that the front is
	// about to accept.
	forgettable = 10 * time.Minute
)

// OpenSubmissions opens the submissions of a spool area.
func OpenSubmissions(spool *jobdir.Spool) (*Submissions, error) {
	s := &Submissions{count: map[uint32]int{}}
	err := spool.Dir().Use(func(fd int) error {
		if err := unix.Mkdirat(fd, dirSubmissions, 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
			return os.NewSyscallError("mkdirat", err)
		}
		dir, err := unix.Openat(fd, dirSubmissions, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return os.NewSyscallError("openat", err)
		}
		s.dir = os.NewFile(uintptr(dir), dirSubmissions)
		var st unix.Stat_t
		if err := unix.Fstat(dir, &st); err != nil {
			return os.NewSyscallError("fstat", err)
		}
		if st.Uid != uint32(os.Geteuid()) || st.Mode&0o077 != 0 {
			return errors.New("the directory does not belong to the user of this process, or other users have access to it")
		}
		return s.eachName(func(uid uint32, _, further string) error {
			if further == "" {
				s.count[uid]++
				s.all++
			}
			return nil
		})
	})
	if err != nil {
		if s.dir != nil {
			s.Close()
		}
		return nil, fmt.Errorf("cannot open the submissions of users in %q: %w", spool.Path()+"/"+dirSubmissions, err)
	}
	return s, nil
}

// Close closes the directory.
func (s *Submissions) Close() { _ = s.dir.Close() }

func (s *Submissions) fd() int { return int(s.dir.Fd()) }

// eachName calls f for each entry, and for each of its further links with their suffix, until it returns an
// error. It may miss names that are added or removed during the call.
func (s *Submissions) eachName(f func(uid uint32, key, further string) error) error {
	fd, err := unix.Openat(s.fd(), ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("openat", err)
	}
	dir := os.NewFile(uintptr(fd), dirSubmissions)
	defer dir.Close()
	const some = 1024
	for {
		names, err := dir.Readdirnames(some)
		for _, name := range names {
			number, rest, _ := strings.Cut(name, ".")
			key, further := cutFurther(rest)
			uid, err := strconv.ParseUint(number, 10, 32)
			if err != nil || !submission.ValidKey(key) {
				continue
			}
			if err := f(uint32(uid), key, further); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) || err == nil && len(names) == 0 {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func entryName(uid uint32, key string) string { return strconv.FormatUint(uint64(uid), 10) + "." + key }

// read returns the target of a link. The error is fs.ErrNotExist if there is none.
func (s *Submissions) read(name string) (string, error) {
	var buffer [128]byte
	n, err := unix.Readlinkat(s.fd(), name, buffer[:])
	if err != nil {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: err}
	}
	return string(buffer[:n]), nil
}

// errClaim says that the key or the digest of a claim is invalid.
var errClaim = errors.New("invalid claim of a submission: expected a key of 1 to 32 letters and digits, and a digest of 43 characters")

// Add records a submission of a user on the disk. It may be repeated.
func (s *Submissions) Add(uid uint32, key, digest string) error {
	if !submission.ValidKey(key) || !submission.ValidDigest(digest) {
		return errClaim
	}
	if err := s.add(uid, entryName(uid, key), digest, 0); err != nil {
		return err
	}
	return os.NewSyscallError("fsync", unix.Fsync(s.fd()))
}

// AddUnverified records a submission that a verifier of the site has to check, with the digest of its
// submission.Verification. Until Verify, no job can be started from it.
func (s *Submissions) AddUnverified(uid uint32, key, digest string) error {
	if !submission.ValidKey(key) || !submission.ValidDigest(digest) {
		return errClaim
	}
	if err := s.add(uid, entryName(uid, key), prefixUnverified+digest, 0); err != nil {
		return err
	}
	return os.NewSyscallError("fsync", unix.Fsync(s.fd()))
}

// Unverified returns the digest that AddUnverified has recorded. The error is fs.ErrNotExist if there is none.
func (s *Submissions) Unverified(uid uint32, key string) (string, error) {
	name := entryName(uid, key)
	target, err := s.read(name)
	digest, ok := strings.CutPrefix(target, prefixUnverified)
	if err == nil && !ok {
		err = fmt.Errorf("the user has not submitted a job that jsv_url has to check: %w", fs.ErrNotExist)
	}
	return digest, err
}

// Verify records the digest of a submission as the verifier of the site has corrected it. A repetition replaces the
// digest, unless a job was started from the submission.
func (s *Submissions) Verify(uid uint32, key, digest string) error {
	name := entryName(uid, key)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch is, err := s.read(name + suffixVerified); {
	case err == nil && is == digest:
		return nil
	case err == nil && s.isBound(name):
		return errors.New("a job was started from the submission")
	case err == nil:
		if err := unix.Unlinkat(s.fd(), name+suffixVerified, 0); err != nil {
			return os.NewSyscallError("unlinkat", err)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if s.gone(name) { // forgotten during the verification
		return fmt.Errorf("cannot save the verification: %w", fs.ErrNotExist)
	}
	if err := unix.Symlinkat(digest, s.fd(), name+suffixVerified); err != nil {
		return fmt.Errorf("cannot save the verification: %w", os.NewSyscallError("symlinkat", err))
	}
	return os.NewSyscallError("fsync", unix.Fsync(s.fd()))
}

// Amend records that a user has changed or copied an earlier submission of the same user, on the disk. A changed job remains one job:
// Amend binds both submissions to its number. errors.Is(err, fs.ErrNotExist) if there
// is no such submission.
func (s *Submissions) Amend(uid uint32, key, digest string, of *claim.Source, number int) error {
	switch {
	case !submission.ValidKey(key) || !submission.ValidDigest(digest) || !submission.ValidKey(of.Key):
		return errClaim
	case number < 0 || number > math.MaxInt32:
		return fmt.Errorf("invalid claim of a submission: there is no job %d", number)
	case of.Job < 0 || of.Job > math.MaxInt32:
		return fmt.Errorf("invalid claim of a submission: there is no job %d", of.Job)
	case of.UID != uid:
		// Copies neither: the front chooses the job, and its author would choose what the user runs.
		return fmt.Errorf("user ID %d cannot change or copy a job of user ID %d", uid, of.UID)
	}
	was, err := s.Find(of.UID, of.Key)
	switch {
	case err != nil:
		return fmt.Errorf("cannot find the submission of the job: %w", err)
	case was != of.Digest:
		return errors.New("the daemon describes the job differently from what its owner has submitted")
	}
	if of.Job > 0 {
		// A job that was neither started nor changed has no number here.
		if err := s.isOf(entryName(of.UID, of.Key), of.Job); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if number > 0 {
		if err := s.Bind(uid, of.Key, number); err != nil {
			return err
		}
	}
	if err := s.add(uid, entryName(uid, key), digest, number); err != nil {
		return err
	}
	return os.NewSyscallError("fsync", unix.Fsync(s.fd()))
}

// add makes an entry, for one job unless number is 0.
func (s *Submissions) add(uid uint32, name, digest string, number int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count[uid] >= mostSubmissionsEach {
		return fmt.Errorf("user ID %d has %d jobs already, and cannot submit more", uid, mostSubmissionsEach)
	}
	if s.all >= mostSubmissions {
		return fmt.Errorf("all users together have %d jobs already, and cannot submit more", mostSubmissions)
	}
	if number > 0 { // before the entry is there, so that the front cannot choose another job
		if err := s.bind(name, number); err != nil {
			return err
		}
	}
	switch err := unix.Symlinkat(digest, s.fd(), name); {
	case errors.Is(err, unix.EEXIST):
		old, err := s.read(name)
		if err == nil && old != digest {
			err = errors.New("the key of the submission is in use")
		}
		if err != nil {
			return err
		}
		// As new as it would be: Keep must not remove it before the front has accepted the job.
		now := []unix.Timespec{{Nsec: unix.UTIME_NOW}, {Nsec: unix.UTIME_NOW}}
		if err := unix.UtimesNanoAt(s.fd(), name, now, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return fmt.Errorf("cannot save a submission again: %w", err)
		}
	case err != nil:
		return fmt.Errorf("cannot save a submission: %w", err)
	default:
		s.count[uid]++
		s.all++
	}
	return nil
}

// Find returns the digest of a user's submission under a key. The error is fs.ErrNotExist if there
// is none, or if a verifier of the site still has to check it.
func (s *Submissions) Find(uid uint32, key string) (string, error) {
	digest, err := s.read(entryName(uid, key))
	if err == nil && strings.HasPrefix(digest, prefixUnverified) {
		return s.read(entryName(uid, key) + suffixVerified)
	}
	return digest, err
}

// Keep removes all entries except new ones and those with the given keys. Entries may be added
// during the call.
func (s *Submissions) Keep(keys []string, now time.Time) error {
	kept := make(map[string]bool, len(keys))
	for _, k := range keys {
		kept[k] = true
	}
	s.keeping.Lock()
	defer s.keeping.Unlock()
	return s.removeUnless(kept, now)
}

// gone reports whether an entry does not exist.
func (s *Submissions) gone(name string) bool {
	var st unix.Stat_t
	return errors.Is(unix.Fstatat(s.fd(), name, &st, unix.AT_SYMLINK_NOFOLLOW), unix.ENOENT)
}

// old reports whether there is an entry that Keep may remove.
func (s *Submissions) old(name string, now time.Time) bool {
	var st unix.Stat_t
	err := unix.Fstatat(s.fd(), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return err == nil && now.Sub(time.Unix(st.Mtim.Unix())) > forgettable
}

// removeUnless removes all old entries except those with the given keys. It reads the directory again if it has removed
// an entry with a second name, which it may have read before.
func (s *Submissions) removeUnless(kept map[string]bool, now time.Time) error {
	for again := true; again; {
		again = false
		err := s.eachName(func(uid uint32, key, further string) error {
			name := entryName(uid, key)
			switch {
			case further != "" && s.gone(name):
				return s.removeFurther(name, further)
			case further == "" && !kept[key] && s.old(name, now):
				second, err := s.remove(uid, name, now)
				again = again || second
				return err
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// remove removes an entry and its links, unless a user has claimed it again meanwhile. It reports whether the entry had
// a second name, which removeFurther removes.
func (s *Submissions) remove(uid uint32, name string, now time.Time) (second bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.old(name, now) {
		return false, nil
	}
	st, err := s.stat(name)
	if err == nil {
		err = os.NewSyscallError("unlinkat", unix.Unlinkat(s.fd(), name, 0))
	}
	if err != nil {
		return false, err
	}
	s.all--
	if s.count[uid]--; s.count[uid] <= 0 {
		delete(s.count, uid)
	}
	for _, suffix := range []string{suffixBound, suffixVerified} {
		_ = unix.Unlinkat(s.fd(), name+suffix, 0) // there may be none
	}
	return st.Nlink > 1, nil
}

// removeFurther removes a further link of an entry that was removed before.
func (s *Submissions) removeFurther(name, further string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.gone(name) {
		return nil
	}
	if err := unix.Unlinkat(s.fd(), name+further, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return os.NewSyscallError("unlinkat", err)
	}
	return nil
}

// SubmissionSocket is the launcher's own socket, on which users confirm their submissions.
type SubmissionSocket struct {
	listener    *os.File
	submissions *Submissions
	requests    []string
	users       userdb.Database
	minUID      int
	verifies    bool // root's configuration has a jsv_url
	// Configuration takes what root confirms about it; nil for none. Set it before Serve.
	Configuration *Configuration

	mu        sync.Mutex
	all       int             // connections
	strangers int             // connections of user IDs that were not looked up yet
	each      map[uint32]int  // connections of a user ID
	known     map[uint32]bool // user IDs that belong to users
}

// Limits of a SubmissionSocket: of connections, and of the time that a claim may take. A user may use
// thousands of subordinate user IDs (newuidmap(1)), which belong to no account: these get few
// places.
const (
	mostClaims     = 256
	mostClaimsEach = 32
	mostStrangers  = 32
	claimTime      = 10 * time.Second
)

// OpenSubmissionSocket opens the socket in a spool area, for the users and submissions of some rules. requests
// are the possible paths of the file sge_request of root's configuration: the first that exists
// counts.
func OpenSubmissionSocket(spool *jobdir.Spool, r *Rules, requests []string) (*SubmissionSocket, error) {
	d := &SubmissionSocket{
		submissions: r.Submissions, requests: requests, users: r.Users, minUID: r.MinUID, verifies: r.Site.verifies(),
		each: map[uint32]int{}, known: map[uint32]bool{},
	}
	const everyone, queue = 0o666, 128
	var err error
	if d.listener, err = listen(spool.Path()+"/"+claim.SocketName, os.Geteuid(), everyone, queue); err != nil {
		return nil, err
	}
	if raw, err := d.listener.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { passed.Refuse(int(fd)) })
	}
	return d, nil
}

// Close ends Serve.
func (d *SubmissionSocket) Close() { _ = d.listener.Close() }

// Serve takes claims until Close.
func (d *SubmissionSocket) Serve(ctx context.Context) error {
	raw, err := d.listener.SyscallConn()
	if err != nil {
		return err
	}
	var wait sync.WaitGroup
	defer func() {
		done := make(chan struct{})
		go func() {
			defer close(done)
			wait.Wait()
		}()
		select {
		case <-done:
		case <-time.After(claimTime): // a user database that does not answer must not keep the launcher from ending
		}
	}()
	for {
		var fd int
		var failed error
		err := raw.Read(func(listener uintptr) bool {
			fd, _, failed = unix.Accept4(int(listener), unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
			return !errors.Is(failed, unix.EAGAIN)
		})
		switch {
		case err != nil:
			return nil // it was closed
		case errors.Is(failed, unix.EMFILE) || errors.Is(failed, unix.ENFILE) || errors.Is(failed, unix.ENOMEM) || errors.Is(failed, unix.ENOBUFS):
			select { // until other connections have ended
			case <-time.After(claimTime / 100):
			case <-ctx.Done():
				return nil
			}
			continue
		case failed != nil:
			continue // the caller has disconnected
		}
		peer, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err != nil {
			unix.Close(fd)
			continue
		}
		stranger, ok := d.enter(peer.Uid)
		if !ok {
			passed.HangUp(fd) // or its user could stop this loop
			unix.Close(fd)
			continue
		}
		c := &conn{file: os.NewFile(uintptr(fd), "claim")}
		wait.Go(func() {
			defer c.close()
			err := d.admit(peer.Uid, stranger)
			defer d.leave(peer.Uid, stranger && err != nil)
			d.take(c, peer.Uid, err)
		})
	}
}

// enter makes room for a connection. One more than there may be is closed, and the command tries again.
func (d *SubmissionSocket) enter(uid uint32) (stranger, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	stranger = !d.known[uid]
	if d.all >= mostClaims || d.each[uid] >= mostClaimsEach || stranger && d.strangers >= mostStrangers {
		return stranger, false
	}
	d.all++
	d.each[uid]++
	if stranger {
		d.strangers++
	}
	return stranger, true
}

func (d *SubmissionSocket) leave(uid uint32, stranger bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all--
	if d.each[uid]--; d.each[uid] == 0 {
		delete(d.each, uid)
	}
	if stranger {
		d.strangers--
	}
}

// admit refuses user IDs for which no jobs run. An admitted user ID no longer counts as a stranger.
func (d *SubmissionSocket) admit(uid uint32, stranger bool) error {
	if !stranger {
		return nil
	}
	if int64(uid) < int64(d.minUID) {
		return fmt.Errorf("user ID %d is below min_uid %d: system accounts cannot own jobs", uid, d.minUID)
	}
	switch _, err := d.users.UserID(uid); {
	case errors.Is(err, userdb.ErrUnknown):
		return fmt.Errorf("no user of this host has user ID %d", uid)
	case err != nil:
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.strangers--
	d.known[uid] = true
	return nil
}

// take accepts one claim, or answers with the error. It does not answer callers that send anything
// else.
func (d *SubmissionSocket) take(c *conn, uid uint32, refused error) {
	greeting := claim.Greeting{Version: claim.Version}
	// Root has no jobs, but may change those of others.
	root := uid == 0
	err := refused
	if err == nil || root {
		greeting.Requests, err = d.request()
	}
	if err != nil {
		greeting.Error = err.Error()
	}
	hello, err := json.Marshal(&greeting)
	if err != nil || c.file.SetDeadline(time.Now().Add(claimTime)) != nil || c.write(hello) != nil || refused != nil && !root {
		return
	}
	const most = 1 << 10
	text, fds, err := c.read(make([]byte, most))
	closeAll(fds)
	if err != nil || len(text) == 0 {
		return
	}
	var q claim.Claim
	err = decode(text, &q)
	if err == nil && q.Version != claim.Version {
		err = fmt.Errorf("version %d, expected %d", q.Version, claim.Version)
	}
	reply, what := claim.Reply{}, "the job"
	switch {
	case err != nil:
	case q.Configure != nil:
		what = "the change"
		reply.Place, err = d.configure(uid, &q)
	case refused != nil && (q.For == nil || *q.For == uid):
		err = refused
	default:
		err = d.note(uid, &q)
	}
	if err != nil {
		reply.Error = "the launcher does not accept " + what + ": " + err.Error()
	}
	if b, err := json.Marshal(&reply); err == nil {
		_ = c.write(b)
	}
	if err == nil && q.Configure != nil && q.Configure.Step == claim.StepSettle {
		d.Configuration.start(q.Configure.Key) // qconf has said it to root
	}
}

// configure answers a message about a change of the configuration.
func (d *SubmissionSocket) configure(uid uint32, q *claim.Claim) (*claim.Place, error) {
	only := *q
	only.Version, only.Configure = 0, nil
	switch {
	case d.Configuration == nil:
		return nil, errors.New("the configuration of this daemon is not the launcher's")
	case only != claim.Claim{}:
		return nil, errors.New("the message is about a job and about the configuration")
	}
	return d.Configuration.state(uid, q.Configure)
}

// note records a claim of a user.
func (d *SubmissionSocket) note(uid uint32, q *claim.Claim) error {
	// In a user namespace a user may be root, and commands name the owner of the job there.
	if q.For != nil && *q.For != uid {
		if uid != 0 || q.Of == nil || q.Of.UID != *q.For || q.Job == 0 {
			return errors.New("only root can change jobs of other users, and no user can submit jobs for another one")
		}
		uid = *q.For
	}
	if q.Of == nil {
		if q.Job != 0 {
			return errors.New("invalid claim of a new job: it has a job number")
		}
		if d.verifies {
			return d.submissions.AddUnverified(uid, q.Key, q.Verification)
		}
		return d.submissions.Add(uid, q.Key, q.Digest)
	}
	return d.submissions.Amend(uid, q.Key, q.Digest, q.Of, q.Job)
}

// mostRequests is the size of the longest sge_request in bytes: it has to fit into a message, in base64.
const mostRequests = 32 << 10

// request reads the default options of all users. Only root may be able to change them.
func (d *SubmissionSocket) request() ([]byte, error) {
	for _, path := range d.requests {
		fd, err := (trust.Users{}).Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		file := os.NewFile(uintptr(fd), path)
		text, err := textfile.ReadAll(file, mostRequests)
		file.Close()
		if err != nil {
			return nil, fmt.Errorf("cannot read the default options %q: %w", path, err)
		}
		return text, nil
	}
	return nil, nil
}
