package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/internal/host/userdb"
)

// Call calls a method for a user whom another part of the daemon, such as its web pages, has identified. The user has
// the same permissions as on the socket. via and remote are for the audit log: the kind of the caller and its address.
// The error of the method is an *api.Error.
func (s *Server) Call(ctx context.Context, u *userdb.User, via, remote string, m api.Method, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	from := &connection{peerConn: &peerConn{uid: u.UID}, via: via}
	from.lookUp.Do(func() { from.user = u })
	r, err := http.NewRequestWithContext(context.WithValue(ctx, peerKey{}, from), http.MethodPost, api.Path+string(m), bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.RemoteAddr = remote
	w := &memory{header: http.Header{}}
	s.ServeHTTP(w, r)
	if w.status != http.StatusOK {
		e := &api.Error{}
		if err := json.Unmarshal(w.body.Bytes(), e); err != nil {
			return err
		}
		return e
	}
	return json.Unmarshal(w.body.Bytes(), out)
}

// memory keeps the answer to a call of Server.Call.
type memory struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (w *memory) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *memory) WriteHeader(status int) { w.status = status }

// Write implements http.ResponseWriter.
func (w *memory) Write(p []byte) (int, error) { return w.body.Write(p) }

// SetReadDeadline is for http.ResponseController: no connection can be slow.
func (w *memory) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline likewise.
func (w *memory) SetWriteDeadline(time.Time) error { return nil }
