package rabbit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"berth/lock"
	"berth/test/relay"
)

// late is a network that keeps what one side says until the test lets it through.
type late struct {
	mu     sync.Mutex // guards what follows
	ways   [2]way     // to the client, to the server
	muteOn string     // what the client says last before it hears nothing more; "": it hears everything
}

// newLate returns a network to the broker that keeps nothing yet, and the broker's URL in it.
func newLate(t *testing.T) (*late, string) {
	t.Helper()
	server, err := url.Parse(shared.URL())
	must(t, err)
	network := &late{}
	r, err := relay.New(relay.Config{To: server.Host, Pass: network.pass})
	must(t, err)
	t.Cleanup(func() { must(t, r.Close()) })
	return network, r.URL(server)
}

type way struct {
	held bool
	kept []byte
	to   net.Conn
}

func side(toServer bool) int {
	if toServer {
		return 1
	}
	return 0
}

func (l *late) pass(_ context.Context, to, from net.Conn, toServer bool) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		l.mu.Lock()
		if toServer && l.muteOn != "" && bytes.Contains(buffer[:n], []byte(l.muteOn)) {
			l.ways[side(false)].held = true
		}
		w := &l.ways[side(toServer)]
		w.to = to
		if w.held {
			w.kept = append(w.kept, buffer[:n]...)
		} else {
			_, err = to.Write(buffer[:n])
		}
		l.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// mute lets the client hear nothing any more once it has said this.
func (l *late) mute(on string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.muteOn = on
}

// heal lets everything through, and forgets what was kept.
func (l *late) heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.muteOn, l.ways = "", [2]way{}
}

func (l *late) hold(toServer bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ways[side(toServer)].held = true
}

// let lets through what was kept, and what follows.
func (l *late) let(toServer bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := &l.ways[side(toServer)]
	_, _ = w.to.Write(w.kept)
	w.held, w.kept = false, nil
}

// letSome lets through so many bytes of what was kept.
func (l *late) letSome(toServer bool, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := &l.ways[side(toServer)]
	_, _ = w.to.Write(w.kept[:n])
	w.kept = w.kept[n:]
}

func (l *late) kept(toServer bool) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.ways[side(toServer)].kept)
}

// What was sent before the question says nothing of who has the place now.
func TestRecordThatComesLateIsNoAnswerToAProof(t *testing.T) {
	const nack = 21 // bytes on the wire
	id := replicated(t, 1)
	network, broker := newLate(t)
	cfg := at(broker)
	cfg.Heartbeat = long
	l := backend(t, cfg).Lock(id)
	t.Cleanup(func() { l.Close() })
	must(t, l.Connect(within(t)))
	h, err := l.Acquire(within(t))
	must(t, err)
	must(t, h.Ready(within(t)))

	network.hold(false)
	record := fmt.Sprintf(`{"record":"held","term":%d,"id":%q,"handover_ms":1000}`, h.Term(), willOf(t, h.Handover().Will).ID)
	publish(t, ledgerOf(id), amqp.Publishing{UserId: "guest", Headers: amqp.Table{"content": record}})
	eventually(t, "it is on its way", func() bool { return network.kept(false) > 0 })

	network.hold(true)
	proof := make(chan error, 1)
	go func() { proof <- h.Verify(within(t)) }()
	eventually(t, "the question is on its way", func() bool { return network.kept(true) >= nack })
	network.let(false)
	eventually(t, "it asks again", func() bool { return network.kept(true) >= 2*nack })
	network.letSome(true, nack)
	eventually(t, "it goes on", func() bool { return len(proof) > 0 || network.kept(true) > nack })
	network.let(true)
	if err := <-proof; !errors.Is(err, lock.ErrUnknown) {
		t.Errorf("it takes for an answer what was sent before the question: %v", err)
	}
	succeeds(t, "the proof", func() error { return proven(within(t), h) })
	must(t, h.Release(within(t)))
}

// A record that was written, and whose writer has not heard of it, keeps nobody waiting: its writer says that it has
// started nothing.
func TestRecordThatWasNotHeardOfIsReleased(t *testing.T) {
	t.Parallel()
	id := fresh(lock.Mutex)
	_, h := holding(t, id, long)
	network, broker := newLate(t)
	l := backend(t, at(broker)).Lock(id)
	t.Cleanup(func() { l.Close() })
	must(t, l.Connect(within(t)))
	isFull := func() {
		t.Helper()
		if _, err := l.Acquire(within(t)); !errors.Is(err, lock.ErrFull) {
			t.Fatal(err)
		}
	}
	isFull()
	network.mute(`"record":"held"`)
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	ended := make(chan struct{})
	go func() {
		_ = l.Wait(ctx, time.Hour)
		close(ended)
	}()
	eventually(t, "the broker has the record", func() bool { return network.kept(false) > 0 })
	cancel()
	select {
	case <-ended:
	case <-time.After(patience):
		t.Fatal("it goes on to wait")
	}
	network.heal()
	succeeds(t, "connecting", func() error { return l.Connect(within(t)) })
	isFull()
	served := waiters(t, id, 0)
	must(t, h.Release(within(t)))
	select {
	case <-served:
	case <-time.After(patience):
		t.Fatal("the next one waits for somebody who has started nothing")
	}
}
