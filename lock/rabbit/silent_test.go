package rabbit_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"berth/lock"
	"berth/test/relay"
)

// newMuffled returns the URL of a broker that delivers nothing to consumers until the test says so. Once it has kept a
// message, it answers that late to the question what is in a queue.
func newMuffled(t *testing.T, late time.Duration) (broker string, deliver func()) {
	t.Helper()
	server, err := url.Parse(shared.URL())
	must(t, err)
	var delivers atomic.Bool
	r, err := relay.New(relay.Config{To: server.Host, Pass: func(_ context.Context, to, from net.Conn, toServer bool) {
		if toServer {
			_, _ = io.Copy(to, from)
			return
		}
		muffle(to, bufio.NewReader(from), &delivers, late)
	}})
	must(t, err)
	t.Cleanup(func() { must(t, r.Close()) })
	return r.URL(server), func() { delivers.Store(true) }
}

// muffle drops each basic.deliver with the header that follows it: what berth publishes has no body.
func muffle(to io.Writer, from io.Reader, delivers *atomic.Bool, late time.Duration) {
	kept := false
	for dropping := map[uint16]bool{}; ; {
		header := make([]byte, 7)
		if _, err := io.ReadFull(from, header); err != nil {
			return
		}
		payload := make([]byte, binary.BigEndian.Uint32(header[3:])+1)
		if _, err := io.ReadFull(from, payload); err != nil {
			return
		}
		channel := binary.BigEndian.Uint16(header[1:])
		if header[0] == 1 && bytes.HasPrefix(payload, []byte{0, 60, 0, 60}) && !delivers.Load() {
			dropping[channel], kept = true, true
			continue
		}
		if header[0] == 2 && dropping[channel] {
			delete(dropping, channel)
			continue
		}
		if header[0] == 1 && bytes.HasPrefix(payload, []byte{0, 50, 0, 11}) && kept && !delivers.Load() {
			time.Sleep(late)
		}
		if _, err := to.Write(append(header, payload...)); err != nil {
			return
		}
	}
}

// A cluster at high load may need longer than a waiter waits for what a ledger has.
func TestLedgerThatShowsNothingIsNotCalledAnotherBerths(t *testing.T) {
	t.Parallel()
	for once, late := range map[bool]time.Duration{true: 0, false: 1500 * time.Millisecond} {
		id := replicated(t, 1)
		broker, deliver := newMuffled(t, late)
		cfg := at(broker)
		cfg.Contention.Once = once
		l := backend(t, cfg).Lock(id)
		t.Cleanup(func() { l.Close() })
		must(t, l.Connect(within(t)))
		_, err := l.Acquire(within(t))
		if errors.Is(err, lock.ErrFull) || !errors.Is(err, lock.ErrSilent) {
			t.Errorf("once %t: %v", once, err)
		}
		won := untilHeld(t, l)
		deliver()
		must(t, wonBy(t, won).Release(within(t)))
	}
}

// A look has come before another berth has taken the place: what shows nothing is that one's.
func TestLedgerThatGoesToAnotherConsumerIsCalledAnotherBerths(t *testing.T) {
	t.Parallel()
	id := replicated(t, 1)
	_, ch := stranger(t)
	var taking sync.Once
	cfg := at(newHooked(t, func(data []byte) bool {
		if bytes.Contains(data, []byte("\x00\x3c\x00\x14\x00\x00"+string(rune(len(ledgerOf(id))))+ledgerOf(id))) {
			taking.Do(func() {
				_, err := ch.Consume(ledgerOf(id), "", false, false, false, false, nil)
				must(t, err)
			})
		}
		return true
	}))
	cfg.Contention.Once = true
	l := backend(t, cfg).Lock(id)
	t.Cleanup(func() { l.Close() })
	must(t, l.Connect(within(t)))
	if _, err := l.Acquire(within(t)); !errors.Is(err, lock.ErrFull) {
		t.Error(err)
	}
}
