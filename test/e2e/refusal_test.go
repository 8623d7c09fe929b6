package e2e

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// deadAddress returns an address at which nobody listens, nor will during the
// test: the port is taken by a socket that does not.
func deadAddress(t testing.TB) string {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	addr, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", addr.(*unix.SockaddrInet4).Port)
}

// wantOneLine checks that the last thing berth said is one line for people that
// contains all of the texts, and that it contains no password.
func (b *berth) wantOneLine(texts ...string) {
	b.t.Helper()
	var said []string
	for _, line := range lines(b.path("stderr")) {
		if !strings.HasPrefix(line, "{") { // berth run logs it, the other commands do not
			said = append(said, line)
		}
	}
	for _, line := range b.log() {
		if line["@level"] == "error" && strings.HasPrefix(line.message(), "berth ") {
			said = append(said, line.message())
		}
	}
	if len(said) != 1 {
		b.t.Fatalf("berth said %d lines at its end, not one: %q", len(said), said)
	}
	for _, text := range texts {
		if !strings.Contains(said[0], text) {
			b.t.Errorf("%q does not say %q", said[0], text)
		}
	}
	if strings.Contains(b.stderr(), "secret") {
		b.t.Error("berth has told a password")
	}
}

func TestRefusedByTheBrokerEndsWith77AndSaysWhatToDo(t *testing.T) {
	t.Parallel()
	broker := calmBroker(t)
	user := unique("user")
	if err := broker.AddUser(t.Context(), user, "secret"); err != nil {
		t.Fatal(err)
	}
	nothing := unique("vhost")
	if err := broker.AddVhost(t.Context(), nothing); err != nil {
		t.Fatal(err)
	}
	if err := broker.SetPermissions(t.Context(), user, nothing, "", "", ""); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		url  string
		says []string
	}{
		"wrong password":      {broker.URLFor(user, "wrongsecret", "/"), []string{user}},
		"missing vhost":       {broker.URLFor(user, "secret", "no-such-vhost"), []string{"no-such-vhost"}},
		"vhost not permitted": {broker.URLFor(user, "secret", "/"), []string{user}},
		"nothing permitted":   {broker.URLFor(user, "secret", nothing), []string{"permission"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// Also without --try: waiting would not help.
			for _, flags := range [][]string{{"--try"}, nil} {
				c := contest{t, []string{"--broker", test.url}, "mutex", unique("m")}
				b := do(t, 77, c.args("true", flags...)...)
				b.wantOneLine(test.says...)
				b.wantNothingLeft()
			}
		})
	}
}

func TestUnreachableBrokerEndsWith69(t *testing.T) {
	t.Parallel()
	silent, _ := silentPort(t)
	const dead, other = "does the broker run, and does --broker name it?", "no AMQP 0-9-1 broker answered there"
	const late = "not obtained within 3s" // on a busy machine it takes long to connect even once
	for name, test := range map[string]struct {
		addr, patience string
		says           []string
	}{
		"nobody listens, --try":        {deadAddress(t), "--try", []string{dead}},
		"nobody listens, --timeout":    {deadAddress(t), "--timeout=3s", []string{late, dead}},
		"silent, --timeout":            {silent, "--timeout=3s", []string{late, "unreachable"}},
		"no broker, --try":             {notABroker(t), "--try", []string{other}},
		"no broker, --timeout":         {notABroker(t), "--timeout=3s", []string{late, other}},
		"no such host name, --try":     {"no-such-host.invalid:5672", "--try", []string{"no-such-host.invalid", dead}},
		"closes at once, --try":        {closingPort(t, ""), "--try", []string{other}},
		"closes at once, --timeout":    {closingPort(t, ""), "--timeout=3s", []string{late, other}},
		"speaks half a frame, --try":   {closingPort(t, "\x01\x00\x00\x00\x00"), "--try", []string{other}},
		"speaks another AMQP, --try":   {closingPort(t, "AMQP\x00\x01\x00\x00"), "--try", []string{other}},
		"speaks nonsense frames --try": {closingPort(t, strings.Repeat("\x09\xff", 100)), "--try", []string{other}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := do(t, 69, "run", "--broker", "amqp://user:secret@"+test.addr, "--mutex", "m", test.patience, "--",
				"true")
			b.wantOneLine(test.says...)
			b.wantNothingLeft()
		})
	}
}

// notABroker returns an address at which something else answers.
func notABroker(t testing.TB) string {
	return closingPort(t, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
}

// closingPort returns the address of a port that says something to each client, and
// closes.
func closingPort(t testing.TB, says string) string {
	t.Helper()
	return serving(t, func(c net.Conn) { _, _ = c.Write([]byte(says)) })
}

func TestFirstURLIsDeadThenTheSecondIsUsed(t *testing.T) {
	t.Parallel()
	c := contest{t, []string{"--broker", "amqp://" + deadAddress(t), "--broker", calmBroker(t).URL()}, "mutex",
		unique("m")}
	holder := c.run(plain)
	holder.awaitRuns(1)
	c.wantHeld()
	c.flags = []string{"--broker", calmBroker(t).URL()}
	c.wantHeld()
	c.kind, c.name = "semaphore", unique("s")
	c.flags = []string{"--broker", "amqp://" + deadAddress(t), "--broker", calmBroker(t).URL()}
	c.administer("create", "--slots=1")
	c.wantFree()
}

func TestAbsentLockIsToldFromAFullOne(t *testing.T) {
	inPlaces(t, func(t *testing.T, p place) {
		for _, kind := range []string{"semaphore", "persistent-mutex"} {
			c := p.contest(t, kind)
			for _, flags := range []string{"--try", "--timeout=3s"} {
				b := do(t, 75, c.args("true", flags)...)
				is := map[string]string{"semaphore": "does not exist", "persistent-mutex": "is disabled"}[kind]
				b.wantOneLine(is, c.name, "berth "+kind)
			}
			made := map[string][]string{"semaphore": {"create", "--slots=1"}, "persistent-mutex": {"enable"}}[kind]
			c.administer(made[0], made[1:]...)
			holder := c.run(plain)
			holder.awaitRuns(1)
			for _, flags := range []string{"--try", "--timeout=3s"} {
				b := do(t, 75, c.args("true", flags)...)
				b.wantOneLine("held", c.name)
			}
		}
	})
}
