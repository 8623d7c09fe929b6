package brokerurl_test

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/internal/brokerurl"
	"berth/lock/rabbit/broker"
)

// A password that is not percent-encoded can look like any other part of a URL.
func FuzzNoMessageShowsAPassword(f *testing.F) {
	const secret = "s3cr3t"
	for _, around := range [][2]string{
		{"", ""}, {"a@", "/b"}, {"1?cacertfile=", ""}, {"1/", ""}, {"%", "%zz"}, {"#", "?"}, {"a, amqp://", ""}, {" ", "\n"},
		{"1?auth_mechanism=", "&certfile=x"}, {"1?server_name_indication=", ""}, {"x:1/?heartbeat=", ""}, {"[::1", "]"},
	} {
		f.Add("amqp://", "user", around[0], around[1], "host:5672/vhost")
		f.Add("amqps://", "", around[0], around[1], "host?channel_max=9")
	}
	f.Fuzz(func(t *testing.T, scheme, user, before, after, rest string) {
		rest = strings.ReplaceAll(rest, "@", "") // with another one in it all before that one is the password
		if strings.Contains(user+rest, secret) || !brokerurl.BeginsLikeOne(scheme) {
			return
		}
		text := scheme + user + ":" + before + secret + after + "@" + rest
		check := func(what, shown string) {
			if strings.Contains(shown, secret) {
				t.Errorf("%s of %q shows the password: %q", what, text, shown)
			}
		}
		check("the redacted form", brokerurl.Redact(text))
		for _, one := range brokerurl.Split(text) {
			var p brokerurl.Place
			if err := p.Add(one); err != nil {
				check("the error", err.Error())
			}
			for _, accepted := range p.Brokers {
				if !strings.Contains(accepted, "@") { // half of a password that looks like a list of URLs
					continue
				}
				n, err := broker.Parse(accepted)
				if err != nil {
					check("the second error", err.Error())
				} else {
					check("the label", n.Label())
				}
			}
		}
	})
}

func FuzzPasswordOfAFileIsUsedAsItIs(f *testing.F) {
	f.Add("p@ss/w:rd?#% ä")
	f.Add("\xff\x00")
	path := filepath.Join(f.TempDir(), "password")
	f.Fuzz(func(t *testing.T, password string) {
		if err := os.WriteFile(path, []byte(password+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		want := strings.TrimRight(password, "\r\n")
		p := brokerurl.Place{Brokers: []string{"amqp://u@h:1/v?channel_max=9", "amqp://u:own@h"}}
		if err := p.AddPassword(path); err != nil {
			if want != "" || len(password) > len("\r\n") && strings.Contains(err.Error(), password) {
				t.Errorf("%q: %v", password, err)
			}
			return
		}
		u, err := url.Parse(p.Brokers[0])
		if err != nil {
			t.Fatalf("%q makes a URL that is none", password)
		}
		if got, _ := u.User.Password(); got != want {
			t.Errorf("%q becomes %q", password, got)
		}
		if u, err := url.Parse(p.Brokers[1]); err != nil || u.User.String() != "u:own" {
			t.Errorf("%q takes the place of another URL's password: %v", password, err)
		}
	})
}
