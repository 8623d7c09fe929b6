package config

import (
	"errors"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"berth/test/authority"
)

// complete returns the parameters of the URLs after all settings were read.
func complete(t *testing.T, words ...string) (all []url.Values) {
	t.Helper()
	run, err := Load(input(append(words, "--mutex", "m", "--", "x")...))
	if err != nil {
		t.Fatalf("%q: %v", words, err)
	}
	for _, broker := range run.Brokers {
		u, err := url.Parse(broker)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, u.Query())
	}
	return all
}

func TestFlagsOfTLSCompleteTheURLs(t *testing.T) {
	ca := authority.New(t)
	ca.Sign("client", authority.Client)
	t.Chdir(ca.File("."))
	file := write(t, `tls_ca = "ca.pem"
		tls_server_name = "rabbit"
		login = "external"`)
	got := complete(t, "--broker", "amqps://a", "--broker", "amqps://u:p%3F@b?certfile="+ca.File("client.pem"),
		"--broker", "amqp://c?channel_max=9", "--config", file, "BERTH_TLS_MIN_VERSION=1.3", "--tls-cert", "client.pem",
		"--tls-key", "client.key")
	want := url.Values{"cacertfile": {ca.File("ca.pem")}, "certfile": {ca.File("client.pem")},
		"keyfile": {ca.File("client.key")}, "server_name_indication": {"rabbit"}, "tls_min_version": {"1.3"},
		"auth_mechanism": {"external"}}
	for i, want := range []string{want.Encode(), want.Encode(), "auth_mechanism=external&channel_max=9"} {
		if got[i].Encode() != want {
			t.Errorf("URL %d has %s, want %s", i, got[i].Encode(), want)
		}
	}
}

func TestTLSThatCannotBeIsRefusedAtTheStart(t *testing.T) {
	ca, other, gone := authority.New(t), authority.New(t), authority.New(t, authority.Expired)
	for _, name := range []string{"client", "another"} {
		ca.Sign(name, authority.Client)
	}
	expired, _ := ca.Sign("expired", authority.Client, authority.Expired)
	encrypted := write(t, "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n")
	broken := write(t, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
	pair := func(a *authority.Authority, cert, key string) []string {
		return []string{"--broker", "amqps://h", "--tls-cert", a.File(cert), "--tls-key", a.File(key)}
	}
	for name, c := range map[string]struct {
		words []string
		says  []string
	}{
		"no TLS":      {[]string{"--broker", "amqp://h", "--tls-ca", ca.File("ca.pem")}, []string{"--tls-ca", "amqps://HOST"}},
		"this host":   {[]string{"--broker", "local", "--tls-ca", ca.File("ca.pem")}, []string{"--tls-ca", "needs a broker"}},
		"local login": {[]string{"--broker", "local", "--login", "plain"}, []string{"--login", "needs a broker"}},
		"two files": {[]string{"--broker", "amqps://u:sesame@h?cacertfile=" + ca.File("ca.pem"), "--tls-ca",
			other.File("ca.pem")}, []string{"--tls-ca", "contradicts", "the URL of h", ca.File("ca.pem")}},
		"two logins": {[]string{"--broker", "amqps://h?auth_mechanism=plain", "--login", "external"},
			[]string{"--login", "auth_mechanism=plain"}},
		"empty": {[]string{"--broker", "amqps://h", "--tls-ca", ""}, []string{"empty"}},
		"no such file": {[]string{"--broker", "amqps://h", "--tls-ca", "/no/such.pem"}, []string{"/no/such.pem",
			"no such file"}},
		"unreadable":     {[]string{"--broker", "amqps://h", "--tls-ca", "/proc/self/mem"}, []string{"/proc/self/mem"}},
		"no certificate": {[]string{"--broker", "amqps://h", "--tls-ca", "/dev/null"}, []string{"/dev/null", "PEM"}},
		"broken":         {[]string{"--broker", "amqps://h", "--tls-ca", broken}, []string{broken, "certificate 1"}},
		"expired CA": {[]string{"--broker", "amqps://h", "--tls-ca", gone.File("ca.pem")}, []string{gone.File("ca.pem"),
			"expired on"}},
		"no key": {[]string{"--broker", "amqps://h", "--tls-cert", ca.File("client.pem")}, []string{"--tls-key"}},
		"no cert": {[]string{"--broker", "amqps://h", "--tls-key", ca.File("client.key")}, []string{
			"--tls-cert"}},
		"another's key": {pair(ca, "client.pem", "another.key"), []string{ca.File("client.pem"), ca.File("another.key")}},
		"swapped":       {pair(ca, "client.key", "client.pem"), []string{ca.File("client.key"), "no certificate"}},
		"encrypted": {[]string{"--broker", "amqps://h", "--tls-cert", ca.File("client.pem"), "--tls-key", encrypted},
			[]string{encrypted, "openssl pkey"}},
		"expired": {pair(ca, "expired.pem", "expired.key"), []string{ca.File("expired.pem"), "CN=expired", "expired on " +
			expired.NotAfter.UTC().Format("2006-01-02")}},
		"login without certificate": {[]string{"--broker", "amqps://h", "--login", "external"}, []string{"--tls-cert"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Load(input(append(c.words, "--mutex", "m", "--", "x")...))
			if err == nil || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "sesame") {
				t.Fatalf("got %v", err)
			}
			if want := ErrInvalid; name != "empty" && !errors.Is(err, want) {
				t.Errorf("%v is not %v", err, want)
			}
			for _, text := range c.says {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("%q does not say %q", err, text)
				}
			}
		})
	}
}

// What is written beside each other in a bundle may be valid at different times.
func TestOneValidAuthorityIsEnough(t *testing.T) {
	ca, gone := authority.New(t), authority.New(t, authority.Expired)
	var text []byte
	for _, a := range []*authority.Authority{gone, ca, gone} {
		part, err := os.ReadFile(a.File("ca.pem"))
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, part...)
	}
	bundle := write(t, string(text))
	if got := complete(t, "--broker", "amqps://h", "--tls-ca", bundle); !slices.Equal(got[0]["cacertfile"], []string{bundle}) {
		t.Errorf("the URL has %v", got[0])
	}
}
