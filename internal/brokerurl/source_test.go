package brokerurl

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"berth/test/authority"
)

// What is read again is what was read first, in another process, too.
func TestURLsThatAreReadAgainAreCompletedAgain(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"password": "secret", "urls": "amqps://u:p@one amqp://u:p@two"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var beside, inside Place
	urls, err := inside.ReadFile(filepath.Join(dir, "urls"))
	for _, text := range urls {
		err = inside.Add(text)
	}
	if err == nil {
		err = beside.Add("amqps://u@h/v?channel_max=9")
	}
	if err == nil {
		err = beside.AddPassword(filepath.Join(dir, "password"))
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []*Place{&beside, &inside} {
		for key, value := range map[string]string{Login: "plain", ServerName: "rabbit", OldestVersion: "1.3"} {
			if err := p.Complete(key, value); err != nil {
				t.Fatal(err)
			}
		}
		text, err := json.Marshal(p.Source())
		if err != nil {
			t.Fatal(err)
		}
		var source Source
		if err := json.Unmarshal(text, &source); err != nil {
			t.Fatal(err)
		}
		if again, err := source.Read(); err != nil || !slices.Equal(again, p.Brokers) {
			t.Errorf("%q is read again as %q, %v", p.Brokers, again, err)
		}
	}
}

// The broker may ask for no certificate. Then one that has expired while berth ran keeps nobody from logging in.
func TestPasswordIsReadAgainBesideACertificateThatHasExpired(t *testing.T) {
	ca, file := authority.New(t), filepath.Join(t.TempDir(), "password")
	write := func(password string) {
		if err := os.WriteFile(file, []byte(password), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("old")
	ca.Sign("client", authority.Client)
	var p Place
	err := p.Add("amqps://u@h?certfile=" + ca.File("client.pem") + "&keyfile=" + ca.File("client.key"))
	if err == nil {
		err = p.AddPassword(file)
	}
	if err != nil {
		t.Fatal(err)
	}
	ca.Sign("client", authority.Client, authority.Expired)
	write("new")
	if urls, err := p.Source().Read(); err != nil || !strings.HasPrefix(urls[0], "amqps://u:new@h") {
		t.Errorf("it is read again as %q, %v", urls, err)
	}
}
