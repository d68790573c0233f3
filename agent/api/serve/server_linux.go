package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"math"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/execd-project/execd/agent"
	"github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/agent/audit"
	"github.com/execd-project/execd/internal/certfile"
	"github.com/execd-project/execd/internal/clock"
	"github.com/execd-project/execd/internal/host/userdb"
)

// Options are the listeners of a server and the permissions of its peers. At least one of Socket,
// TLS and Loopback is required.
type Options struct {
	// Socket is the path of a Unix socket; its directory must be writable by root alone,
	// and is made if it is missing.
	Socket string
	// Managers are the names of users who have the same rights on the socket as root and the
	// server's own user.
	Managers []string
	// OwnMaster says that the master of the agent is in this process. Then only root and the
	// server's own user may give the orders of a master, because a caller that starts jobs or
	// replaces the configuration can run programs as root and as other users.
	OwnMaster bool
	TLS       *TLS
	Loopback  *Loopback

	Version string // of the program
	// Install replaces all configuration files by the given ones, whose keys are paths below the
	// directory of the configuration, and applies them. If it returns an error, nothing has
	// changed. It is nil if the configuration does not come from the master.
	Install func(ctx context.Context, files map[string]string) error

	// Methods are additional calls, by path. A path is "/PACKAGE.SERVICE/METHOD", as in Connect.
	Methods map[string]Method

	// Audit records the orders of masters and other callers. The server records nothing if it
	// is nil.
	Audit *audit.Log

	// Users looks up users by ID; nil means the name service switch.
	Users func(uid uint32) (*userdb.User, error)
	// Notify receives errors that no answer contains, such as unreadable certificates. It must not
	// block. It may be nil.
	Notify func(error)
	Limits Limits
	Clock  clock.Clock // of heartbeats; nil is the clock of the machine
}

// TLS is a TCP listener for masters, with TLS 1.3 and certificates on both sides. The files are
// read again when they have changed; open connections stay open.
type TLS struct {
	Address string // host:port
	Files   certfile.Paths
	// Masters are the accepted names of masters: one of them must be equal to a DNS name of the
	// certificate. Other certificates of the same authorities, such as those of agents, are
	// refused.
	Masters []string
}

// Loopback is a TCP listener without TLS, on loopback addresses only.
type Loopback struct {
	Address string // host:port
	// TokenFile contains the token that a caller must send: a line of at least 32 characters. Only
	// the owner of the file may be able to read it: root or the server's own user.
	TokenFile string
}

// Limits restrict the resources of peers. Zero values mean the defaults.
type Limits struct {
	// Connections is the maximum number of concurrent connections of one peer: a user on the
	// socket, otherwise an address. Root's are not counted. Default: 64.
	Connections int
	// AllConnections is the maximum number of concurrent connections of one listener. Default:
	// 1024.
	AllConnections int
	// Body is the maximum size of a message in bytes; default: 64 MiB. For a peer who is not a
	// manager it is UserBody; default: 1 MiB.
	Body, UserBody int64
	// Bodies is the maximum memory, in bytes, of all unanswered messages of one user on the socket;
	// default: 64 MiB. AllBodies is the maximum for all users; default: 256 MiB. Further messages
	// wait. Small messages are not counted.
	Bodies, AllBodies int64
	// Batch is the number of starts in a batch. 1000.
	Batch int
	// Header is the time limit for the header of a request, or for a TLS handshake; default: 10 s.
	// Read is the time limit for a whole request; default: 1 min. Write is the time limit for the
	// peer to read an answer, or one write to a stream; default: 30 s. Idle is the time after which
	// an unused connection is closed; default: 2 min.
	Header, Read, Write, Idle time.Duration
	// Grace is the time that calls have to finish when the server stops; default: 5 s.
	Grace time.Duration
}

func (l Limits) withDefaults() Limits {
	l.Connections = cmp.Or(l.Connections, 64)
	l.AllConnections = cmp.Or(l.AllConnections, 1024)
	l.Body = cmp.Or(l.Body, 64<<20)
	l.UserBody = cmp.Or(l.UserBody, 1<<20)
	l.Bodies = cmp.Or(l.Bodies, 64<<20)
	l.AllBodies = cmp.Or(l.AllBodies, 256<<20)
	l.Batch = cmp.Or(l.Batch, 1000)
	l.Header = cmp.Or(l.Header, 10*time.Second)
	l.Read = cmp.Or(l.Read, time.Minute)
	l.Write = cmp.Or(l.Write, 30*time.Second)
	l.Idle = cmp.Or(l.Idle, 2*time.Minute)
	l.Grace = cmp.Or(l.Grace, 5*time.Second)
	return l
}

// Server is a link to masters. Make one with New, which listens, and Run it, or Close
// it.
type Server struct {
	options   Options
	methods   map[api.Method]method
	managers  map[string]bool
	masters   map[string]bool
	listeners []net.Listener
	counts    []*counter // of the connections of each listener
	calls     *counter
	bodies    *budget
	epoch     epoch
	stopping  chan struct{} // closed when streams have to end
	commands  agent.Commands
	document  func() ([]byte, error) // of OpenAPI, made once: every user may ask for it
}

var _ agent.Link = (*Server)(nil)

// New makes a server and begins to listen, so that errors in the options are found at once. The
// server answers no request before Run.
func New(options Options) (*Server, error) {
	options.Limits = options.Limits.withDefaults()
	if options.Users == nil {
		options.Users = userdb.System().UserID
	}
	if options.Notify == nil {
		options.Notify = func(error) {}
	}
	if options.Clock == nil {
		options.Clock = clock.System()
	}
	s := &Server{
		options: options, methods: table(), managers: set(options.Managers), stopping: make(chan struct{}),
		calls: newCounter(math.MaxInt, math.MaxInt), bodies: newBudget(options.Limits.Bodies, options.Limits.AllBodies),
	}
	s.document = sync.OnceValues(func() ([]byte, error) { return OpenAPI(options.Methods) })
	if err := s.listen(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func set(names []string) map[string]bool {
	m := map[string]bool{}
	for _, n := range names {
		m[n] = true
	}
	return m
}

func (s *Server) listen() error {
	o := s.options
	if o.Socket == "" && o.TLS == nil && o.Loopback == nil {
		return errors.New("cannot serve masters: neither a socket nor an address is given")
	}
	if o.Socket != "" {
		l, err := s.listenUnix(o.Socket)
		if err != nil {
			return fmt.Errorf("cannot listen on the socket %q: %w", o.Socket, err)
		}
		s.listeners = append(s.listeners, l)
	}
	if o.TLS != nil {
		l, err := s.listenTLS(o.TLS)
		if err != nil {
			return fmt.Errorf("cannot listen for masters on %q: %w", o.TLS.Address, err)
		}
		s.listeners = append(s.listeners, l)
	}
	if o.Loopback != nil {
		l, err := s.listenLoopback(o.Loopback)
		if err != nil {
			return fmt.Errorf("cannot listen on %q: %w", o.Loopback.Address, err)
		}
		s.listeners = append(s.listeners, l)
	}
	return nil
}

// counter makes a counter for a listener: each listener counts separately, so that peers of one
// cannot take the connections of another.
func (s *Server) counter() *counter {
	c := newCounter(s.options.Limits.Connections, s.options.Limits.AllConnections)
	s.counts = append(s.counts, c)
	return c
}

// Close ends a server that is not run.
func (s *Server) Close() {
	for _, l := range s.listeners {
		l.Close()
	}
}

// Name returns "api".
func (s *Server) Name() string { return "api" }

// Run serves until the context ends. Streams end at once then; calls that have begun
// have Limits.Grace to finish. It can be used once.
func (s *Server) Run(ctx context.Context, c agent.Commands) error {
	s.commands = c
	s.epoch.raise(c.Health().Epoch)
	l := s.options.Limits
	server := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: l.Header, ReadTimeout: l.Read, IdleTimeout: l.Idle,
		MaxHeaderBytes: 32 << 10,
		ConnContext:    peerContext,
		ErrorLog:       log.New(newErrorLog(s.options.Clock, s.options.Notify), "", 0),
		// One request at a time on a connection, so that the number of connections
		// bounds all else.
		Protocols: new(http.Protocols),
	}
	server.Protocols.SetHTTP1(true)
	failed := make(chan error, len(s.listeners))
	var wait sync.WaitGroup
	for _, listener := range s.listeners {
		wait.Go(func() {
			if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				failed <- fmt.Errorf("cannot continue to listen on %s: %w", listener.Addr(), err)
			}
		})
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	close(s.stopping)
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.Grace)
	defer cancel()
	if server.Shutdown(grace) != nil {
		server.Close()
	}
	wait.Wait()
	server.Close() // connections accepted in the meantime
	for _, c := range s.counts {
		c.wait()
	}
	s.calls.wait()
	return err
}
