package broker

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"net"
	"sync/atomic"
	"time"

	"berth/internal/pemfile"
)

// versions of TLS by what a URL calls them (tls_min_version).
var versions = map[string]uint16{"": tls.VersionTLS12, "1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13}

// identity is what berth shows of itself in one handshake, and whether it was asked to: for messages.
type identity struct {
	leaf  *x509.Certificate // nil: it has no certificate
	asked atomic.Bool       // the server wants a certificate of its clients
}

// certificates returns how to speak TLS with the node: for one connection, because its files may be replaced at any time. It
// is nil for a node without TLS. Errors name the file.
func (n Node) certificates() (*tls.Config, *identity, error) {
	own := &identity{}
	if n.uri.Scheme != "amqps" {
		return nil, own, nil
	}
	cfg := &tls.Config{ServerName: cmp.Or(n.uri.ServerName, n.uri.Host), MinVersion: n.oldest}
	if n.uri.CACertFile != "" {
		var err error
		if cfg.RootCAs, err = pemfile.Pool(n.uri.CACertFile); err != nil {
			return nil, own, err
		}
	}
	var pair tls.Certificate
	if n.uri.CertFile != "" || n.uri.KeyFile != "" {
		var err error
		if pair, err = pemfile.Pair(n.uri.CertFile, n.uri.KeyFile); err != nil {
			return nil, own, err
		}
		own.leaf = pair.Leaf
	}
	// It is shown to a server that asks for one. Go leaves it out where the server says that it knows another
	// authority, and then the server says that there is none.
	cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		own.asked.Store(true)
		return &pair, nil
	}
	return cfg, own, nil
}

// greeting keeps the first byte that comes from the other end: what sort of server it is.
type greeting struct {
	net.Conn
	first atomic.Int32 // plus one; 0: nothing has come
}

// Read implements net.Conn.
func (g *greeting) Read(data []byte) (int, error) {
	n, err := g.Conn.Read(data)
	if n > 0 {
		g.first.CompareAndSwap(0, int32(data[0])+1)
	}
	return n, err
}

// alerts is how TLS answers what is no TLS: a record with an alert begins with 21 (RFC 8446, 5.1).
func (g *greeting) alerts() bool { return g.first.Load() == 21+1 }

// names are those that a broker may take from the certificate, as RabbitMQ's ssl_cert_login_from says: its common name,
// "" if it has none, and its distinguished name.
func names(c *x509.Certificate) (common, distinguished string) {
	var sequence pkix.RDNSequence // Subject has lost the order
	if _, err := asn1.Unmarshal(c.RawSubject, &sequence); err != nil {
		return c.Subject.CommonName, c.Subject.String()
	}
	return c.Subject.CommonName, sequence.String()
}

// Secured describes the TLS of a connection, for people.
type Secured struct {
	Version, Cipher string
	Server          string    // the subject of the server's certificate
	Until           time.Time // that this is valid
}

// Describe returns what the handshake came to; nil: there is no TLS.
func Describe(state tls.ConnectionState) *Secured {
	if len(state.PeerCertificates) == 0 {
		return nil
	}
	leaf := state.PeerCertificates[0]
	return &Secured{Version: tls.VersionName(state.Version), Cipher: tls.CipherSuiteName(state.CipherSuite),
		Server: OneLine(subject(leaf)), Until: leaf.NotAfter}
}

// subject names a certificate, for messages.
func subject(c *x509.Certificate) string {
	if _, distinguished := names(c); distinguished != "" {
		return distinguished
	}
	return "a certificate without a subject"
}
