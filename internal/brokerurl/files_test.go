package brokerurl

import (
	"net/url"
	"os"
	"path/filepath"
	"testing"
)

// berth leaves its working directory before it connects.
func TestFilesOfABrokerAreAbsolute(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"amqps://h/v": "amqps://h/v",
		"amqps://h/v?cacertfile=/a%20b&channel_max=9": "amqps://h/v?cacertfile=/a%20b&channel_max=9",
		"amqps://u:p%3F@h/v?channel_max=9&keyfile=b/c": "amqps://u:p%3F@h/v?channel_max=9&keyfile=" +
			url.QueryEscape(filepath.Join(here, "b/c")),
	} {
		var p Place
		if err := p.Add(text); err != nil || p.Brokers[0] != want {
			t.Errorf("%s becomes %q, %v, want %s", text, p.Brokers, err, want)
		}
	}
}

func TestRedactShowsWhatIsNoPassword(t *testing.T) {
	for text, want := range map[string]string{
		"amqp://h:5672/v":          "amqp://h:5672/v",
		"amqp://h:99999?heartbeat": "amqp://h:99999?heartbeat",
		"amqp://h/v":               "amqp://h/v",
		"rabbit:5672":              "rabbit:5672",
		"amqp://u:p@h:1/v":         "amqp://***@h:1/v",
		"amqp://u:p@q@h":           "amqp://***@h",
		"amqp://u:123456":          "amqp://***",
		"amqp://u:p":               "amqp://***",
		"u:p":                      "***",
	} {
		if got := Redact(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
