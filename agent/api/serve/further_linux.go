package serve

import (
	"context"

	"github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/internal/host/passed"
	"github.com/execd-project/execd/internal/host/userdb"
)

// Method is an additional call for users of this host. It is refused on all listeners except the
// socket, because the others cannot identify users.
type Method struct {
	// Body is the maximum size of a message in bytes; 0 means the value of Limits for the caller.
	Body int64
	// Do carries out a call. Its error is sent unchanged; its answer is encoded as JSON.
	Do func(ctx context.Context, c *Call) (any, *api.Error)
	// Summary, and values of the types of the message and of the answer, are for the OpenAPI document,
	// which does not describe a method without In.
	Summary string
	In, Out any
}

// Call describes a call.
type Call struct {
	User    *userdb.User // the caller, looked up by the user ID from the kernel
	Manager bool         // root, the server's own user, and Options.Managers
	PID     int32        // of the process that has connected, which may have ended since
	Body    []byte

	call *call
}

// After registers a function that runs once the call was answered, or its caller disconnected.
func (c *Call) After(do func()) { c.call.after = append(c.call.after, do) }

func (m Method) method() method {
	return method{users: true, body: m.Body, do: func(ctx context.Context, c *call) (any, *api.Error) {
		user, err := c.user()
		if err != nil {
			return nil, err
		}
		return m.Do(ctx, &Call{User: user, Manager: c.peer.manager, PID: c.pid(), Body: c.body, call: c})
	}}
}

// local reports whether the peer is a user on the socket.
func (c *connection) local() bool {
	_, local := c.Conn.(passed.Conn)
	return local
}

// user returns the user who calls on the socket.
func (c *call) user() (*userdb.User, *api.Error) {
	on, _ := c.r.Context().Value(peerKey{}).(*connection)
	if on == nil || on.peerConn == nil {
		return nil, refuse(api.Internal, "it is not known who asks")
	}
	if !on.local() {
		return nil, refuse(api.PermissionDenied, "this is for users of the host, on its socket")
	}
	on.lookUp.Do(func() { on.user, on.err = c.server.options.Users(on.uid) })
	if on.err != nil {
		return nil, refuse(api.PermissionDenied, "cannot determine the name of user ID %d: %v", on.uid, on.err)
	}
	return on.user, nil
}

// pid returns the process that has connected to the socket; 0 for a peer elsewhere.
func (c *call) pid() int32 {
	on, _ := c.r.Context().Value(peerKey{}).(*connection)
	if on == nil || on.peerConn == nil {
		return 0
	}
	return on.pid
}
