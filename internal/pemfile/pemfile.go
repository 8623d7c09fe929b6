// Package pemfile reads the certificates and keys that TLS is configured with:
//
//	pool, err := pemfile.Pool("/etc/berth/ca.pem")
//	pair, err := pemfile.Pair("/etc/berth/client.pem", "/etc/berth/client.key")
//
// Its errors name the file, and say what to do. It knows files, and nothing of who
// is connected to.
package pemfile

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"
)

// Authorities returns the certificates of a file, whichever of them signs which. There is
// one at least.
func Authorities(path string) ([]*x509.Certificate, error) {
	text, err := read(path)
	if err != nil {
		return nil, err
	}
	return certificates(path, text)
}

// Pool returns Authorities as what signatures are checked by.
func Pool(path string) (*x509.CertPool, error) {
	all, err := Authorities(path)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	for _, c := range all {
		pool.AddCert(c)
	}
	return pool, nil
}

// Pair returns the certificate of one file, with those that sign it where they
// follow, and the key of another.
func Pair(certFile, keyFile string) (tls.Certificate, error) {
	cert, err := read(certFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	if _, err := certificates(certFile, cert); err != nil {
		return tls.Certificate{}, err
	}
	key, err := read(keyFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	if err := usable(keyFile, key); err != nil {
		return tls.Certificate{}, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil { // the key is none, or another one's
		return tls.Certificate{}, fmt.Errorf("the key %s cannot be used with the certificate %s: %s; give the key that the "+
			"certificate was made for", keyFile, certFile, strings.TrimPrefix(err.Error(), "tls: "))
	}
	return pair, nil
}

// Valid returns an error if the certificate is not valid at that moment.
func Valid(c *x509.Certificate, now time.Time) error {
	switch {
	case now.After(c.NotAfter):
		return fmt.Errorf("expired on %s", Date(c.NotAfter))
	case now.Before(c.NotBefore):
		return fmt.Errorf("is not valid before %s", Date(c.NotBefore))
	}
	return nil
}

// Date is how messages write the moments between which a certificate is valid.
func Date(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

func read(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		var failed *fs.PathError
		if errors.As(err, &failed) {
			err = failed.Err
		}
		return nil, fmt.Errorf("%s cannot be read: %w; give a file that exists and that you may read", path, err)
	}
	return text, nil
}

func certificates(path string, text []byte) (all []*x509.Certificate, err error) {
	for {
		block, rest := pem.Decode(text)
		if block == nil {
			break
		}
		text = rest
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d in %s cannot be read: %w; replace the file", len(all)+1, path, err)
		}
		all = append(all, c)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no certificate in it; give one in PEM, which begins with "+
			"-----BEGIN CERTIFICATE-----", path)
	}
	return all, nil
}

// usable says of a key that is encrypted that it is: nobody can be asked for its password.
func usable(path string, text []byte) error {
	for {
		block, rest := pem.Decode(text)
		if block == nil {
			return nil
		}
		if text = rest; block.Type == "ENCRYPTED PRIVATE KEY" || block.Headers["DEK-Info"] != "" {
			return fmt.Errorf("the key %s is encrypted; decrypt it (openssl pkey -in ENCRYPTED -out KEY) and let only berth's "+
				"user read it", path)
		}
	}
}
