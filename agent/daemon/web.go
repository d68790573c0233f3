package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"

	"github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/agent/api/serve"
	"github.com/execd-project/execd/internal/certfile"
	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/internal/options"
)

// Pages are the web pages of a daemon (--web).
type Pages interface {
	// Methods are their calls on the socket of the agent.
	Methods() map[string]serve.Method
	// Serve answers browsers on a listener until ctx is done.
	Serve(ctx context.Context, l net.Listener) error
}

// Web holds the resources that a daemon offers to its pages.
type Web struct {
	Address  string   // the value of --web
	Listener net.Addr // where the daemon listens
	// Files are the certificate of the daemon, and the authorities of certificates of users.
	Files  *certfile.Files
	Master Master // nil for none
	Host   string
	// Front says that this process has no rights of users.
	Front bool
	// Call calls a method of the agent for a user whom the pages have identified: see serve.Server.Call. It may be
	// called while the pages are served.
	Call func(ctx context.Context, u *userdb.User, remote string, m api.Method, in, out any) error
}

// checkWeb refuses options that contradict each other.
func (s *settings) checkWeb() error {
	switch {
	case s.web == "":
		return nil
	case s.tlsCert == "" || s.tlsKey == "":
		return options.Usagef("--web needs --tls-cert and --tls-key: pages are served over TLS only")
	}
	if _, _, err := net.SplitHostPort(s.web); err != nil {
		return options.Usagef("--web %q, expected an address such as node1.example.org:8443 or :8443", s.web)
	}
	return nil
}

// openWeb begins to listen for browsers and makes the pages.
func (d *daemon) openWeb() (err error) {
	if d.web == "" {
		return nil
	}
	if d.Web == nil {
		return errors.New("--web: this command has no pages")
	}
	files, err := certfile.OpenServer(certfile.Paths{Certificate: d.tlsCert, Key: d.tlsKey, CA: d.tlsCA}, func(err error) { d.log.Error("cannot use the new certificates of --web", "error", err) })
	if err != nil {
		return fmt.Errorf("--web: %w", err)
	}
	if d.browsers, err = net.Listen("tcp", d.web); err != nil {
		return fmt.Errorf("--web: %w", err)
	}
	d.pages, err = d.Web(&Web{
		Address: d.web, Listener: d.browsers.Addr(), Files: files, Master: d.master, Host: d.host, Front: d.isFront(),
		Call: func(ctx context.Context, u *userdb.User, remote string, m api.Method, in, out any) error {
			return d.server.Call(ctx, u, "web", remote, m, in, out)
		},
	})
	if err != nil {
		return fmt.Errorf("--web: %w", err)
	}
	if d.isFront() && d.ownMaster {
		d.log.Warn("the pages of --web do not show the output of jobs, because this process has no rights to read files of users (--front-user): execd tail and execd web show it")
	}
	return nil
}

// serveWeb serves the pages until the context ends.
func (d *daemon) serveWeb(ctx context.Context) {
	if d.pages == nil {
		return
	}
	d.log.Info("serving pages", "address", d.browsers.Addr().String())
	d.beside.Go(func() {
		if err := d.pages.Serve(ctx, d.browsers); err != nil {
			d.log.Error("cannot continue to serve pages", "error", err)
		}
	})
}

// methods returns the calls of the master in this process and of the pages.
func (d *daemon) methods() map[string]serve.Method {
	all := map[string]serve.Method{}
	if d.master != nil {
		maps.Copy(all, d.master.Methods())
	}
	if d.pages != nil {
		maps.Copy(all, d.pages.Methods())
	}
	return all
}
