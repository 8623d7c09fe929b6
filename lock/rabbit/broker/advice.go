package broker

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"berth/internal/pemfile"
)

// notOffered says what to do about a broker that does not offer our way to log in.
func (n Node) notOffered(own *identity) string {
	switch {
	case n.Login() != "EXTERNAL":
		return "the broker offers no login with user and password (PLAIN); use --login external with a certificate, or add " +
			"PLAIN to the broker's auth_mechanisms"
	case n.uri.Scheme != "amqps":
		return "the broker offers no login with a certificate (EXTERNAL) without TLS; write amqps:// and the port for TLS, or " +
			"use --login plain"
	case !own.asked.Load():
		return "the broker offers no login with a certificate (EXTERNAL), and did not ask for ours; set ssl_options.verify = " +
			"verify_peer there, enable the plugin rabbitmq_auth_mechanism_ssl and add EXTERNAL to auth_mechanisms"
	}
	return "the broker offers no login with a certificate (EXTERNAL); enable the plugin rabbitmq_auth_mechanism_ssl there " +
		"and add EXTERNAL to auth_mechanisms"
}

// notLetIn says what to do about a login that the broker refused.
func (n Node) notLetIn(own *identity) string {
	switch {
	case n.Login() != "EXTERNAL" && n.uri.Username != "guest" && n.uri.Password == "guest": // the library's, for none
		return fmt.Sprintf("login as %q without a password failed; give it with --password-file, or use --login external with "+
			"a certificate", n.uri.Username)
	case n.Login() != "EXTERNAL":
		return fmt.Sprintf("login as %q failed; check user and password", n.uri.Username)
	case own.leaf == nil:
		return "login with a certificate failed, and there is none; give --tls-cert and --tls-key"
	case !own.asked.Load():
		return "login with a certificate failed, and the broker did not ask for ours; set ssl_options.verify = verify_peer there"
	}
	common, distinguished := names(own.leaf)
	return fmt.Sprintf("login with the certificate %s failed; the broker needs the user that it takes from that: %q, or %q "+
		"where ssl_cert_login_from is common_name; its log has the name that it took", n.uri.CertFile, OneLine(distinguished),
		OneLine(common))
}

// whom names the user that the broker has let in, who need not be that of the URL.
func (n Node) whom() string {
	if n.Login() == "EXTERNAL" {
		return "the user that the broker takes from the certificate " + n.uri.CertFile
	}
	return fmt.Sprintf("user %q", n.uri.Username)
}

// aboutServer says what is wrong with a server's TLS, and what to do about it.
func (n Node) aboutServer(err error) string {
	var (
		unknown  x509.UnknownAuthorityError
		name     x509.HostnameError
		invalid  x509.CertificateInvalidError
		noTLS    tls.RecordHeaderError
		rejected *tls.CertificateVerificationError
	)
	server := "the server's certificate"
	if errors.As(err, &rejected) && len(rejected.UnverifiedCertificates) > 0 {
		server += " (" + OneLine(subject(rejected.UnverifiedCertificates[0])) + ")"
	}
	switch {
	case errors.As(err, &unknown):
		return fmt.Sprintf("%s is signed by an authority that is not known (%s): none of those %s; give the certificate of "+
			"the authority with --tls-ca", server, issuer(rejected), n.trusted())
	case errors.As(err, &name):
		return fmt.Sprintf("%s is not for %q, but for %s; use a name that it has, as host or with --tls-server-name", server,
			OneLine(name.Host), hosts(name.Certificate))
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		whose := server
		if rejected != nil && !invalid.Cert.Equal(rejected.UnverifiedCertificates[0]) {
			whose = fmt.Sprintf("the certificate of the authority %s", OneLine(subject(invalid.Cert)))
		}
		return fmt.Sprintf("%s %v; have it replaced, or correct this host's clock", whose,
			pemfile.Valid(invalid.Cert, time.Now()))
	case errors.As(err, &noTLS) && string(noTLS.RecordHeader[:4]) == "AMQP":
		return "that port is one without TLS; write amqp:// in place of amqps://, or the port for TLS, 5671 as a rule"
	case errors.As(err, &noTLS):
		return "no TLS answered there; check the port, and amqp:// or amqps://"
	case strings.Contains(err.Error(), "server selected unsupported protocol version"): // Go has no error to compare with
		return "its versions (ssl_options.versions) do not go with --tls-min-version"
	}
	return OneLine(err.Error())
}

// aboutAlert says what to do about an alert with which the server has ended TLS; Go has the texts (crypto/tls/alert.go).
func (n Node) aboutAlert(alert string, own *identity) string {
	switch {
	case alert == "protocol version not supported":
		return "its versions (ssl_options.versions) do not go with --tls-min-version"
	case own.leaf != nil && alert == "unknown certificate authority":
		return fmt.Sprintf("it does not know the authority that signed the certificate %s (%s); add the authority's to its "+
			"ssl_options.cacertfile", n.uri.CertFile, OneLine(own.leaf.Issuer.String()))
	}
	return n.aboutClient(own)
}

// aboutClient says what to do about a server that may not like the client's certificate.
func (n Node) aboutClient(own *identity) string {
	switch {
	case own.leaf == nil && own.asked.Load():
		return "it asks for a client certificate; give --tls-cert and --tls-key"
	case own.leaf == nil:
		return "if it asks for a client certificate, give --tls-cert and --tls-key"
	}
	if err := pemfile.Valid(own.leaf, time.Now()); err != nil {
		return fmt.Sprintf("the certificate %s (%s) %v; replace it and its key", n.uri.CertFile, OneLine(subject(own.leaf)), err)
	}
	return fmt.Sprintf("does it accept the certificate %s (%s)? See its log", n.uri.CertFile, OneLine(subject(own.leaf)))
}

// trusted says whose signatures count.
func (n Node) trusted() string {
	if n.uri.CACertFile == "" {
		return "that this system trusts"
	}
	return "in " + n.uri.CACertFile
}

// issuer names who signed the last certificate that the server has shown.
func issuer(rejected *tls.CertificateVerificationError) string {
	if rejected == nil || len(rejected.UnverifiedCertificates) == 0 {
		return "it is not named"
	}
	all := rejected.UnverifiedCertificates
	return OneLine(all[len(all)-1].Issuer.String())
}

// hosts are those that a certificate is for.
func hosts(c *x509.Certificate) string {
	const most = 5
	all := append([]string{}, c.DNSNames...)
	for _, ip := range c.IPAddresses {
		all = append(all, net.IP(ip).String())
	}
	switch {
	case len(all) == 0:
		return "no host at all (it has no subject alternative name)"
	case len(all) > most:
		all = append(all[:most], "others")
	}
	return OneLine(strings.Join(all, ", "))
}
