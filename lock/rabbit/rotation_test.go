package rabbit_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"berth/internal/brokerurl"
	"berth/lock"
	"berth/lock/rabbit"
	"berth/test/authority"
)

// rotated is a user whose password is in a file.
type rotated struct {
	t    *testing.T
	user string
	file string
	cfg  rabbit.Config
	said func(text string) int
}

// newRotated makes a user that may do everything, and has a password in a file.
func newRotated(t *testing.T, user, password string) *rotated {
	t.Helper()
	r := &rotated{t: t, user: user, file: filepath.Join(t.TempDir(), "password")}
	r.write(password)
	r.cfg, r.said = journal()
	var place brokerurl.Place
	must(t, place.Add("amqp://"+user+"@"+shared.Addr()))
	must(t, place.AddPassword(r.file))
	r.cfg.URLs, r.cfg.Source = place.Brokers, place.Source()
	return r
}

func (r *rotated) write(password string) {
	r.t.Helper()
	must(r.t, os.WriteFile(r.file, []byte(password+"\n"), 0o600))
}

// set has the broker want a password.
func (r *rotated) set(password string) {
	r.t.Helper()
	must(r.t, shared.AddUser(within(r.t), r.user, password))
	must(r.t, shared.SetPermissions(within(r.t), r.user, "/", ".*", ".*", ".*"))
}

// backend returns a backend whose open connections look for another password ten times a second.
func (r *rotated) backend() *rabbit.Backend {
	r.t.Helper()
	b := backend(r.t, r.cfg)
	rabbit.RenewEvery(b, 100*time.Millisecond)
	return b
}

func (r *rotated) connected(b *rabbit.Backend, id lock.ID) lock.Lock {
	r.t.Helper()
	l := b.Lock(id)
	r.t.Cleanup(func() { l.Close() })
	must(r.t, l.Connect(within(r.t)))
	return l
}

// Holders and waiters come back by themselves; a connection that is open stays.
func TestRotatedPasswordIsReadBeforeEachLogin(t *testing.T) {
	r := newRotated(t, "rotated", "old")
	r.set("old")
	id, b := fresh(lock.Mutex), backend(t, r.cfg)
	l := r.connected(b, id)
	h, err := l.Acquire(within(t))
	must(t, err)
	must(t, h.Ready(within(t)))
	waiter := r.connected(b, id)
	if _, err := waiter.Acquire(within(t)); !errors.Is(err, lock.ErrFull) {
		t.Fatalf("the waiter has %v", err)
	}

	r.set("new")
	must(t, h.Verify(within(t)))
	cut(t, id)
	eventually(t, "the old password is refused", func() bool {
		return errors.Is(waiter.Connect(within(t)), lock.ErrDenied) // once it has noticed its connection's end
	})
	r.write("new")
	succeeds(t, "connecting", func() error { return waiter.Connect(within(t)) })
	must(t, h.Reclaim(within(t)))
	must(t, h.Verify(within(t)))
	must(t, h.Release(within(t)))
}

// A file that is just being written, or names somewhere else, leaves everything as it was.
func TestLoginThatCannotBeReadIsKeptAndSaidOnce(t *testing.T) {
	r := newRotated(t, "kept", "right")
	r.set("right")
	b := backend(t, r.cfg)
	r.write("")
	for range 3 {
		must(t, r.connected(b, fresh(lock.Mutex)).Close())
	}
	if n := r.said("cannot read the broker's login again"); n != 1 {
		t.Errorf("said %d times, not once", n)
	}
	if err := b.SetLogins(rabbit.Source{}, []string{"amqp://elsewhere"}); err == nil {
		t.Error("it would go somewhere else")
	}
}

// A login that is refused for a moment is no missing permission: what could not be said of a command's end is said later.
// Nobody waits for the handover delay, which is two minutes here.
func TestReleaseIsRecordedOnceTheRotationIsOver(t *testing.T) {
	t.Parallel()
	r := newRotated(t, "late", "old")
	r.cfg.Heartbeat = long
	r.set("old")
	id := fresh(lock.Mutex)
	l := r.connected(backend(t, r.cfg), id)
	h, err := l.Acquire(within(t))
	must(t, err)
	must(t, h.Ready(within(t)))
	r.set("new")
	cut(t, id)
	eventually(t, "its connection's end is noticed", func() bool { return h.Verify(within(t)) != nil })
	if err := h.Release(within(t)); err == nil {
		t.Error("a release that nobody has got is said to be recorded")
	}
	r.write("new")
	succeeds(t, "connecting", func() error { return l.Connect(within(t)) })
	h, err = l.Acquire(within(t))
	must(t, err)
	must(t, h.Ready(within(t)))
	must(t, h.Release(within(t)))
}

// What a guard has got to know when a command was started may be months old when berth is killed.
func TestWillIsExecutedAfterARotation(t *testing.T) {
	r := newRotated(t, "testator", "old")
	r.set("old")
	id := fresh(lock.Mutex)
	l := r.connected(backend(t, r.cfg), id)
	h, err := l.Acquire(within(t))
	must(t, err)
	must(t, h.Ready(within(t)))
	will := h.Handover().Will
	r.set("new")
	r.write("new")
	cut(t, id)
	executor, err := rabbit.PrepareWill(will, nil)
	must(t, err)
	must(t, executor.Execute(within(t)))
}

// RabbitMQ would close a connection whose new password it refuses.
func TestPasswordThatIsRefusedCostsNoConnection(t *testing.T) {
	t.Parallel()
	r := newRotated(t, "mistaken", "old")
	r.set("old")
	id := fresh(lock.Mutex)
	l := r.connected(r.backend(), id)
	h, err := l.Acquire(within(t))
	must(t, err)
	must(t, h.Ready(within(t)))
	r.write("wr0ng")
	eventually(t, "it is said", func() bool { return r.said("does not take the new password") > 0 })
	must(t, h.Verify(within(t)))
	r.set("new")
	r.write("new")
	eventually(t, "the broker has taken it", func() bool { return r.said("has taken the new password") > 0 })
	must(t, h.Verify(within(t)))
	if n := r.said("does not take the new password"); n != 1 {
		t.Errorf("said %d times, not once", n)
	}
	must(t, h.Release(within(t)))
}

// Certificates are read for each connection.
func TestCertificateThatIsReplacedIsUsedByTheNextConnection(t *testing.T) {
	ca, other := authority.New(t), authority.New(t)
	must(t, shared.AddUser(within(t), "someone", "right"))
	must(t, shared.SetPermissions(within(t), "someone", "/", ".*", ".*", ".*"))
	port := listen(t, ca, listening{versions: "'tlsv1.3'"})
	b := backend(t, at(amqps("someone:right@", "127.0.0.1", port, with(client(other, "someone"), "cacertfile", ca.File("ca.pem")))))
	l := b.Lock(fresh(lock.Mutex))
	defer l.Close()
	if err := l.Connect(within(t)); !errors.Is(err, lock.ErrUnreachable) {
		t.Fatalf("with the certificate of another authority: %v", err)
	}
	client(ca, "someone")
	for _, file := range []string{"someone.pem", "someone.key"} {
		must(t, os.Rename(ca.File(file), other.File(file)))
	}
	must(t, l.Connect(within(t)))
}

// What a holder has written as another user is its own all the same.
func TestHolderThatLogsInAsAnotherUserGoesOn(t *testing.T) {
	id := fresh(lock.Mutex)
	for _, user := range []string{"first", "second"} {
		must(t, shared.AddUser(within(t), user, "right"))
		must(t, shared.SetPermissions(within(t), user, "/", ".*", ".*", ".*"))
	}
	cfg, said := journal()
	cfg.URLs = []string{shared.URLFor("first", "right", "/")}
	b := backend(t, cfg)
	l := b.Lock(id)
	defer l.Close()
	must(t, l.Connect(within(t)))
	h, err := l.Acquire(within(t))
	must(t, err)
	must(t, h.Ready(within(t)))
	must(t, b.SetLogins(rabbit.Source{}, []string{shared.URLFor("second", "right", "/")}))
	cut(t, id)
	<-h.Lost()
	must(t, h.Reclaim(within(t)))
	must(t, h.Verify(within(t)))
	must(t, h.Release(within(t)))
	h, err = l.Acquire(within(t))
	must(t, err)
	must(t, h.Ready(within(t))) // at once
	must(t, h.Release(within(t)))
	if n := said("do not count"); n > 0 {
		t.Errorf("said %d times that records do not count", n)
	}
}
