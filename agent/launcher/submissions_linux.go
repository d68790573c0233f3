package launcher

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/submission"
	"github.com/execd-project/execd/internal/submission/claim"
	"github.com/execd-project/execd/internal/textfile"
	"github.com/execd-project/execd/internal/trust"
	"github.com/execd-project/execd/jobdir"
)

// Submissions are the digests of what users have submitted, in the directory "submissions" of the spool
// directory, which belongs to root alone. An entry is a symbolic link UID.KEY, whose target is the digest, and
// with the first task of the job that starts a link UID.KEY.job, whose target is the number of the job. A link
// is made whole or not at all, needs no block of the disk, and nothing of it stays in memory.
type Submissions struct {
	dir *os.File

	mu    sync.Mutex
	count map[uint32]int // entries of a user
}

const (
	dirSubmissions = "submissions"
	suffixBound    = ".job"
	// mostSubmissions is how many entries a user may have.
	mostSubmissions = 250_000
	// forgettable is the age of entries that Keep removes: a younger one may be of a job that the front is
	// about to accept.
	forgettable = 10 * time.Minute
)

// OpenSubmissions opens those of a spool area.
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
			return errors.New("the directory has another owner than this process, or is open to others")
		}
		return s.each(func(uid uint32, _ string) { s.count[uid]++ })
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

// each calls f for each entry.
func (s *Submissions) each(f func(uid uint32, key string)) error {
	if _, err := s.dir.Seek(0, 0); err != nil {
		return err
	}
	const some = 1024
	for {
		names, err := s.dir.Readdirnames(some)
		for _, name := range names {
			number, key, _ := strings.Cut(name, ".")
			uid, err := strconv.ParseUint(number, 10, 32)
			if err == nil && submission.ValidKey(key) {
				f(uint32(uid), key)
			}
		}
		if err != nil || len(names) == 0 {
			return nil //nolint:nilerr // the end of the directory is an error, too
		}
	}
}

func entryName(uid uint32, key string) string { return strconv.FormatUint(uint64(uid), 10) + "." + key }

// read returns the target of a link; fs.ErrNotExist where there is none.
func (s *Submissions) read(name string) (string, error) {
	var buffer [128]byte
	n, err := unix.Readlinkat(s.fd(), name, buffer[:])
	if err != nil {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: err}
	}
	return string(buffer[:n]), nil
}

// Add notes that a user has submitted something, on the disk. It may be repeated.
func (s *Submissions) Add(uid uint32, key, digest string) error {
	if !submission.ValidKey(key) || !submission.ValidDigest(digest) {
		return errors.New("invalid claim of a submission: expected a key of 1 to 64 letters and digits, and a digest of 43 characters")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count[uid] >= mostSubmissions {
		return fmt.Errorf("user ID %d has %d jobs already, and cannot submit more", uid, mostSubmissions)
	}
	name := entryName(uid, key)
	switch err := unix.Symlinkat(digest, s.fd(), name); {
	case errors.Is(err, unix.EEXIST):
		old, err := s.read(name)
		if err == nil && old != digest {
			err = errors.New("the key of the submission is in use")
		}
		if err != nil {
			return err
		}
	case err != nil:
		return fmt.Errorf("cannot note a submission: %w", err)
	default:
		s.count[uid]++
	}
	return os.NewSyscallError("fsync", unix.Fsync(s.fd()))
}

// Find returns the digest of what a user has submitted under a key; fs.ErrNotExist where there is none.
func (s *Submissions) Find(uid uint32, key string) (string, error) {
	return s.read(entryName(uid, key))
}

// errBound is that a submission has become another job already.
var errBound = errors.New("its submission is that of another job")

// Bind notes that a submission has become a job: no other job can be started by it.
func (s *Submissions) Bind(uid uint32, key string, number int) error {
	name, text := entryName(uid, key)+suffixBound, strconv.Itoa(number)
	err := unix.Symlinkat(text, s.fd(), name)
	if !errors.Is(err, unix.EEXIST) {
		return os.NewSyscallError("symlinkat", err)
	}
	old, err := s.read(name)
	if err == nil && old != text {
		err = fmt.Errorf("%w, %s", errBound, old)
	}
	return err
}

// Keep removes all entries but those of some keys and new ones.
func (s *Submissions) Keep(keys []string, now time.Time) error {
	kept := make(map[string]bool, len(keys))
	for _, k := range keys {
		kept[k] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	type entry struct {
		uid uint32
		key string
	}
	var old []entry
	err := s.each(func(uid uint32, key string) {
		if kept[key] {
			return
		}
		var st unix.Stat_t
		if err := unix.Fstatat(s.fd(), entryName(uid, key), &st, unix.AT_SYMLINK_NOFOLLOW); err == nil && now.Sub(time.Unix(st.Mtim.Unix())) > forgettable {
			old = append(old, entry{uid, key})
		}
	})
	for _, e := range old {
		name := entryName(e.uid, e.key)
		if err := unix.Unlinkat(s.fd(), name, 0); err != nil {
			return os.NewSyscallError("unlinkat", err)
		}
		_ = unix.Unlinkat(s.fd(), name+suffixBound, 0) // there is none before the job starts
		if s.count[e.uid]--; s.count[e.uid] <= 0 {
			delete(s.count, e.uid)
		}
	}
	return err
}

// Desk is the launcher's own socket, where users say what they submit.
type Desk struct {
	listener    *os.File
	submissions *Submissions
	requests    []string

	mu    sync.Mutex
	all   int
	users map[uint32]int
}

// Limits of the desk: of connections, and of the time that a claim may take.
const (
	mostClaims     = 256
	mostClaimsEach = 32
	claimTime      = 10 * time.Second
)

// OpenDesk opens the socket in a spool area. requests are the places of the file sge_request of root's
// configuration: the first one that is there counts.
func OpenDesk(spool *jobdir.Spool, s *Submissions, requests []string) (*Desk, error) {
	d := &Desk{submissions: s, requests: requests, users: map[uint32]int{}}
	path := spool.Path() + "/" + claim.SocketName
	// The directory belongs to root: nothing else can take the place of the socket.
	if err := unix.Unlink(path); err != nil && !errors.Is(err, unix.ENOENT) {
		return nil, &fs.PathError{Op: "unlink", Path: path, Err: err}
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	d.listener = os.NewFile(uintptr(fd), path)
	err = claim.At(path, func(short string) error {
		const everyone, queue = 0o666, 128
		if err := unix.Bind(fd, &unix.SockaddrUnix{Name: short}); err != nil {
			return os.NewSyscallError("bind", err)
		}
		if err := unix.Chmod(path, everyone); err != nil {
			return os.NewSyscallError("chmod", err)
		}
		return os.NewSyscallError("listen", unix.Listen(fd, queue))
	})
	if err != nil {
		d.listener.Close()
		return nil, fmt.Errorf("cannot listen on %q: %w", path, err)
	}
	return d, nil
}

// Close ends Serve.
func (d *Desk) Close() { _ = d.listener.Close() }

// Serve takes claims until Close.
func (d *Desk) Serve(ctx context.Context) error {
	raw, err := d.listener.SyscallConn()
	if err != nil {
		return err
	}
	var wait sync.WaitGroup
	defer wait.Wait()
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
			select { // until others have gone
			case <-time.After(claimTime / 100):
			case <-ctx.Done():
				return nil
			}
			continue
		case failed != nil:
			continue // the caller has gone
		}
		peer, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err != nil || !d.enter(peer.Uid) {
			unix.Close(fd)
			continue
		}
		c := &conn{file: os.NewFile(uintptr(fd), "claim")}
		wait.Go(func() {
			defer d.leave(peer.Uid)
			defer c.close()
			d.take(c, peer.Uid)
		})
	}
}

// enter makes room for a connection. One more than there may be is closed, and the command tries again.
func (d *Desk) enter(uid uint32) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.all >= mostClaims || d.users[uid] >= mostClaimsEach {
		return false
	}
	d.all++
	d.users[uid]++
	return true
}

func (d *Desk) leave(uid uint32) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all--
	if d.users[uid]--; d.users[uid] == 0 {
		delete(d.users, uid)
	}
}

// take takes one claim. A caller that sends anything else is told nothing.
func (d *Desk) take(c *conn, uid uint32) {
	greeting := claim.Greeting{Version: claim.Version}
	var err error
	if greeting.Requests, err = d.request(); err != nil {
		greeting.Error = err.Error()
	}
	hello, err := json.Marshal(&greeting)
	if err != nil || c.file.SetDeadline(time.Now().Add(claimTime)) != nil || c.write(hello) != nil {
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
	if err == nil {
		err = d.submissions.Add(uid, q.Key, q.Digest)
	}
	reply := claim.Reply{}
	if err != nil {
		reply.Error = "the launcher does not accept the job: " + err.Error()
	}
	if b, err := json.Marshal(&reply); err == nil {
		_ = c.write(b)
	}
}

// mostRequests is the size of the longest sge_request in bytes: it has to fit into a message, in base64.
const mostRequests = 32 << 10

// request reads the default options of all users. Only root may be able to change them.
func (d *Desk) request() ([]byte, error) {
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
