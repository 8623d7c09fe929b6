package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth/test/brokertest"
)

// A user who has three files, or makes them, is through in ten minutes.
func TestPageAboutTLSIsRightFromTopToBottom(t *testing.T) {
	t.Parallel()
	page := func(kindAndName string) string { return shown(t, "docs/tls.md", kindAndName) }
	b := brokertest.New(t)
	ports, err := brokertest.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	p := newPlace(t, "amqp://nobody@nowhere")
	here := strings.NewReplacer("default = 5671", fmt.Sprintf("default = 127.0.0.1:%d", ports[0]), "5671", fmt.Sprint(ports[0]), "/etc/rabbitmq/", b.Dir()+"/", "/etc/berth/", p.path("")+"/").Replace
	p.run(page("sh files"))
	for _, file := range []string{"ca.pem", "server.pem", "server.key", "client.pem", "client.key"} {
		text, err := os.ReadFile(p.path(file))
		if err == nil && !strings.HasPrefix(file, "client") { // a broker in a root of its own sees no other directory
			err = os.WriteFile(filepath.Join(b.Dir(), file), text, 0o600)
		}
		if err != nil {
			t.Error(err)
		}
	}
	configure := func(text string) {
		t.Helper()
		file := b.Dir() + "/rabbitmq.conf"
		old, err := os.ReadFile(file)
		if err == nil {
			err = os.WriteFile(file, fmt.Appendf(old, "%s\n", here(text)), 0o600)
		}
		if err == nil {
			err = b.Restart(t.Context())
		}
		// It listens for TLS a moment after it does for others.
		for end := time.Now().Add(patience); err == nil; time.Sleep(10 * time.Millisecond) {
			conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", ports[0]))
			if err == nil {
				conn.Close()
				return
			}
			if time.Now().After(end) {
				t.Fatal(err)
			}
		}
		t.Fatal(err)
	}
	configure(page("ini listener"))
	words := strings.Split(page("sh user"), "'")
	if len(words) != 7 || !strings.HasPrefix(words[0],
		"rabbitmqctl add_user importer secret\nrabbitmqctl add_vhost locks\nrabbitmqctl set_permissions -p locks importer ") {
		t.Fatalf("not a user with three patterns: %q", words)
	}
	if err := b.AddUser(t.Context(), "importer", "secret"); err != nil {
		t.Fatal(err)
	}
	if err := b.AddVhost(t.Context(), "locks"); err != nil {
		t.Fatal(err)
	}
	if err := b.SetPermissions(t.Context(), "importer", "locks", words[1], words[3], words[5]); err != nil {
		t.Fatal(err)
	}
	said := p.run(here(page("sh password")))
	for _, text := range []string{"safe, and the broker can carry it", "TLS 1.3 with TLS_AES_", "(CN=rabbit) is valid until",
		`login as user "importer" with user and password (PLAIN)`, strings.Join(words[1:6], "'")} {
		if !strings.Contains(strings.Join(strings.Fields(said), " "), text) {
			t.Errorf("it does not say %q: %s", text, said)
		}
	}
	p.run(fmt.Sprintf("cat >importer.hcl <<'END'\n%s\nEND\nunset BERTH_BROKER\nberth run --config importer.hcl --try -- true",
		here(page("hcl file"))))
	if err := os.WriteFile(b.Dir()+"/enabled_plugins", []byte("["+
		strings.TrimPrefix(page("sh plugin"), "rabbitmq-plugins enable ")+"].\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	configure(page("ini external"))
	said = p.run(here(page("sh external")) + "\n" + here(strings.ReplaceAll(strings.ReplaceAll(page("sh external"),
		"check --connect", "run --try"), "client.key", "client.key -- true")))
	for _, text := range []string{"safe, and the broker can carry it", `as user "importer" with a certificate (EXTERNAL)`} {
		if !strings.Contains(strings.Join(strings.Fields(said), " "), text) {
			t.Errorf("it does not say %q: %s", text, said)
		}
	}
}
