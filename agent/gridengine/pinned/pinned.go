// Package pinned has the certificates of a cell with security_mode tls (bootstrap(5)) of Open Cluster
// Scheduler 9.1. There is no authority: each daemon makes a certificate for itself, which it puts into a
// directory of the cell that all hosts read, and a client accepts only the certificate that this directory
// has for the daemon. Clients have no certificates. The client of an interactive job makes one for each
// job, and sends it with the job.
//
// Other projects should not import this package: it may change at any time.
package pinned

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// The lifetime of certificates: bounds, and the default of certificate_lifetime in security_params of
// bootstrap(5).
const (
	LeastLifetime   = 2 * time.Minute
	DefaultLifetime = 365 * 24 * time.Hour
)

const (
	certificateBlock = "CERTIFICATE"
	keyBlock         = "PRIVATE KEY"
	keyBits          = 2048
	// early is how long before its making a certificate begins to be valid, for hosts whose clock is behind.
	early = 10 * time.Second
	// renewal is the part of its lifetime that a certificate is renewed before its end: a quarter.
	renewal = 4
)

// Own is the certificate of this daemon. It is kept in files, which the sge_execd of this host uses as well.
type Own struct {
	// Certificate and Key are paths of files in PEM. Others must be able to read the first one.
	Certificate, Key string
	Host             string // the name of this host in the cell
	Lifetime         time.Duration
	Now              func() time.Time

	mu      sync.Mutex
	current *tls.Certificate
}

// Renew reads the certificate, or makes another one if there is none, if it cannot be used, or if less
// than a quarter of its lifetime is left. It returns the time when Renew has to be called again.
func (o *Own) Renew() (time.Time, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.current == nil {
		if pair, err := tls.LoadX509KeyPair(o.Certificate, o.Key); err == nil && pair.Leaf.Subject.CommonName == o.Host {
			o.current = &pair
		}
	}
	if o.current == nil || !o.Now().Before(o.due()) {
		pair, err := o.make()
		if err != nil {
			return time.Time{}, err
		}
		o.current = pair
	}
	return o.due(), nil
}

func (o *Own) due() time.Time { return o.current.Leaf.NotAfter.Add(-o.Lifetime / renewal) }

// make makes a certificate and writes its files.
func (o *Own) make() (*tls.Certificate, error) {
	key, err := rsa.GenerateKey(rand.Reader, keyBits)
	if err != nil {
		return nil, err
	}
	now := o.Now()
	// OpenSSL accepts a certificate that signs itself without extensions for the use of keys.
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: o.Host}, DNSNames: []string{o.Host},
		NotBefore: now.Add(-early), NotAfter: now.Add(o.Lifetime), SignatureAlgorithm: x509.SHA256WithRSA,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	for _, f := range []struct {
		path, block    string
		content        []byte
		directory, own os.FileMode
	}{
		{o.Key, keyBlock, private, 0o700, 0o600},
		{o.Certificate, certificateBlock, der, 0o755, 0o644},
	} {
		if err := replace(f.path, pem.EncodeToMemory(&pem.Block{Type: f.block, Bytes: f.content}), f.directory, f.own); err != nil {
			return nil, fmt.Errorf("cannot store the certificate of this host: %w", err)
		}
	}
	leaf, err := x509.ParseCertificate(der)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, err
}

// replace writes a file in one step, and its directory if there is none. Others can choose the files of
// that directory, but not where a name without links leads.
func replace(path string, content []byte, directory, mode os.FileMode) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, directory); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// Server returns the settings of the side that takes connections.
func (o *Own) Server() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		o.mu.Lock()
		defer o.mu.Unlock()
		return o.current, nil
	}}
}

// Client returns the settings of the side that opens a connection to a daemon or client with this
// certificate, in PEM. It accepts no other, and not this one after its end.
func Client(text []byte) (*tls.Config, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != certificateBlock {
		return nil, errors.New("it contains no certificate in PEM form")
	}
	if _, err := x509.ParseCertificate(block.Bytes); err != nil {
		return nil, err
	}
	return client(block.Bytes), nil
}

func client(der []byte) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		// The certificate is no authority's and needs no name in it: VerifyConnection checks more.
		InsecureSkipVerify: true, //nolint:gosec // see above
		VerifyConnection: func(s tls.ConnectionState) error {
			switch leaf := s.PeerCertificates[0]; {
			case !bytes.Equal(leaf.Raw, der):
				return errors.New("the certificate of the other side differs from its certificate in the cell")
			case time.Now().After(leaf.NotAfter):
				return fmt.Errorf("the certificate of the other side expired at %s", leaf.NotAfter.UTC().Format(time.RFC3339))
			case time.Now().Before(leaf.NotBefore):
				return fmt.Errorf("the certificate of the other side is not valid before %s: compare the clocks of the two hosts", leaf.NotBefore.UTC().Format(time.RFC3339))
			}
			return nil
		},
	}
}

// Word returns a certificate in PEM as one word, for an environment variable.
func Word(text []byte) (string, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != certificateBlock {
		return "", errors.New("it is not a certificate in PEM form")
	}
	return base64.StdEncoding.EncodeToString(block.Bytes), nil
}

// ClientOfWord is Client for what Word has returned.
func ClientOfWord(word string) (*tls.Config, error) {
	der, err := base64.StdEncoding.DecodeString(word)
	if err != nil {
		return nil, err
	}
	if _, err := x509.ParseCertificate(der); err != nil {
		return nil, err
	}
	return client(der), nil
}
