package rabbit_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	amqp "github.com/rabbitmq/amqp091-go"

	"berth/lock"
	"berth/lock/rabbit"
	"berth/test/relay"
)

// newSlow returns a network to the broker through which nothing comes while it is locked, and the broker's URL in it.
func newSlow(t *testing.T) (*sync.Mutex, string) {
	t.Helper()
	server, err := url.Parse(shared.URL())
	must(t, err)
	stopped := &sync.Mutex{}
	r, err := relay.New(relay.Config{To: server.Host, Pass: func(_ context.Context, to, from net.Conn, _ bool) {
		buffer := make([]byte, 64<<10)
		for {
			n, err := from.Read(buffer)
			if err != nil {
				return
			}
			stopped.Lock()
			_, err = to.Write(buffer[:n])
			stopped.Unlock()
			if err != nil {
				return
			}
		}
	}})
	must(t, err)
	t.Cleanup(func() { must(t, r.Close()) })
	return stopped, r.URL(server)
}

// A holder whose ledger somebody fills writes nothing there: its record would come after that of its successor, and would
// look, once the flood has pushed that one out, as if everybody had ended.
func TestHolderWhoseLedgerIsFilledDoesNotRecordItselfAgain(t *testing.T) {
	t.Parallel()
	ch := forger(t)
	id := fresh(lock.Mutex)
	ledger := id.Name + "-1-T"
	cfg, said := journal()
	cfg.Heartbeat = time.Second
	h := holdingAs(t, cfg, id)
	network, broker := newSlow(t)
	after := at(broker)
	after.Heartbeat = long
	next, woken := successor(t, after, id)
	network.Lock()
	forge(t, ch, ledger, many(12, amqp.Publishing{Body: make([]byte, 4<<20)})...)
	forge(t, ch, ledger, many(1000, amqp.Publishing{})...)
	must(t, h.Verify(within(t)))
	network.Unlock()
	if said("a stranger fills the slot's ledger") != 1 {
		t.Fatal("the holder does not see the flood")
	}
	must(t, h.Release(within(t)))
	must(t, <-woken)
	running, err := next.Acquire(within(t))
	must(t, err)
	rabbit.TakeBAfter(running, time.Hour)
	must(t, running.Ready(within(t)))
	rabbit.CutConnection(running) // while its command is young
	_ = lost(t, running)
	records := 0
	eventually(t, "the ledger is left alone", func() bool {
		consumers := 0
		records, consumers = counted(t, ledger)
		return consumers == 0
	})
	forge(t, ch, ledger, many(10_002-records, amqp.Publishing{Expiration: "1"})...) // the two oldest go
	l, visitor := claimed(t, id, time.Second)                                       // what was pushed in expires
	must(t, visitor.Release(within(t)))
	must(t, l.Close())
	_, last := claimed(t, id, time.Second)
	ready := waits(t, last)
	must(t, proven(within(t), running)) // it gets its slot back
	if err := <-ready; err == nil {
		t.Error("two commands run")
	}
}

// The record that a holder puts back is dropped, as from a ledger that somebody fills. What comes after it says so at
// once.
func TestHolderSeesThatAFloodHasPushedOutItsRecord(t *testing.T) {
	t.Parallel()
	ch := forger(t)
	id := replicated(t, 1)
	setPolicy(t, id, "-Q-1-T$", `[{<<"message-ttl">>, 1}]`)
	_, h := startedIn(t, id)
	setPolicy(t, id, "-Q-1-T$", `[{<<"message-ttl">>, 3600000}]`)
	verified := inBackground(t, h.Verify)
	for waiting := true; waiting; {
		forge(t, ch, ledgerOf(id), many(500, amqp.Publishing{})...)
		select {
		case err := <-verified:
			if waiting = false; !errors.Is(err, lock.ErrInDoubt) {
				t.Errorf("it waits for a record that the broker has dropped: %v", err)
			}
		default:
		}
	}
	must(t, proven(within(t), h))
	must(t, h.Release(within(t)))
}

// What comes until the broker knows that it leaves is put back, and not acknowledged as well.
func TestHolderLeavesAFloodedLedgerInOrder(t *testing.T) {
	t.Parallel()
	ch := forger(t)
	id := replicated(t, 1)
	cfg, said := journal()
	cfg.Log.SetLevel(hclog.Debug)
	h := startedAt(t, backend(t, cfg), id)
	ctx, stop := context.WithCancel(within(t))
	defer stop()
	flooding := inBackground(t, func(context.Context) error {
		for ctx.Err() == nil {
			if err := ch.Publish("", ledgerOf(id), false, false, amqp.Publishing{}); err != nil {
				return err
			}
		}
		return nil
	})
	must(t, proven(within(t), h))
	if err := h.Release(within(t)); err != nil || said("PRECONDITION_FAILED") > 0 {
		t.Errorf("it acknowledges what it has put back: %v", err)
	}
	stop()
	must(t, <-flooding)
}

// A record that goes another way than what the reader's place is kept by can come late, behind that of a later holder,
// of which its writer has not read. Where a flood leaves that record alone, it does not say for how long that holder
// may live.
func TestRecordBehindThatOfALaterHolderDoesNotSpeakForIt(t *testing.T) {
	t.Parallel()
	ch := forger(t)
	id := fresh(lock.Mutex)
	ledger := id.Name + "-1-T"
	first, before := holding(t, id, time.Second)
	must(t, before.Release(within(t)))
	must(t, first.Close())

	sent, let := make(chan struct{}), make(chan struct{})
	server, err := url.Parse(shared.URL())
	must(t, err)
	r, err := relay.New(relay.Config{To: server.Host, Pass: func(_ context.Context, to, from net.Conn, toServer bool) {
		buffer := make([]byte, 64<<10)
		for n, err := from.Read(buffer); err == nil; n, err = from.Read(buffer) {
			if toServer && bytes.Contains(buffer[:n], []byte(`"record":"held"`)) {
				close(sent)
				<-let
			}
			if _, err := to.Write(buffer[:n]); err != nil && toServer {
				return // what is on its way to the broker arrives though its client is gone
			}
		}
	}})
	must(t, err)
	t.Cleanup(func() { must(t, r.Close()) })
	cfg := at(r.URL(server))
	cfg.Heartbeat = 3 * time.Second
	l := backend(t, cfg).Lock(id)
	t.Cleanup(func() { l.Close() })
	must(t, l.Connect(within(t)))
	rabbit.PublishApart(l)
	acquiring, giveUp := context.WithCancel(within(t))
	won := inBackground(t, func(context.Context) error {
		_, err := l.Acquire(acquiring)
		return err
	})
	<-sent
	giveUp()
	if err := <-won; err == nil {
		t.Fatal("it takes its record for written")
	}
	must(t, l.Close())
	_, h := holding(t, id, time.Minute)
	close(let)
	records := 0
	eventually(t, "the record has come", func() bool {
		records, _ = counted(t, ledger)
		return records == 2
	})

	rabbit.CutConnection(h)
	_ = lost(t, h)
	forge(t, ch, ledger, many(10_001-records, amqp.Publishing{Expiration: "1"})...)
	visiting, visitor := claimed(t, id, time.Second) // what was pushed in expires
	must(t, visitor.Release(within(t)))
	must(t, visiting.Close())
	_, next := claimed(t, id, time.Second)
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	ready := inBackground(t, func(context.Context) error { return next.Ready(ctx) })
	select {
	case err := <-ready:
		t.Fatalf("two commands run, or nobody waits for the holder: Ready returned %v", err)
	case <-time.After(9 * time.Second): // the lease of the record that is left is 6 s
	}
	cancel()
	if err := <-ready; err == nil {
		t.Error("two commands run")
	}
}
