// Package claim is the protocol by which a command confirms its user's submission to the launcher
// (--front-user): three messages over the launcher's own socket. See
// docs/design/front-and-launcher.md.
//
// Other projects should not import this package: it may change at any time.
//
// A Conn is for one goroutine at a time.
package claim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// SocketName is the name of the launcher's socket in the spool directory. A connection carries three messages
// of type SOCK_SEQPACKET: the launcher's Greeting, a Claim, and the launcher's Reply.
const SocketName = "submissions.sock"

// MostMessage is the size of the longest message in bytes.
const MostMessage = 96 << 10

// Version is the version of the messages.
const Version = 1

// Greeting is the first message of the launcher.
type Greeting struct {
	Version int `json:"version"`
	// Requests is the file sge_request of root's configuration (sge_request(5)); nil for none.
	// Commands read it from here, because the front could change the file that they would read
	// otherwise.
	Requests []byte `json:"requests,omitempty"`
	Error    string `json:"error,omitempty"` // why the file is missing
}

// Claim is a user's statement of having submitted a job.
type Claim struct {
	Version int    `json:"version"`
	Key     string `json:"key"`
	Digest  string `json:"digest"`
	// Verification is the digest of what a verifier of the site gets (submission.Verification). Without it the
	// launcher refuses a new submission if root's configuration has a jsv_url.
	Verification string `json:"verification,omitempty"`
	// Of is the submission that a command has changed or copied, as the front has shown it to the command; nil for a
	// new one. The launcher refuses the claim if the owner has submitted something else.
	Of *Source `json:"of,omitempty"`
	// Job is the number of the job that was changed; 0 for a new job. Both submissions are good for this job alone.
	Job int `json:"job,omitempty"`
	// For is the owner of the job if root changes the job. Nil, or the ID of the user who sends the claim, means that user.
	For *uint32 `json:"for,omitempty"`
	// Configure is a message of root about a change of the configuration. The other fields are then empty.
	Configure *Configure `json:"configure,omitempty"`
}

// Configure is a message of qconf of root about the configuration of a daemon.
type Configure struct {
	Step Step `json:"step"`
	// Base identifies the files before the change (configdir.Sum): the launcher refuses the change if they are other ones
	// then. Key and Digest are those of the change: see configdir.Digest.
	Base   string `json:"base,omitempty"`
	Key    string `json:"key,omitempty"`
	Digest string `json:"digest,omitempty"`
}

// Step is the purpose of a Configure.
type Step string

// The steps of a change.
const (
	StepRead    Step = "read"    // asks where the configuration is
	StepConfirm Step = "confirm" // the front may order the change, once
	StepSettle  Step = "settle"  // the front can no longer make or undo the change
)

// Place says where root's configuration is, the host that it is for, and the number of processors that the built-in
// configuration depends on.
type Place struct {
	Dir        string `json:"dir"`
	Host       string `json:"host"`
	Processors int    `json:"processors"`
}

// Source names a submission that the launcher has: its user, key and digest.
type Source struct {
	UID    uint32 `json:"uid"`
	Key    string `json:"key"`
	Digest string `json:"digest"`
	// Job is the number of the job that the command names. The launcher refuses the claim if it knows the submission
	// as that of another job. 0 means that any job will do.
	Job int `json:"job,omitempty"`
}

// Reply is the answer to a claim: an error, or nothing.
type Reply struct {
	Error string `json:"error,omitempty"`
	Place *Place `json:"place,omitempty"` // the answer to a Configure
}

// Patience is how long a command waits for a launcher that is being started again.
const Patience = 30 * time.Second

// Conn is a connection with the launcher.
type Conn struct {
	fd       int
	Greeting Greeting
}

// Dial connects to the launcher and reads its greeting. The socket must belong to a process of
// root, because the path comes from the front, which could name its own socket.
func Dial(ctx context.Context, path string) (*Conn, error) {
	const pause = 100 * time.Millisecond
	for end := time.Now().Add(Patience); ; {
		c, err := dial(path)
		away := errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, ErrEnd)
		if err == nil || !away || time.Now().After(end) {
			return c, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func dial(path string) (c *Conn, err error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	c = &Conn{fd: fd}
	defer func() {
		if err != nil {
			_ = unix.Close(fd)
			err = fmt.Errorf("cannot ask the launcher on %q: %w", path, err)
		}
	}()
	limit := unix.NsecToTimeval(int64(Patience))
	if err := errors.Join(unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &limit)); err != nil {
		return nil, err
	}
	if err := At(path, func(short string) error {
		return os.NewSyscallError("connect", unix.Connect(fd, &unix.SockaddrUnix{Name: short}))
	}); err != nil {
		return nil, err
	}
	peer, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return nil, os.NewSyscallError("getsockopt", err)
	}
	if peer.Uid != 0 {
		return nil, fmt.Errorf("the socket belongs to a process of user ID %d, expected root", peer.Uid)
	}
	if err := c.read(&c.Greeting); err != nil {
		return nil, err
	}
	if c.Greeting.Error != "" {
		return nil, errors.New(c.Greeting.Error)
	}
	return c, nil
}

// ErrEnd means that the launcher has closed the connection, because it has too many or has ended.
// It is then unknown whether it has recorded a claim.
var ErrEnd = errors.New("the launcher has closed the connection")

// At calls f with a path of a socket that is short enough for the kernel (unix(7)).
func At(path string, f func(short string) error) error {
	const most = 107
	if len(path) <= most {
		return f(path)
	}
	dir, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("open", err)
	}
	defer unix.Close(dir)
	return f("/proc/self/fd/" + strconv.Itoa(dir) + "/" + filepath.Base(path))
}

// Close ends the connection.
func (c *Conn) Close() { _ = unix.Close(c.fd) }

func (c *Conn) read(v any) error {
	buffer := make([]byte, MostMessage+1)
	for {
		n, err := unix.Read(c.fd, buffer)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.ECONNRESET) || err == nil && n == 0:
			return ErrEnd
		case err != nil:
			return os.NewSyscallError("read", err)
		case n > MostMessage:
			return fmt.Errorf("its message is longer than %d bytes", MostMessage)
		}
		return json.Unmarshal(buffer[:n], v)
	}
}

// Claim hands the launcher the digest of a submission. When it returns nil the launcher has it on the disk.
func (c *Conn) Claim(q *Claim) error {
	_, err := c.exchange("the job", q)
	return err
}

// Configure sends a message about a change of the configuration.
func (c *Conn) Configure(q *Configure) (*Place, error) {
	r, err := c.exchange("the change", &Claim{Configure: q})
	if err != nil {
		return nil, err
	}
	if r.Place == nil && q.Step != StepConfirm {
		return nil, errors.New("the launcher does not say where the configuration is")
	}
	return r.Place, nil
}

// exchange sends a message and reads the answer.
func (c *Conn) exchange(what string, q *Claim) (*Reply, error) {
	q.Version = Version
	text, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	for {
		err := unix.Sendto(c.fd, text, unix.MSG_NOSIGNAL, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) {
			return nil, fmt.Errorf("cannot confirm %s to the launcher: %w", what, ErrEnd)
		}
		if err != nil {
			return nil, fmt.Errorf("cannot confirm %s to the launcher: %w", what, os.NewSyscallError("sendto", err))
		}
		break
	}
	var reply Reply
	if err := c.read(&reply); err != nil {
		return nil, fmt.Errorf("cannot confirm %s to the launcher: %w", what, err)
	}
	if reply.Error != "" {
		return nil, errors.New(reply.Error)
	}
	return &reply, nil
}
