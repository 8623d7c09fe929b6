package rabbit_test

import (
	"cmp"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"

	"berth/lock"
	"berth/lock/rabbit"
	"berth/test/authority"
	"berth/test/brokertest"
)

// client returns the parameters of a URL with which a client shows a certificate of that name.
func client(a *authority.Authority, name string, change ...func(*x509.Certificate)) url.Values {
	a.Sign(name, append([]func(*x509.Certificate){authority.Client}, change...)...)
	return url.Values{"cacertfile": {a.File("ca.pem")}, "certfile": {a.File(name + ".pem")}, "keyfile": {a.File(name + ".key")}}
}

// with returns the parameters, and more of them.
func with(v url.Values, key, value string) url.Values {
	all := url.Values{key: {value}}
	for k, values := range v {
		if k != key {
			all[k] = values
		}
	}
	return all
}

// listening is how the shared broker listens for TLS.
type listening struct {
	versions string                    // "'tlsv1.2','tlsv1.3'" is the default
	lenient  bool                      // it asks for no certificate
	change   []func(*x509.Certificate) // of its own certificate, which is for 127.0.0.1
	plugin   string                    // the mechanisms that it offers; "" is PLAIN and EXTERNAL
}

// listen has the shared broker listen, with a certificate of the authority, and returns the port.
func listen(t *testing.T, a *authority.Authority, l listening) (port int) {
	t.Helper()
	ports, err := brokertest.FreePorts(1)
	must(t, err)
	cert, key := a.Sign("server", append([]func(*x509.Certificate){authority.Server, func(c *x509.Certificate) {
		c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	}}, l.change...)...)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	erlang := func(der []byte) string {
		return fmt.Sprintf(`base64:decode(<<"%s">>)`, base64.StdEncoding.EncodeToString(der))
	}
	verify := "{verify, verify_peer}, {fail_if_no_peer_cert, true}"
	if l.lenient {
		verify = "{verify, verify_none}"
	}
	must(t, shared.EnablePlugin(within(t), "rabbitmq_auth_mechanism_ssl"))
	_, err = shared.Eval(within(t), fmt.Sprintf(`
		ok = application:set_env(rabbit, auth_mechanisms, [%s]),
		ok = application:set_env(rabbit, ssl_cert_login_from, common_name),
		ok = application:set_env(rabbit, ssl_options, [{verify, verify_peer}]), %% or no certificate is a login
		{ok, _} = application:ensure_all_started(ssl),
		ok = rabbit_networking:start_ssl_listener({"127.0.0.1", %d}, [{cacerts, [%s]}, {cert, %s},
			{key, {'PrivateKeyInfo', %s}}, %s, {versions, [%s]}], 2).`,
		cmp.Or(l.plugin, "'PLAIN', 'AMQPLAIN', 'EXTERNAL'"), ports[0], erlang(a.Cert.Raw), erlang(cert.Raw),
		erlang(private), verify, cmp.Or(l.versions, "'tlsv1.2', 'tlsv1.3'")))
	must(t, err)
	t.Cleanup(func() {
		_, err := shared.Eval(within(t), `ok = application:set_env(rabbit, auth_mechanisms, ['PLAIN', 'AMQPLAIN', 'EXTERNAL']).`)
		must(t, err)
	})
	return ports[0]
}

// amqps is the URL of a listener.
func amqps(user, host string, port int, v url.Values) string {
	return fmt.Sprintf("amqps://%s%s:%d/?%s", user, host, port, v.Encode())
}

// Versions are compared by either end: with 4.3 it is ours that finds out.
func TestVersionsOfTLSThatDoNotGoTogetherAreNamed(t *testing.T) {
	ca := authority.New(t)
	for versions, least := range map[string]string{"'tlsv1', 'tlsv1.1'": "1.2", "'tlsv1.2'": "1.3"} {
		port := listen(t, ca, listening{versions: versions, lenient: true})
		connectTo(t, lock.ErrUnreachable, []string{"ssl_options.versions", "--tls-min-version"},
			amqps("someone:wr0ng@", "127.0.0.1", port, url.Values{"cacertfile": {ca.File("ca.pem")}, "tls_min_version": {least}}))
	}
}

// What is wrong with certificates is told as what it is, and what to do about it.
func TestCertificatesThatDoNotFitAreNamed(t *testing.T) {
	t.Parallel()
	ca, other := authority.New(t), authority.New(t, func(c *x509.Certificate) { c.Subject.CommonName = "other" })
	must(t, shared.AddUser(within(t), "someone", "right"))
	must(t, shared.SetPermissions(within(t), "someone", "/", ".*", ".*", ".*"))
	good, unknown := client(ca, "someone"), client(ca, "nobody", func(c *x509.Certificate) {
		c.Subject = pkix.Name{CommonName: "nobody", Organization: []string{"Berths"}}
	})
	foreign := with(client(other, "someone"), "cacertfile", ca.File("ca.pem"))
	old := client(ca, "old", authority.Expired)
	trusting := url.Values{"cacertfile": {ca.File("ca.pem")}}
	for _, version := range []string{"'tlsv1.2'", "'tlsv1.3'"} {
		port := listen(t, ca, listening{versions: version})
		lenient := listen(t, ca, listening{versions: version, lenient: true})
		expired := listen(t, ca, listening{versions: version, change: []func(*x509.Certificate){authority.Expired}})
		at := func(user, host string, v url.Values) string { return amqps(user, host, port, v) }
		for what, c := range map[string]struct {
			url      string
			want     error
			mentions []string
		}{
			"no certificate": {at("someone:wr0ng@", "127.0.0.1", trusting), lock.ErrUnreachable,
				[]string{"it asks for a client certificate", "--tls-cert and --tls-key"}},
			"certificate of another authority": {at("someone:wr0ng@", "127.0.0.1", foreign), lock.ErrUnreachable,
				[]string{other.File("someone.pem")}},
			"certificate that has expired": {at("someone:wr0ng@", "127.0.0.1", old), lock.ErrUnreachable,
				[]string{ca.File("old.pem"), "CN=old"}},
			"server of an unknown authority": {at("someone:wr0ng@", "127.0.0.1", url.Values{}), lock.ErrUnreachable,
				[]string{"CN=server", "authority that is not known (CN=ca)", "this system", "--tls-ca"}},
			"server of another authority": {at("someone:wr0ng@", "127.0.0.1", with(good, "cacertfile",
				other.File("ca.pem"))), lock.ErrUnreachable,
				[]string{"CN=server", "authority that is not known (CN=ca)", other.File("ca.pem"), "--tls-ca"}},
			"server of another name": {at("someone:wr0ng@", "localhost", good), lock.ErrUnreachable,
				[]string{`not for "localhost"`, "but for 127.0.0.1", "--tls-server-name"}},
			"server of another name than was asked for": {at("someone:wr0ng@", "127.0.0.1",
				with(good, "server_name_indication", "rabbit")), lock.ErrUnreachable, []string{`not for "rabbit"`}},
			"server that has expired": {amqps("someone:wr0ng@", "127.0.0.1", expired, good), lock.ErrUnreachable,
				[]string{"CN=server", "expired on"}},
			"certificate of no user": {at("nobody@", "127.0.0.1", with(unknown, "auth_mechanism", "external")),
				lock.ErrDenied, []string{ca.File("nobody.pem"), `"CN=nobody,O=Berths"`, `"nobody"`, "ssl_cert_login_from"}},
			"certificate of a user without the vhost": {strings.Replace(at("", "127.0.0.1", with(good, "auth_mechanism",
				"external")), "/?", "/nowhere?", 1), lock.ErrDenied,
				[]string{`vhost "nowhere" cannot be used`, "takes from the certificate " + ca.File("someone.pem")}},
			"certificate that is not asked for": {amqps("someone@", "127.0.0.1", lenient, with(good, "auth_mechanism",
				"external")), lock.ErrDenied, []string{"did not ask for ours", "ssl_options.verify = verify_peer"}},
			"TLS to a port without": {strings.Replace(shared.URLFor("someone", "wr0ng", "/"), "amqp:", "amqps:", 1),
				lock.ErrUnreachable, []string{"that port is one without TLS", "write amqp://", "5671"}},
			"no TLS to a port with it": {fmt.Sprintf("amqp://someone:wr0ng@127.0.0.1:%d", port), lock.ErrUnreachable,
				[]string{"that port is one for TLS", "write amqps://"}},
			"login with a certificate without TLS": {shared.URLFor("someone", "wr0ng", "/") + "?auth_mechanism=external",
				lock.ErrDenied, []string{"without TLS", "write amqps://"}},
		} {
			t.Run(version+" "+what, func(t *testing.T) {
				for range 20 { // which end notices it first is a matter of luck
					connectTo(t, c.want, c.mentions, c.url)
				}
			})
		}
		for url, told := range map[string]int{
			at("someone:right@", "127.0.0.1", good):                                              0,
			at("someone:right@", "127.0.0.1", with(good, "auth_mechanism", "plain")):             0,
			at("someone:right@", "localhost", with(good, "server_name_indication", "127.0.0.1")): 0,
			at("someone@", "127.0.0.1", with(good, "auth_mechanism", "external")):                0,
			at("", "127.0.0.1", with(good, "auth_mechanism", "external")):                        1, // the name would be guest
			amqps("someone:right@", "127.0.0.1", lenient, trusting):                              0,
		} {
			r := inspect(t, fresh(lock.Mutex), url)
			if len(r.Problems) > 0 {
				t.Errorf("%s: %v", url, r.Problems)
			}
			if mentions(r.Advice, `"someone"`) != (told > 0) {
				t.Errorf("%s: %q", url, r.Advice)
			}
			login := map[bool]string{true: "EXTERNAL", false: "PLAIN"}[strings.Contains(url, "external")]
			if r.TLS == nil || "'"+strings.ReplaceAll(r.TLS.Version, "TLS 1.", "tlsv1.")+"'" != version ||
				r.TLS.Server != "CN=server" || r.TLS.Cipher == "" || r.Login != login || r.User != "someone" {
				t.Errorf("%s: it is described as %+v, login %s as %q", url, r.TLS, r.Login, r.User)
			}
		}
		// Its records count, and it is asked by the name that the broker takes from the certificate.
		id, cfg := fresh(lock.Mutex), rabbit.Config{URLs: []string{at("", "127.0.0.1", with(good, "auth_mechanism", "external"))}, Heartbeat: long}
		l := backend(t, cfg).Lock(id)
		must(t, l.Connect(within(t)))
		h, err := l.Acquire(within(t))
		must(t, err)
		start(t, h)
		answering(t, l, says("one", 1))
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

func TestOldVersionOfTLSIsRefused(t *testing.T) {
	ca := authority.New(t)
	must(t, shared.AddUser(within(t), "someone", "right"))
	port := listen(t, ca, listening{versions: "'tlsv1.2'", lenient: true})
	trusting := url.Values{"cacertfile": {ca.File("ca.pem")}}
	for range 20 {
		connectTo(t, lock.ErrUnreachable, []string{"--tls-min-version", "ssl_options.versions"},
			amqps("someone:wr0ng@", "127.0.0.1", port, with(trusting, "tls_min_version", "1.3")))
	}
	port = listen(t, ca, listening{lenient: true})
	must(t, shared.SetPermissions(within(t), "someone", "/", ".*", ".*", ".*"))
	l := backend(t, at(amqps("someone:right@", "127.0.0.1", port, with(trusting, "tls_min_version", "1.3")))).
		Lock(fresh(lock.Mutex))
	defer l.Close()
	must(t, l.Connect(within(t)))
}

func TestLoginThatIsNotOfferedIsToldWithWhatToDo(t *testing.T) {
	ca := authority.New(t)
	must(t, shared.AddUser(within(t), "someone", "right"))
	good := client(ca, "someone")
	port := listen(t, ca, listening{plugin: "'PLAIN'"})
	connectTo(t, lock.ErrDenied, []string{"EXTERNAL", "rabbitmq_auth_mechanism_ssl", "auth_mechanisms"},
		amqps("someone@", "127.0.0.1", port, with(good, "auth_mechanism", "external")))
	port = listen(t, ca, listening{plugin: "'EXTERNAL'"})
	connectTo(t, lock.ErrDenied, []string{"PLAIN", "--login external", "auth_mechanisms"},
		amqps("someone:wr0ng@", "127.0.0.1", port, good))
}

// A file that is being replaced is not there for a moment.
func TestFileThatHasGoneIsNamed(t *testing.T) {
	ca := authority.New(t)
	connectTo(t, lock.ErrUnreachable, []string{"/no/such.pem"},
		amqps("someone:wr0ng@", "127.0.0.1", 1, url.Values{"cacertfile": {"/no/such.pem"}}))
	connectTo(t, lock.ErrUnreachable, []string{"/no/such.key"}, amqps("someone:wr0ng@", "127.0.0.1", 1,
		with(client(ca, "someone"), "keyfile", "/no/such.key")))
}
