package certfile

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// put writes a certificate that has signed itself, and its key, under a number.
func put(t *testing.T, p Paths, number int64) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(number), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	replace(t, p.CA, cert)
	replace(t, p.Certificate, cert)
	replace(t, p.Key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
}

// replace puts another file in the place of one, with a time that may be the same.
func replace(t *testing.T, path string, text []byte) {
	t.Helper()
	when := time.Unix(1e9, 0)
	if err := errors.Join(os.WriteFile(path+".new", text, 0o600), os.Chtimes(path+".new", when, when), os.Rename(path+".new", path)); err != nil {
		t.Fatal(err)
	}
}

func number(m Material) int64 { return m.Certificate.Leaf.SerialNumber.Int64() }

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	p := Paths{filepath.Join(dir, "ca"), filepath.Join(dir, "cert"), filepath.Join(dir, "key")}
	put(t, p, 1)
	var told []string
	f, err := Open(p, func(err error) { told = append(told, err.Error()) })
	if err != nil {
		t.Fatal(err)
	}
	if got := number(f.Current()); got != 1 {
		t.Errorf("certificate %d", got)
	}
	put(t, p, 2)
	if got := number(f.Current()); got != 2 {
		t.Errorf("certificate %d after the files were replaced", got)
	}
	if len(told) > 0 {
		t.Errorf("told: %q", told)
	}

	// A certificate whose key has not come yet: what was there stays, and it is said once.
	key, err := os.ReadFile(p.Key)
	if err != nil {
		t.Fatal(err)
	}
	put(t, p, 3)
	right, err := os.ReadFile(p.Key)
	if err != nil {
		t.Fatal(err)
	}
	replace(t, p.Key, key)
	for range 3 {
		if got := number(f.Current()); got != 2 {
			t.Errorf("certificate %d without its key", got)
		}
	}
	if len(told) != 1 || !strings.Contains(told[0], "the previous ones stay in use: "+p.Certificate+" and "+p.Key) {
		t.Errorf("told: %q", told)
	}
	replace(t, p.Key, right)
	if got := number(f.Current()); got != 3 {
		t.Errorf("certificate %d once its key has come", got)
	}

	// Files that are being replaced may be missing for a moment.
	if err := os.Remove(p.CA); err != nil {
		t.Fatal(err)
	}
	if got := number(f.Current()); got != 3 || len(told) != 1 {
		t.Errorf("certificate %d without a file, told %q", got, told)
	}
	replace(t, p.CA, []byte("nothing"))
	if got := number(f.Current()); got != 3 || len(told) != 2 || !strings.Contains(told[1], "it contains no certificate") {
		t.Errorf("certificate %d without authorities, told %q", got, told)
	}
}

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	p := Paths{filepath.Join(dir, "ca"), filepath.Join(dir, "cert"), filepath.Join(dir, "key")}
	put(t, p, 1)
	for name, test := range map[string]struct {
		paths Paths
		want  string
	}{
		"nothing":         {Paths{}, "three files"},
		"no key":          {Paths{p.CA, p.Certificate, ""}, "three files"},
		"no such file":    {Paths{p.CA, p.Certificate, p.Key + "x"}, "keyx: no such file"},
		"a key for a CA":  {Paths{p.Key, p.Certificate, p.Key}, "it contains no certificate"},
		"no key in it":    {Paths{p.CA, p.Certificate, p.CA}, "cert and "},
		"files exchanged": {Paths{p.CA, p.Key, p.Certificate}, "key and "},
	} {
		if _, err := Open(test.paths, nil); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v; want ...%s...", name, err, test.want)
		}
	}
}
