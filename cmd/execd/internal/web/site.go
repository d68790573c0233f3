package web

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/execd-project/execd/cmd/execd/internal/qclient"
	"github.com/execd-project/execd/internal/certfile"
	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/internal/userfile"
)

const (
	linkTime    = 5 * time.Minute
	sessionTime = 24 * time.Hour
	// maxOfUser is the maximum number of browsers of a user, and of links that were not used.
	maxOfUser = 16
	// userURI begins the URI of a certificate that belongs to a user. The name of the user follows.
	userURI = "execd:user:"
)

// Host is the daemon that serves pages.
type Host struct {
	Address  string   // as the administrator has given it
	Listener net.Addr // where the daemon listens
	Files    *certfile.Files
	// Front says that this process has no rights of users.
	Front bool
	// As returns the daemon for calls of a user whom the pages have identified.
	As func(u *userdb.User) qclient.Daemon
	// Call is set instead of As for execd agent, which has no commands of Grid Engine.
	Call Call
}

// Site is the pages of a daemon for all users (--web).
type Site struct {
	guard  *guard
	host   *Host
	common *views
}

// NewSite returns the pages of a daemon.
func NewSite(h *Host) (*Site, error) {
	s := &Site{host: h, common: newViews()}
	_, port, err := net.SplitHostPort(h.Listener.String())
	if err != nil {
		return nil, err
	}
	base, err := s.name(port)
	if err != nil {
		return nil, err
	}
	s.guard = newGuard(rules{
		base: base, named: s.named, cookie: "__Host-execd", secure: true, linkTime: linkTime, sessionTime: sessionTime, most: maxOfUser, replace: true,
		how:       "On the host of the daemon, type execd web --link, and open the link that it prints.",
		certified: certified,
	})
	return s, nil
}

// name returns the address of the pages in links: the name of the option --web if the certificate is for
// it, otherwise the first name of the certificate.
func (s *Site) name(port string) (string, error) {
	leaf := s.host.Files.Current().Certificate.Leaf
	host, _, err := net.SplitHostPort(s.host.Address)
	if err != nil {
		return "", err
	}
	if host == "" || leaf.VerifyHostname(host) != nil {
		names := leaf.DNSNames
		for _, ip := range leaf.IPAddresses {
			names = append(names, ip.String())
		}
		if len(names) == 0 {
			return "", errors.New("the certificate has no name of a host, which browsers need")
		}
		host = names[0]
	}
	return "https://" + net.JoinHostPort(host, port), nil
}

// named reports whether the certificate is for the host of a request.
func (s *Site) named(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return s.host.Files.Current().Certificate.Leaf.VerifyHostname(host) == nil
}

// certified returns the user of a certificate: its only URI that begins with userURI names the user.
func certified(c *x509.Certificate) (*userdb.User, error) {
	name := ""
	for _, uri := range c.URIs {
		if rest, ok := strings.CutPrefix(uri.String(), userURI); ok {
			if name != "" {
				return nil, errors.New("the certificate is for several users")
			}
			name = rest
		}
	}
	if name == "" {
		return nil, errors.New("the certificate is not for a user")
	}
	return userdb.System().User(name)
}

// Link makes a link with which a user enters the pages, and returns its lifetime.
func (s *Site) Link(u *userdb.User) (link string, life time.Duration) {
	return s.guard.link(u), linkTime
}

// Serve answers browsers until ctx is done.
func (s *Site) Serve(ctx context.Context, l net.Listener) error {
	pages := newServer(ctx, s.guard, s.content)
	pages.leaves = true
	server := &http.Server{
		Handler: bounded(pages.handler(), bodyTime, sendTime), ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ConnContext: withConnection,
		ErrorLog:    log.New(io.Discard, "", 0), // errors of clients only
		TLSConfig:   &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: protocols, GetConfigForClient: s.config},
	}
	ended := make(chan error, 1)
	go func() { ended <- server.ServeTLS(newGate(l, mostConnections(), maxOfOneAddress), "", "") }()
	var err error
	select {
	case err = <-ended:
		err = fmt.Errorf("cannot continue to serve pages on %s: %w", l.Addr(), err)
	case <-ctx.Done():
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
		defer cancel()
		if server.Shutdown(late) != nil {
			_ = server.Close()
		}
		<-ended //nolint:errcheck // the server was closed
	}
	pages.wait()
	return err
}

var protocols = []string{"h2", "http/1.1"}

// config returns the certificates for a connection. The files are read again when they have changed.
func (s *Site) config(*tls.ClientHelloInfo) (*tls.Config, error) {
	m := s.host.Files.Current()
	c := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: protocols, Certificates: []tls.Certificate{m.Certificate}, SessionTicketsDisabled: true}
	if m.Authorities != nil {
		c.ClientAuth, c.ClientCAs = tls.VerifyClientCertIfGiven, m.Authorities
	}
	return c, nil
}

// content returns the content for a user.
func (s *Site) content(u *userdb.User) content {
	if s.host.Call != nil {
		return &agentContent{u, s.host.Call}
	}
	data := newSource(qclient.NewSession(s.host.As(u)), s.common, u, userFile(u))
	data.onlyRecent = true
	if s.host.Front {
		data.records = publicFile // of the front itself
	}
	return data
}

// errNoRights is why the pages of a daemon of two processes show no output.
var errNoRights = errors.New("cannot read files of users: the process that serves the pages has no rights of users (--front-user)")

// userFile returns a function that opens files with the rights of a user.
func userFile(u *userdb.User) opener {
	return func(path string) (*os.File, error) {
		switch os.Geteuid() {
		case int(u.UID):
			return userfile.Open(path, 0)
		case 0:
			groups, err := userdb.System().Groups(u.Name, u.GID)
			if err != nil {
				return nil, err
			}
			return (&userfile.Rights{UID: u.UID, GID: u.GID, Groups: groups}).Open(path, 0)
		}
		return nil, errNoRights
	}
}

// publicFile opens a file that everybody may read.
func publicFile(path string) (*os.File, error) {
	f, err := userfile.Open(path, 0)
	if err != nil {
		return nil, err
	}
	const everybody = 0o004
	info, err := f.Stat()
	if err == nil && info.Mode()&everybody == 0 {
		err = os.ErrPermission
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
