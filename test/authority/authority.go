// Package authority signs certificates for tests, and keeps them in files of PEM:
//
//	ca := authority.New(t)
//	ca.Sign("client", func(c *x509.Certificate) { c.NotAfter = time.Now() })
//	use(ca.File("ca.pem"), ca.File("client.pem"), ca.File("client.key"))
//
// It knows files, and not who reads them.
package authority

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority is one that signs. Its own certificate is in ca.pem.
type Authority struct {
	Cert *x509.Certificate

	tb  testing.TB
	dir string
	key *ecdsa.PrivateKey
}

// New makes an authority with a directory of its own, for one test. Its certificate may be changed before it is signed.
func New(tb testing.TB, change ...func(*x509.Certificate)) *Authority {
	tb.Helper()
	a := &Authority{tb: tb, dir: tb.TempDir()}
	own := func(c *x509.Certificate) {
		c.IsCA, c.BasicConstraintsValid, c.KeyUsage = true, true, x509.KeyUsageCertSign
	}
	a.Cert, a.key = a.Sign("ca", append([]func(*x509.Certificate){own}, change...)...)
	return a
}

// Sign writes NAME.pem and NAME.key, for one hour, with the common name NAME, unless that is changed.
func (a *Authority) Sign(name string, change ...func(*x509.Certificate)) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	a.must(err)
	c := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	for _, f := range change {
		f(c)
	}
	parent, signer := a.Cert, a.key
	if parent == nil {
		parent, signer = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	a.must(err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	a.must(err)
	for ending, block := range map[string]*pem.Block{
		".pem": {Type: "CERTIFICATE", Bytes: der}, ".key": {Type: "PRIVATE KEY", Bytes: private},
	} {
		a.must(os.WriteFile(a.File(name+ending), pem.EncodeToMemory(block), 0o600))
	}
	c, err = x509.ParseCertificate(der)
	a.must(err)
	return c, key
}

// File is the path of a file of that name in the authority's directory.
func (a *Authority) File(name string) string { return filepath.Join(a.dir, name) }

func (a *Authority) must(err error) {
	a.tb.Helper()
	if err != nil {
		a.tb.Fatal(err)
	}
}

// Expired has a certificate be of the past.
func Expired(c *x509.Certificate) {
	c.NotBefore, c.NotAfter = time.Now().Add(-48*time.Hour), time.Now().Add(-24*time.Hour)
}

// Client has a certificate be one to log in with.
func Client(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }

// Server has a certificate be a server's.
func Server(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }
