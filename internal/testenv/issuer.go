package testenv

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/url"
	"testing"
	"time"
)

// Issuer is an authority that signs certificates.
type Issuer struct {
	testing.TB
	leaf *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Issue signs a certificate; an issuer without a certificate makes its own one. It returns both in PEM, the key
// second.
func (i *Issuer) Issue(template *x509.Certificate) (certificate, private []byte) {
	i.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		i.Fatal(err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	parent, signer := i.leaf, i.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		i.Fatal(err)
	}
	if i.leaf == nil {
		if i.leaf, err = x509.ParseCertificate(der); err != nil {
			i.Fatal(err)
		}
		i.key = key
	}
	text, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		i.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text})
}

// NewIssuer makes an authority and returns its certificate in PEM.
func NewIssuer(t testing.TB) (*Issuer, []byte) {
	t.Helper()
	i := &Issuer{TB: t}
	text, _ := i.Issue(&x509.Certificate{Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return i, text
}

// UserCertificate makes a certificate for a user of the pages, or for a host if name is empty.
func (i *Issuer) UserCertificate(name string) tls.Certificate {
	i.Helper()
	template := &x509.Certificate{Subject: pkix.Name{CommonName: "root"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	if name != "" {
		template.URIs = []*url.URL{{Scheme: "execd", Opaque: "user:" + name}}
	}
	certificate, err := tls.X509KeyPair(i.Issue(template))
	if err != nil {
		i.Fatal(err)
	}
	return certificate
}
