package serve

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/internal/host/userdb"
)

// peer is the identified sender of a request.
type peer struct {
	manager bool   // may do all
	own     bool   // root, or the user that the server runs as
	user    string // login name, if the peer is not a manager
	from    string // for errors: "user alice"
	master  string // the name in the certificate of a master
	token   bool   // the right one was sent
}

type peerKey struct{}

// connection holds the properties of a peer that are known before its first request.
type connection struct {
	*peerConn
	via string // for Server.Call: the kind of the caller; empty for a connection
	// The user is looked up once per connection, and only when needed, because the user database
	// may be slow.
	lookUp sync.Once
	user   *userdb.User
	err    error
}

// peerContext adds the connection of the caller to the context of a request. It is used as
// http.Server.ConnContext.
func peerContext(ctx context.Context, c net.Conn) context.Context {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	p, _ := c.(*peerConn)
	return context.WithValue(ctx, peerKey{}, &connection{peerConn: p})
}

// identify returns the peer that sent the request, or the error for a peer without permission.
func (s *Server) identify(r *http.Request) (peer, *api.Error) {
	c, _ := r.Context().Value(peerKey{}).(*connection)
	switch {
	case c == nil || c.peerConn == nil:
		return peer{}, refuse(api.Internal, "it is not known who asks")
	case r.TLS != nil:
		return s.master(r.TLS)
	case c.token != nil:
		return bearer(c.token, r)
	}
	return s.local(c)
}

// local returns a user of this host.
func (s *Server) local(c *connection) (peer, *api.Error) {
	switch c.uid {
	case 0:
		return peer{manager: true, own: true, from: "root"}, nil
	case uint32(os.Geteuid()): // without root's rights, the agent's own user is its manager
		return peer{manager: true, own: true, from: "the owner of the agent"}, nil
	}
	c.lookUp.Do(func() { c.user, c.err = s.options.Users(c.uid) })
	if c.err != nil {
		return peer{}, refuse(api.PermissionDenied, "cannot determine the name of user ID %d: %v", c.uid, c.err)
	}
	name := c.user.Name
	return peer{manager: s.managers[name], user: name, from: "user " + name}, nil
}

// master returns the peer of a master's certificate. The TLS handshake has verified the issuer and
// the dates, but it may have happened long ago.
func (s *Server) master(state *tls.ConnectionState) (peer, *api.Error) {
	if len(state.VerifiedChains) == 0 {
		return peer{}, refuse(api.Unauthenticated, "no certificate was verified")
	}
	leaf := state.VerifiedChains[0][0]
	if now := time.Now(); now.After(leaf.NotAfter) {
		return peer{}, refuse(api.Unauthenticated, "the certificate has expired at %s", leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	for _, name := range leaf.DNSNames {
		if s.masters[name] {
			return peer{manager: true, from: "master " + name, master: name}, nil
		}
	}
	return peer{}, refuse(api.PermissionDenied, "the certificate is for %s, and none of that is the name of a master here", namesOf(leaf.DNSNames))
}

func namesOf(names []string) string {
	if len(names) == 0 {
		return "no DNS name"
	}
	return fmt.Sprintf("%q", names)
}

func bearer(t *token, r *http.Request) (peer, *api.Error) {
	word, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return peer{}, refuse(api.Unauthenticated, "a token is needed: Authorization: Bearer TOKEN")
	}
	switch match, err := t.matches(word); {
	case err != nil:
		return peer{}, refuse(api.Unauthenticated, "no token can be right: %v", err)
	case !match:
		return peer{}, refuse(api.Unauthenticated, "the token is wrong")
	}
	return peer{manager: true, from: "whoever has the token", token: true}, nil
}

func refuse(code api.Code, format string, args ...any) *api.Error {
	return &api.Error{Code: code, Message: fmt.Sprintf(format, args...)}
}
