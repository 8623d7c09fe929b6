package rabbit_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"berth/lock"
	"berth/lock/rabbit"
	"berth/test/brokertest"
)

// authority signs certificates, and keeps them in files of PEM.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	a.cert, a.key = a.sign("ca", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

// sign writes NAME.pem and NAME.key.
func (a *authority) sign(name string, c *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(a.t, err)
	c.SerialNumber, c.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: name}
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	must(a.t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	must(a.t, err)
	for ending, block := range map[string]*pem.Block{
		".pem": {Type: "CERTIFICATE", Bytes: der}, ".key": {Type: "PRIVATE KEY", Bytes: private},
	} {
		must(a.t, os.WriteFile(a.file(name+ending), pem.EncodeToMemory(block), 0o600))
	}
	c, err = x509.ParseCertificate(der)
	must(a.t, err)
	return c, key
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// client returns the parameters of a URL with which a client shows a certificate of that name.
func (a *authority) client(name string) url.Values {
	a.t.Helper()
	a.sign(name, &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	return url.Values{"cacertfile": {a.file("ca.pem")}, "certfile": {a.file(name + ".pem")}, "keyfile": {a.file(name + ".key")}}
}

// listener has the shared broker listen for TLS of that version, and want a certificate of each client. It returns the
// port. A certificate that names a user is a login, with auth_mechanism=external.
func (a *authority) listener(version string) (port int) {
	a.t.Helper()
	ports, err := brokertest.FreePorts(1)
	must(a.t, err)
	cert, key := a.sign("server", &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	private, err := x509.MarshalPKCS8PrivateKey(key)
	must(a.t, err)
	erlang := func(der []byte) string {
		return fmt.Sprintf(`base64:decode(<<"%s">>)`, base64.StdEncoding.EncodeToString(der))
	}
	must(a.t, shared.EnablePlugin(within(a.t), "rabbitmq_auth_mechanism_ssl"))
	_, err = shared.Eval(within(a.t), fmt.Sprintf(`
		ok = application:set_env(rabbit, auth_mechanisms, ['PLAIN', 'AMQPLAIN', 'EXTERNAL']),
		ok = application:set_env(rabbit, ssl_cert_login_from, common_name),
		ok = application:set_env(rabbit, ssl_options, [{verify, verify_peer}]), %% or no certificate is a login
		{ok, _} = application:ensure_all_started(ssl),
		ok = rabbit_networking:start_ssl_listener({"127.0.0.1", %d}, [{cacerts, [%s]}, {cert, %s},
			{key, {'PrivateKeyInfo', %s}}, {verify, verify_peer}, {fail_if_no_peer_cert, true}, {versions, ['%s']}], 2).`,
		ports[0], erlang(a.cert.Raw), erlang(cert.Raw), erlang(private), version))
	must(a.t, err)
	return ports[0]
}

// What a server does not like about a certificate is told as what it is, and what to do about it.
func TestCertificatesThatDoNotFitAreNamed(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	must(t, shared.AddUser(within(t), "someone", "right"))
	must(t, shared.SetPermissions(within(t), "someone", "/", ".*", ".*", ".*"))
	good, unknown, foreign := ca.client("someone"), ca.client("nobody"), other.client("someone")
	foreign.Set("cacertfile", ca.file("ca.pem"))
	external := func(v url.Values) url.Values {
		v = url.Values{"cacertfile": v["cacertfile"], "certfile": v["certfile"], "keyfile": v["keyfile"]}
		v.Set("auth_mechanism", "external")
		return v
	}
	trusting := url.Values{"cacertfile": {ca.file("ca.pem")}}
	for _, version := range []string{"tlsv1.2", "tlsv1.3"} {
		port := ca.listener(version)
		at := func(user, host string, v url.Values) string {
			return fmt.Sprintf("amqps://%s%s:%d/?%s", user, host, port, v.Encode())
		}
		for what, c := range map[string]struct {
			url      string
			want     error
			mentions []string
		}{
			"no certificate": {at("someone:wr0ng@", "127.0.0.1", trusting), lock.ErrUnreachable,
				[]string{"certificate", "certfile", "keyfile"}},
			"certificate of another authority": {at("someone:wr0ng@", "127.0.0.1", foreign), lock.ErrUnreachable,
				[]string{"certificate", "certfile"}},
			"server of an unknown authority": {at("someone:wr0ng@", "127.0.0.1", url.Values{}), lock.ErrUnreachable,
				[]string{"unknown authority", "cacertfile"}},
			"server of another name": {at("someone:wr0ng@", "localhost", good), lock.ErrUnreachable,
				[]string{"localhost", "server_name_indication"}},
			"certificate of no user": {at("nobody@", "127.0.0.1", external(unknown)), lock.ErrDenied,
				[]string{"certificate", "certfile"}},
		} {
			t.Run(version+" "+what, func(t *testing.T) {
				for range 20 { // which end notices it first is a matter of luck
					connectTo(t, c.want, c.mentions, c.url)
				}
			})
		}
		for url, told := range map[string]int{
			at("someone:right@", "127.0.0.1", good):     0,
			at("someone@", "127.0.0.1", external(good)): 0,
			at("", "127.0.0.1", external(good)):         1, // the name would be guest
		} {
			r := inspect(t, fresh(lock.Mutex), url)
			if len(r.Problems) > 0 {
				t.Errorf("%s: %v", url, r.Problems)
			}
			if mentions(r.Advice, `"someone"`) != (told > 0) {
				t.Errorf("%s: %q", url, r.Advice)
			}
		}
		// Its records count, and it is asked by the name that the broker takes from the certificate.
		id, cfg := fresh(lock.Mutex), rabbit.Config{URLs: []string{at("", "127.0.0.1", external(good))}, Heartbeat: long}
		l := backend(t, cfg).Lock(id)
		must(t, l.Connect(within(t)))
		h, err := l.Acquire(within(t))
		must(t, err)
		start(t, h)
		heeding(t, l, says("one", 1))
		seen(t, inspector(t, cfg, id), "1 held by one; 0 wait")
		must(t, h.Release(within(t)))
		must(t, l.Close())
		l = backend(t, cfg).Lock(id)
		must(t, l.Connect(within(t)))
		h, err = l.Acquire(within(t))
		must(t, err)
		must(t, h.Ready(within(t)))
		must(t, h.Release(within(t)))
		must(t, l.Close())
	}
}
