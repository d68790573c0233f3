// Package certfile reads certificates, a key and the trusted authorities from files, and reads them
// again when the files have changed, so that no process has to be restarted to renew certificates.
//
// Both ends of a connection use it. It makes no decisions about permissions. Files may be used by
// several goroutines.
package certfile

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// Paths are the files, all in PEM.
type Paths struct {
	CA          string // certificates of the authorities that are trusted
	Certificate string // followed by its intermediate certificates
	Key         string // of the certificate
}

// Material is the content of the files. It never changes.
type Material struct {
	Authorities *x509.CertPool // nil if Paths.CA is empty
	Certificate tls.Certificate
}

// Files are files that have been read.
type Files struct {
	paths  Paths
	notify func(error)

	mu      sync.Mutex
	tried   [3]stamp
	current Material
}

// stamp tells versions of a file apart.
type stamp struct {
	modified time.Time
	size     int64
	file     os.FileInfo // for its identity: a renamed file may have the time of the one it replaces
}

func (s stamp) same(t stamp) bool {
	if s.file == nil || t.file == nil {
		return s.file == nil && t.file == nil
	}
	return s.modified.Equal(t.modified) && s.size == t.size && os.SameFile(s.file, t.file)
}

// Open reads the files. If notify is not nil, it receives the reason why changed files cannot be
// used; the previous contents then stay in use. notify must not block.
func Open(paths Paths, notify func(error)) (*Files, error) {
	if paths.CA == "" || paths.Certificate == "" || paths.Key == "" {
		return nil, errors.New("TLS needs three files: the certificates of the authorities, a certificate, and its key")
	}
	return open(paths, notify)
}

// OpenServer does the same as Open for a server whose clients need no certificates: paths.CA may be empty.
func OpenServer(paths Paths, notify func(error)) (*Files, error) {
	if paths.Certificate == "" || paths.Key == "" {
		return nil, errors.New("TLS needs a certificate and its key")
	}
	return open(paths, notify)
}

func open(paths Paths, notify func(error)) (*Files, error) {
	if notify == nil {
		notify = func(error) {}
	}
	f := &Files{paths: paths, notify: notify}
	// The time stamps are read first, so that a file that changes during the read is read again.
	stamps, err := f.stamps()
	if err != nil {
		return nil, err
	}
	if f.current, err = read(paths); err != nil {
		return nil, err
	}
	f.tried = stamps
	return f, nil
}

// Current returns the current contents of the files, or if these cannot be used, the last usable
// ones.
func (f *Files) Current() Material {
	f.mu.Lock()
	defer f.mu.Unlock()
	stamps, err := f.stamps()
	if err != nil {
		// A file that is just being replaced; the next call checks it again.
		return f.current
	}
	if stamps[0].same(f.tried[0]) && stamps[1].same(f.tried[1]) && stamps[2].same(f.tried[2]) {
		return f.current
	}
	f.tried = stamps
	m, err := read(f.paths)
	if err != nil {
		f.notify(fmt.Errorf("the new certificates cannot be used, and the previous ones stay in use: %w", err))
		return f.current
	}
	f.current = m
	return m
}

func (f *Files) stamps() (stamps [3]stamp, err error) {
	for i, path := range []string{f.paths.CA, f.paths.Certificate, f.paths.Key} {
		if path == "" {
			continue
		}
		info, err := os.Stat(path)
		if err != nil {
			return stamps, err
		}
		stamps[i] = stamp{info.ModTime(), info.Size(), info}
	}
	return stamps, nil
}

func read(p Paths) (m Material, err error) {
	if p.CA != "" {
		pem, err := os.ReadFile(p.CA)
		if err != nil {
			return m, err
		}
		m.Authorities = x509.NewCertPool()
		if !m.Authorities.AppendCertsFromPEM(pem) {
			return m, fmt.Errorf("%s: it contains no certificate, expected those of authorities in PEM form", p.CA)
		}
	}
	if m.Certificate, err = tls.LoadX509KeyPair(p.Certificate, p.Key); err != nil {
		return m, fmt.Errorf("%s and %s: %w", p.Certificate, p.Key, err)
	}
	return m, nil
}
