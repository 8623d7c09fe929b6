package broker

import (
	"os"
	"path/filepath"
	"testing"
)

// One node may be there twice, with two users.
func TestLoginsAreThoseOfTheSamePlaceInTheList(t *testing.T) {
	file := filepath.Join(t.TempDir(), "urls")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	given, err := ParseAll([]string{"amqp://one:a@h", "amqp://two:b@h"})
	if err != nil {
		t.Fatal(err)
	}
	logins := NewLogins(Source{BrokerFile: file}, given)
	read := func(wantNews bool, want ...string) {
		t.Helper()
		for i, node := range given {
			now, news := logins.Read(node)
			if now.URL() != want[i] {
				t.Errorf("login %d is %s, not %s", i+1, now.URL(), want[i])
			}
			if (news != nil) != (wantNews && i == 0) {
				t.Errorf("news of login %d: %v", i+1, news)
			}
		}
	}
	read(true, "amqp://one:a@h", "amqp://two:b@h") // no file
	write("amqp://one:c@h amqp://three:d@h")
	read(false, "amqp://one:c@h", "amqp://three:d@h")
	write("amqp://one:e@elsewhere amqp://three:d@h")
	read(true, "amqp://one:c@h", "amqp://three:d@h")
	write("amqp://one:e@h")
	read(false, "amqp://one:c@h", "amqp://three:d@h") // for the same reason
	write("amqp://one:e@h amqp://two:f@h")
	read(false, "amqp://one:e@h", "amqp://two:f@h")

	fixed := NewLogins(Source{}, given)
	for i, node := range given {
		if now, err := fixed.Read(node); err != nil || now.URL() != given[i].URL() {
			t.Errorf("login %d becomes %s, %v", i+1, now.URL(), err)
		}
	}
}
