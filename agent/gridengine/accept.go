package gridengine

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/execd-project/execd/agent/gridengine/commlib"
)

// The bounds of connections that others have opened.
const (
	idleClient       = 10 * time.Minute
	acceptedPayload  = 2 << 20 // of messages of others than qmaster: more than an environment can have
	acceptedShake    = 20 * time.Second
	acceptErrorPause = 100 * time.Millisecond
)

// complaints limits log lines that anyone who can reach the port can cause.
type complaints struct {
	mu    sync.Mutex
	began time.Time
	count int
}

// more reports whether another line may be logged, and whether it is the last one for a while.
func (c *complaints) more(now time.Time) (ok, last bool) {
	const many, while = 20, time.Minute
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(c.began) > while {
		c.began, c.count = now, 0
	}
	c.count++
	return c.count <= many, c.count == many
}

// complain logs an error of a peer, with a limited rate.
func (s *session) complain(text string, args ...any) {
	ok, last := s.complaints.more(time.Now())
	if ok {
		s.log.Warn(text, args...)
	}
	if last {
		s.log.Warn("further errors of other programs are not logged for a minute")
	}
}

// accept takes connections of qmaster, of qrsh -inherit and of qping.
func (s *session) accept() {
	for {
		nc, err := s.listener.Accept()
		if errors.Is(err, net.ErrClosed) || s.ctx.Err() != nil {
			return
		}
		if err != nil { // no descriptors, for instance
			s.log.Warn("a connection was not accepted", "error", err)
			select {
			case <-time.After(acceptErrorPause):
			case <-s.ctx.Done():
			}
			continue
		}
		var spared []netip.Addr
		if s.guests.full() {
			spared = s.masterAddresses(time.Now())
		}
		g := s.newAccepted(nc)
		if instead := s.guests.add(g, spared); instead != nil {
			s.complain("a connection was closed: there are too many", "from", instead.RemoteAddr())
			instead.Close()
		}
		s.wait.Go(func() {
			defer s.guests.remove(g)
			s.serve(g)
		})
	}
}

// accepted is a connection from a peer. Work for the peer, such as looking up host names that it
// invented, ends when the connection is closed.
type accepted struct {
	net.Conn
	ctx    context.Context
	cancel context.CancelFunc
}

func (s *session) newAccepted(nc net.Conn) *accepted {
	a := &accepted{Conn: nc}
	a.ctx, a.cancel = context.WithCancel(s.ctx)
	return a
}

func (a *accepted) Close() error {
	a.cancel()
	return a.Conn.Close()
}

// serve sets a connection up, and serves it unless it is of qmaster.
func (s *session) serve(nc *accepted) {
	defer nc.Close()
	stop := context.AfterFunc(s.ctx, func() { nc.Close() }) // the set-up ends with the session
	var from commlib.Endpoint
	options := commlib.Options{Handshake: acceptedShake, Idle: idleClient, Limits: commlib.Limits{Payload: acceptedPayload}}
	decide := func(r *commlib.ConnectRequest) commlib.ConnectResponse {
		from = r.From
		return s.decide(nc, r)
	}
	conn, err := commlib.Server(s.decrypt(nc), options, decide)
	stop()
	if err != nil {
		if !errors.Is(err, net.ErrClosed) { // this side has closed it
			s.complain("a connection was not set up", "from", nc.RemoteAddr().String(), "endpoint", from.String(), "error", err)
		}
		return
	}
	if from.Component == commlib.Qmaster {
		s.guests.remove(nc)
		conn.Use(commlib.Options{Silence: silence})
		taken := make(chan bool, 1)
		s.do(func() {
			if taken <- s.conn == nil; s.conn == nil {
				s.use(conn)
			}
		})
		select {
		case ok := <-taken:
			if ok {
				<-conn.Done()
			}
		case <-s.ctx.Done():
		}
		conn.Abort()
		return
	}
	stop = context.AfterFunc(s.ctx, conn.Abort)
	defer stop()
	s.client(conn)
}

// decide answers the request for a connection.
func (s *session) decide(nc *accepted, r *commlib.ConnectRequest) commlib.ConnectResponse {
	denied := func(text string) commlib.ConnectResponse {
		return commlib.ConnectResponse{Condition: commlib.AccessDenied, Text: text}
	}
	self := s.self()
	from := r.From
	from.Host = s.options.Cell.Names.Canonical(from.Host)
	switch {
	case r.Format != commlib.Binary || r.Type != commlib.ConnectMessages:
		return commlib.ConnectResponse{Condition: commlib.UnsupportedFormat, Text: "only binary messages are taken"}
	case r.To.Component != self.Component || r.To.ID != self.ID:
		return denied("local endpoint \"" + self.String() + "\" doesn't match requested endpoint \"" + r.To.String() + "\"")
	case !s.options.Cell.comesFrom(nc.ctx, nc.RemoteAddr(), from.Host):
		return denied("the address of the client is not an address of host \"" + from.Host + "\"")
	}
	switch from.Component {
	case commlib.Qmaster:
		if s.own != nil { // a client has no certificate: any program of that host could claim to be qmaster
			return denied("with security_mode tls only the daemon opens the connection with sge_qmaster")
		}
		master, err := s.options.Cell.Master()
		if err != nil || !s.options.Cell.Names.Same(master, from.Host) || from.ID != 1 {
			return denied("only the host of act_qmaster, \"" + master + "\", sends jobs")
		}
		unique := make(chan bool, 1)
		s.do(func() { unique <- s.conn == nil })
		select {
		case ok := <-unique:
			if !ok {
				s.do(func() { // the other one may be dead
					if s.conn != nil {
						_ = s.conn.Ask()
					}
				})
				return commlib.ConnectResponse{Condition: commlib.NotUnique, Text: "endpoint \"" + from.String() + "\" is already connected"}
			}
		case <-s.ctx.Done():
			return denied("the daemon is stopping")
		}
	case commlib.ExecdHandle, commlib.Qping:
		if from.ID == 0 {
			from.ID = s.clientID()
		}
	default:
		return denied("component \"" + from.Component + "\" has nothing to ask here")
	}
	return commlib.ConnectResponse{Condition: commlib.Connected, From: from}
}
