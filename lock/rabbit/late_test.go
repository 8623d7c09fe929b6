package rabbit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"berth/lock"
	"berth/test/relay"
)

// late is a network that keeps what one side says until the test lets it through.
type late struct {
	mu   sync.Mutex
	ways [2]way // to the client, to the server; guarded by mu
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
	server, err := url.Parse(shared.URL())
	must(t, err)
	network := &late{}
	r, err := relay.New(relay.Config{To: server.Host, Pass: network.pass})
	must(t, err)
	cfg := at(r.URL(server))
	cfg.Heartbeat = long
	l := backend(t, cfg).Lock(id)
	t.Cleanup(func() {
		l.Close()
		must(t, r.Close())
	})
	must(t, l.Connect(within(t)))
	h, err := l.Acquire(within(t))
	must(t, err)
	must(t, h.Ready(within(t)))

	network.hold(false)
	_, will := lock.OpenWill(h.Handover().Will)
	var said struct {
		Holding struct{ ID string }
	}
	must(t, json.Unmarshal(will, &said))
	record := fmt.Sprintf(`{"record":"held","term":%d,"id":%q,"handover_ms":1000}`, h.Term(), said.Holding.ID)
	publish(t, ledgerOf(id), amqp.Publishing{Headers: amqp.Table{"content": record}})
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
