package serve

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/execd-project/execd/agent"
	"github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/agent/audit"
)

// ServeHTTP answers one call.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.calls.add("")
	defer s.calls.remove("")
	c := &call{server: s, w: w, r: r, control: http.NewResponseController(w)}
	// The deadline of the previous call may have passed, and net/http itself writes "100 Continue".
	_ = c.control.SetWriteDeadline(time.Now().Add(s.options.Limits.Read)) // fails only on a broken connection
	defer func() {
		if what := recover(); what != nil {
			s.options.Notify(fmt.Errorf("%s: internal error: %v", r.URL.Path, what))
			c.fail(refuse(api.Internal, "internal error of the agent: see its log"))
		}
		for _, do := range c.after {
			do()
		}
	}()
	err := c.serve()
	c.audited(err)
	if err != nil {
		c.fail(err)
	}
}

// call is one request on its way.
type call struct {
	server  *Server
	w       http.ResponseWriter
	r       *http.Request
	control *http.ResponseController
	peer    peer
	turn    agent.Sequence // of the call, in its master's sequence
	body    []byte
	status  int           // of an error whose status is not the one of its code
	record  *audit.Record // for a call that changes something; otherwise nil
	begun   bool          // something was written
	after   []func()
}

// serve checks the form of the request and the permissions of the caller before it reads the
// message.
func (c *call) serve() *api.Error {
	if c.r.URL.Path == api.PathOpenAPI {
		return c.serveOpenAPI()
	}
	name, m, known := c.server.method(c.r.URL.Path)
	if !known {
		return refuse(api.Unimplemented, "there is no %q; %sVersion says what there is", c.r.URL.Path, api.Path)
	}
	if m.changes {
		c.record = &audit.Record{Caller: c.caller(), Command: name}
	}
	if err := c.checkForm(); err != nil {
		return err
	}
	var err *api.Error
	if c.peer, err = c.server.identify(c.r); err != nil {
		return err
	}
	if c.record != nil {
		c.peer.identified(&c.record.Caller)
	}
	if !c.peer.manager && !m.users {
		return refuse(api.PermissionDenied, "%s is for root, managers and masters, and this is %s", name, c.peer.from)
	}
	if m.masters && !c.mayBeMaster() {
		return refuse(api.PermissionDenied, "%s is for root, since the master of this agent is in its own process, and this is %s", name, c.peer.from)
	}
	if c.turn, err = turnOf(c.r); err != nil {
		return err
	}
	if !c.mayBeMaster() {
		c.turn = agent.Sequence{} // users are not masters
	}
	// Only a caller with the rights of a master can take over.
	if c.mayBeMaster() && m.orders {
		if err := c.server.epoch.check(c.turn.Epoch, c.server.commands); err != nil {
			return err
		}
	}
	if err := c.read(cmp.Or(m.body, c.most())); err != nil {
		return err
	}
	ctx, cancel, err := c.deadline()
	if err != nil {
		return err
	}
	defer cancel()
	answer, err := m.do(ctx, c)
	if err != nil || answer == nil {
		return err
	}
	return c.write(http.StatusOK, answer)
}

// mayBeMaster reports whether the peer may give the orders of a master.
func (c *call) mayBeMaster() bool {
	return c.peer.manager && (c.peer.own || !c.server.options.OwnMaster)
}

// checkForm checks the requirements of Connect's unary protocol.
func (c *call) checkForm() *api.Error {
	h := c.r.Header
	if c.r.Method != http.MethodPost {
		c.w.Header().Set("Allow", http.MethodPost)
		c.status = http.StatusMethodNotAllowed
		return refuse(api.Unimplemented, "the HTTP method is %s, expected POST", c.r.Method)
	}
	kind, parameters, err := mime.ParseMediaType(h.Get("Content-Type"))
	charset := strings.ToLower(parameters["charset"])
	if err != nil || kind != "application/json" || charset != "" && charset != "utf-8" {
		c.w.Header().Set("Accept-Post", "application/json")
		c.status = http.StatusUnsupportedMediaType
		return refuse(api.Unimplemented, "the Content-Type is %q, expected application/json", h.Get("Content-Type"))
	}
	if e := h.Get("Content-Encoding"); e != "" && e != "identity" {
		return refuse(api.Unimplemented, "Content-Encoding: %q, expected none", e)
	}
	if v := h.Get("Connect-Protocol-Version"); v != "" && v != "1" {
		return refuse(api.InvalidArgument, "Connect-Protocol-Version: %q, expected 1", v)
	}
	return nil
}

// method finds a method by its path, and says how it is called in errors.
func (s *Server) method(path string) (name string, m method, known bool) {
	if name, own := strings.CutPrefix(path, api.Path); own {
		m, known = s.methods[api.Method(name)]
		return name, m, known
	}
	further, known := s.options.Methods[path]
	return path, further.method(), known
}

// most returns the maximum size of a message.
func (c *call) most() int64 {
	if c.peer.manager {
		return c.server.options.Limits.Body
	}
	return c.server.options.Limits.UserBody
}

// read reads the message. Afterwards it removes the read deadline, which must not interrupt a
// longer call.
func (c *call) read(most int64) *api.Error {
	if err := c.reserve(most); err != nil {
		return err
	}
	var err error
	c.body, err = io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, most))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return refuse(api.ResourceExhausted, "the message has more than %d bytes", most)
	}
	if err != nil {
		return refuse(api.InvalidArgument, "cannot read the message: %v", err)
	}
	if err := c.control.SetReadDeadline(time.Time{}); err != nil {
		return refuse(api.Internal, "%v", err)
	}
	return nil
}

const (
	// smallBody is the size in bytes up to which messages always have room: the number of
	// connections is limited, too.
	smallBody = 64 << 10
	// roomPatience is the time for which a large message waits for room.
	roomPatience = 20 * time.Second
)

// reserve waits until there is room for a large message of a user, which is held until the
// call is answered.
func (c *call) reserve(most int64) *api.Error {
	on, _ := c.r.Context().Value(peerKey{}).(*connection)
	if on == nil || on.peerConn == nil || on.key == rootKey || !on.local() {
		return nil
	}
	size := c.r.ContentLength
	switch {
	case size > most:
		return refuse(api.ResourceExhausted, "the message has more than %d bytes", most)
	case size < 0:
		size = most
	}
	if size <= smallBody {
		return nil
	}
	if err := c.server.bodies.take(c.r.Context(), on.key, size, roomPatience); err != nil {
		c.w.Header().Set("Retry-After", "1")
		return refuse(api.ResourceExhausted, "there is no room for a message of %d bytes: large ones wait for each other, at most %d bytes at a time", size, c.server.options.Limits.Bodies)
	}
	c.after = append(c.after, func() { c.server.bodies.give(on.key, size) })
	// The time of waiting does not count for the sender.
	_ = c.control.SetReadDeadline(time.Now().Add(c.server.options.Limits.Read)) // fails only on a broken connection
	return nil
}

// deadline returns the context of the call, which ends at the caller's deadline:
// Connect-Timeout-Ms.
func (c *call) deadline() (context.Context, context.CancelFunc, *api.Error) {
	text := c.r.Header.Get("Connect-Timeout-Ms")
	if text == "" {
		ctx, cancel := context.WithCancel(c.r.Context())
		return ctx, cancel, nil
	}
	ms, err := strconv.ParseUint(text, 10, 64)
	if err != nil || len(text) > 10 {
		return nil, nil, refuse(api.InvalidArgument, "Connect-Timeout-Ms: %q, expected a number of milliseconds of at most 10 digits", text)
	}
	ctx, cancel := context.WithTimeout(c.r.Context(), time.Duration(ms)*time.Millisecond)
	return ctx, cancel, nil
}

// begin sets the deadline by which the peer must read the next output.
func (c *call) begin() {
	c.begun = true
	// If the deadline cannot be set, the connection is broken and the next write fails.
	_ = c.control.SetWriteDeadline(time.Now().Add(c.server.options.Limits.Write))
}

func (c *call) write(status int, answer any) *api.Error {
	b, err := encode(answer)
	if err != nil {
		return refuse(api.Internal, "cannot encode the answer: %v", err)
	}
	c.begin()
	c.w.Header().Set("Content-Type", "application/json")
	c.w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	c.w.WriteHeader(status)
	_, _ = c.w.Write(b) // fails only if the peer has disconnected
	return nil
}

// encode returns a value as one line of JSON. Its texts are also shown on terminals, so it does not
// escape the special characters of HTML.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return b.Bytes(), err
}

// fail answers with an error, unless an answer has begun.
func (c *call) fail(e *api.Error) {
	if c.begun {
		return
	}
	status := cmp.Or(c.status, e.Code.Status())
	if status == http.StatusUnauthorized {
		c.w.Header().Set("WWW-Authenticate", "Bearer")
	}
	_ = c.write(status, e) // two strings can be encoded
}

// failure converts an error of the agent into an answer.
func failure(err error) *api.Error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*agent.Error](err); ok {
		return &api.Error{Code: e.Code, Message: e.Error()}
	}
	switch {
	case errors.Is(err, context.Canceled):
		return &api.Error{Code: api.Canceled, Message: err.Error()}
	case errors.Is(err, context.DeadlineExceeded):
		return &api.Error{Code: api.DeadlineExceeded, Message: err.Error()}
	}
	return &api.Error{Code: api.Internal, Message: err.Error()}
}
