package broker

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"strconv"
)

// connect makes the connection below TLS.
func (n Node) connect(ctx context.Context) (*Socket, error) {
	var plain net.Dialer
	raw, err := plain.DialContext(ctx, "tcp", net.JoinHostPort(n.uri.Host, strconv.Itoa(n.uri.Port)))
	if err != nil {
		return nil, err
	}
	return newSocket(raw), nil
}

// speak shakes hands on TLS over conn, which is the socket, unless secure is nil, and returns what is to be read and written then.
func speak(ctx context.Context, conn net.Conn, socket *Socket, secure *tls.Config) (*frames, error) {
	if secure == nil {
		return newFrames(conn, socket), nil
	}
	client := tls.Client(conn, secure)
	if err := client.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	return newFrames(client, socket), nil
}

// certificates returns how to speak TLS with the node: for one connection, because its files may be replaced at any
// time. It is nil for a node without TLS.
func (n Node) certificates() (*tls.Config, error) {
	if n.uri.Scheme != "amqps" {
		return nil, nil
	}
	config := &tls.Config{ServerName: n.uri.ServerName, MinVersion: tls.VersionTLS12}
	if config.ServerName == "" {
		config.ServerName = n.uri.Host
	}
	if n.uri.CACertFile != "" {
		text, err := os.ReadFile(n.uri.CACertFile)
		if err != nil {
			return nil, fmt.Errorf("cannot read cacertfile: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("no certificate in cacertfile %s; give one in PEM", n.uri.CACertFile)
		}
	}
	if n.uri.CertFile != "" && n.uri.KeyFile != "" {
		own, err := tls.LoadX509KeyPair(n.uri.CertFile, n.uri.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("cannot use certfile and keyfile: %w", err)
		}
		config.Certificates = []tls.Certificate{own}
	}
	return config, nil
}
