package gridengine

import (
	"crypto/tls"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"time"

	"github.com/execd-project/execd/agent/gridengine/commlib"
	"github.com/execd-project/execd/agent/gridengine/interactive"
	"github.com/execd-project/execd/agent/gridengine/pinned"
	"github.com/execd-project/execd/internal/textfile"
	"github.com/execd-project/execd/internal/userfile"
)

// keyDirectory is where Open Cluster Scheduler keeps the keys of the daemons of a host.
const keyDirectory = "/var/lib/ocs"

// certificatePath returns the path of the certificate of a daemon on a host.
func (c *Cell) certificatePath(component, host string) string {
	return c.path(filepath.Join("certs", component+"_"+host+".pem"))
}

// certify reads or makes the certificate of this daemon, if the cell has security_mode tls.
func (l *Link) certify() error {
	o := &l.options
	if !o.Cell.Security.TLS {
		return nil
	}
	keys := o.KeyDirectory
	if keys == "" {
		keys = filepath.Join(keyDirectory, strconv.Itoa(o.Cell.QmasterPort), "private")
	}
	l.own = &pinned.Own{
		Certificate: o.Cell.certificatePath(commlib.Execd, o.Host), Key: filepath.Join(keys, commlib.Execd+"_"+o.Host+".pem"),
		Host: o.Host, Lifetime: o.Cell.Security.Lifetime, Now: l.clock.Now,
	}
	_, err := l.own.Renew()
	return err
}

// renewAgain is the pause after a certificate could not be renewed.
const renewAgain = time.Minute

// renew renews the certificate of this daemon until the session ends.
func (s *session) renew() {
	if s.own == nil {
		return
	}
	for {
		due, err := s.own.Renew()
		if err != nil {
			s.log.Error("the certificate of this daemon was not renewed", "error", err)
			due = s.clock.Now().Add(renewAgain)
		}
		timer := s.clock.NewTimer(due.Sub(s.clock.Now()))
		select {
		case <-timer.C():
		case <-s.ctx.Done():
			timer.Stop()
			return
		}
	}
}

// encrypt returns an encrypted connection with the sge_qmaster of a host, if the cell has security_mode
// tls. It closes nc after an error.
func (s *session) encrypt(nc net.Conn, master string) (net.Conn, error) {
	if s.own == nil {
		return nc, nil
	}
	path := s.options.Cell.certificatePath(commlib.Qmaster, master)
	text, err := userfile.Read(path, textfile.MaxConfig)
	if err == nil {
		var settings *tls.Config
		if settings, err = pinned.Client(text); err == nil {
			return tls.Client(nc, settings), nil
		}
	}
	nc.Close()
	return nil, fmt.Errorf("cannot verify sge_qmaster by its certificate %s: %w", path, err)
}

// decrypt returns the contents of an accepted connection, which is encrypted if the cell has security_mode
// tls.
func (s *session) decrypt(nc *accepted) net.Conn {
	if s.own == nil {
		return nc
	}
	return tls.Server(nc, s.own.Server())
}

// certificateVariable returns the environment variable with the certificate of the client of an
// interactive job; empty unless the cell has security_mode tls.
func (s Security) certificateVariable(certificate string) (name, value string, err error) {
	if !s.TLS {
		return "", "", nil
	}
	if value, err = pinned.Word([]byte(certificate)); err != nil {
		return "", "", fmt.Errorf("the client has sent no certificate: %w", err)
	}
	return interactive.CertificateVariable, value, nil
}
