package rabbit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	amqp "github.com/rabbitmq/amqp091-go"

	"berth/lock"
	"berth/lock/rabbit"
	"berth/test/relay"
)

// forger returns a channel of a user that may publish to the default exchange, and nothing else.
func forger(t *testing.T) *amqp.Channel {
	t.Helper()
	must(t, shared.AddUser(within(t), "forger", "right"))
	must(t, shared.SetPermissions(within(t), "forger", "/", "^$", `^amq\.default$`, "^$"))
	ch := channelOf(t, shared.URLFor("forger", "right", "/"))
	must(t, ch.Confirm(false))
	return ch
}

// forge publishes messages to a queue, and waits for the confirm of the last.
func forge(t *testing.T, ch *amqp.Channel, queue string, messages ...amqp.Publishing) {
	t.Helper()
	var last *amqp.DeferredConfirmation
	for i, m := range messages {
		var err error
		last, err = ch.PublishWithDeferredConfirm("", queue, false, false, m)
		must(t, err)
		if i%500 == 499 {
			_, err = last.WaitContext(within(t))
			must(t, err)
		}
	}
	if last != nil {
		_, err := last.WaitContext(within(t))
		must(t, err)
	}
}

// forged is what somebody says without its user, or as somebody else than the lock's users.
func forged(user, format string, args ...any) amqp.Publishing {
	m := written(fmt.Sprintf(format, args...))
	m.UserId = user
	return m
}

// many returns so many of a message.
func many(n int, m amqp.Publishing) (all []amqp.Publishing) {
	for range n {
		all = append(all, m)
	}
	return all
}

// pushOut removes what is in a ledger by the length of the queue, and leaves nothing in its place.
func pushOut(t *testing.T, ch *amqp.Channel, queue string) {
	t.Helper()
	forge(t, ch, queue, many(10_050, amqp.Publishing{Expiration: "1"})...)
	eventually(t, "what was pushed in expires", func() bool {
		q, _, err := shared.Queue(within(t), "/", queue)
		must(t, err)
		return q.Messages == 0
	})
}

// eachUser runs a test for messages of nobody, and of somebody who is no user of the lock.
func eachUser(t *testing.T, test func(t *testing.T, user string)) {
	for name, user := range map[string]string{"no user": "", "another user": "forger"} {
		t.Run(name, func(t *testing.T) { test(t, user) })
	}
}

// The record of a holder whose connection is cut is pushed out of the ledger, and others are forged that say that
// everybody has ended.
func TestForgedRecordsLetNobodyStartBesideAHolder(t *testing.T) {
	ch := forger(t)
	eachUser(t, func(t *testing.T, user string) {
		id := fresh(lock.Mutex)
		_, h := holding(t, id, long)
		rabbit.CutConnection(h)
		_ = lost(t, h)
		ledger := id.Name + "-1-T"
		pushOut(t, ch, ledger)
		forge(t, ch, ledger, forged(user, `{"record":"held","term":7,"id":"x","handover_ms":1}`),
			forged(user, `{"record":"released","term":7,"id":"x"}`))
		_, next := claimed(t, id, long)
		ready := waits(t, next)
		must(t, proven(within(t), h)) // it gets its slot back
		if err := <-ready; err == nil {
			t.Error("two commands run")
		}
	})
}

// The same beside a holder that may live for longer than whoever comes: nothing in the ledger says so any more.
func TestNobodyStartsBesideAHolderOfALongerLeaseThatWasPushedOut(t *testing.T) {
	t.Parallel()
	ch := forger(t)
	id := fresh(lock.Mutex)
	_, h := holding(t, id, time.Minute)
	rabbit.CutConnection(h)
	_ = lost(t, h)
	pushOut(t, ch, id.Name+"-1-T")
	_, next := claimed(t, id, time.Second)
	ready := untilReady(t, next)
	select {
	case err := <-ready:
		t.Fatalf("two commands run, or nobody waits for the holder: Ready returned %v", err)
	case <-time.After(4 * time.Second): // twice its own lease
	}
	must(t, proven(within(t), h)) // it gets its slot back
	if err := <-ready; err == nil {
		t.Error("two commands run")
	}
}

func TestForgedRecordsLetNobodyStartOnSeveralNodes(t *testing.T) {
	ch := forger(t)
	eachUser(t, func(t *testing.T, user string) {
		id := replicated(t, 1)
		_, h := startedIn(t, id)
		rabbit.CutReplicated(h)
		eventually(t, "the ledger is left alone", func() bool {
			_, consumers := counted(t, ledgerOf(id))
			return consumers == 0
		})
		must(t, shared.PurgeQueue(within(t), "/", ledgerOf(id))) // as its length has the broker do
		forge(t, ch, ledgerOf(id), forged(user, `{"record":"held","term":7,"id":"x","handover_ms":1}`),
			forged(user, `{"record":"released","term":7,"id":"x"}`))
		_, next := claimed(t, id, long)
		ready := waits(t, next)
		back := inBackground(t, func(ctx context.Context) error { return proven(ctx, h) })
		if err := <-ready; err == nil {
			t.Error("two commands run")
		}
		must(t, next.Release(within(t)))
		must(t, <-back)
		must(t, h.Release(within(t)))
	})
}

// A forged release is none: neither of the holder that is waited for, nor of the own term, as if the guard had
// executed the will.
func TestForgedReleaseIsNone(t *testing.T) {
	ch := forger(t)
	eachUser(t, func(t *testing.T, user string) {
		id := fresh(lock.Mutex)
		_, h := holding(t, id, time.Second)
		cfg := at(shared.URL())
		cfg.Heartbeat = time.Second
		next, woken := successor(t, cfg, id)
		for _, of := range []lock.Handover{h.Handover(), {Will: legacy(t, next)}} {
			who := willOf(t, of.Will)
			for _, early := range []bool{false, true} {
				forge(t, ch, id.Name+"-1-T", forged(user, `{"record":"released","term":%d,"id":%q,"early":%t}`, who.Term, who.ID, early))
			}
		}
		waitsStill(t, woken)
		must(t, h.Verify(within(t)))
		must(t, h.Release(within(t)))
		must(t, <-woken) // after the delay
		must(t, wonBy(t, untilHeld(t, next)).Release(within(t)))
	})
}

// What somebody sends who may publish delays a handover, and no more than that: never two commands, and the lock is
// served a lease after it has ended, without a trace.
func TestStrangerOnlyDelays(t *testing.T) {
	ch := forger(t)
	held := forged("", `{"record":"held","term":9,"id":"x","handover_ms":1000,"host":"x"}`)
	for name, attack := range map[string]func(t *testing.T, id lock.ID){
		"records": func(t *testing.T, id lock.ID) {
			forge(t, ch, id.Name+"-1-T", many(20, held)...)
		},
		"copies": func(t *testing.T, id lock.ID) {
			forge(t, ch, id.Name+"-1-T", many(20, forged("forger", `{"record":"held","term":9,"id":"x","copy":true}`))...)
		},
		"a flood of records": func(t *testing.T, id lock.ID) {
			forge(t, ch, id.Name+"-1-T", many(12_000, held)...)
		},
		"a flood of nothing": func(t *testing.T, id lock.ID) {
			forge(t, ch, id.Name+"-1-T", many(12_000, amqp.Publishing{})...)
		},
		"batons": func(t *testing.T, id lock.ID) {
			forge(t, ch, id.Name+"-W", many(300, amqp.Publishing{Headers: amqp.Table{"slot": int32(1)}})...)
		},
		"calls": func(t *testing.T, id lock.ID) {
			forge(t, ch, id.Name+"-W", many(300, amqp.Publishing{Expiration: "5000", Headers: amqp.Table{"slot": int32(7)}})...)
		},
		"requests": func(t *testing.T, id lock.ID) {
			for _, content := range []string{`{"request":"yield","priority":100}`, `{"request":"step-down"}`,
				`{"request":"reclaim","term":18446744073709551615}`, `{"knock":"x"}`} {
				for _, queue := range []string{"-1-B", "-1-T"} {
					forge(t, ch, id.Name+queue, many(50, forged("forger", "%s", content))...)
				}
			}
		},
		"10 MB": func(t *testing.T, id lock.ID) {
			for _, queue := range []string{"-1-B", "-1-T", "-W"} {
				forge(t, ch, id.Name+queue, many(3, amqp.Publishing{Body: make([]byte, 10<<20)})...)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			id := fresh(lock.Mutex)
			_, h := holding(t, id, time.Second)
			cfg := at(shared.URL())
			cfg.Heartbeat = time.Second
			next, woken := successor(t, cfg, id)
			attack(t, id)
			waitsStill(t, woken)
			must(t, proven(within(t), h))
			must(t, h.Release(within(t)))
			must(t, <-woken)
			running := wonBy(t, untilHeld(t, next))
			if running.Term() <= h.Term() {
				t.Errorf("term %d after %d", running.Term(), h.Term())
			}
			settled(t, running)
			eventually(t, "the ledger has its record alone", func() bool {
				q, _, err := shared.Queue(within(t), "/", id.Name+"-1-T")
				must(t, err)
				return q.Messages == 1
			})
			must(t, running.Release(within(t)))
			after := wonBy(t, untilHeld(t, connected(t, shared, id)))
			must(t, after.Release(within(t)))
		})
	}
}

// Whoever is next has in hand what counts, and a few hundred messages at most that do not, however long they are.
func TestWhoIsNextKeepsLittleOfWhatStrangersSend(t *testing.T) {
	ch := forger(t)
	id := fresh(lock.Mutex)
	_, h := holding(t, id, long)
	_, woken := successor(t, lasting(), id)
	before := heap()
	big := forged("", `{"record":"held","term":9,"id":"x","host":%q}`, strings.Repeat("x", 60_000))
	forge(t, ch, id.Name+"-1-T", many(1500, big)...)
	forge(t, ch, id.Name+"-1-T", many(5000, forged("", `{"record":"held","term":9,"id":"x"}`))...)
	forge(t, ch, id.Name+"-1-T", many(20, amqp.Publishing{Body: make([]byte, 4<<20)})...)
	eventually(t, "little is kept", func() bool {
		q, _, err := shared.Queue(within(t), "/", id.Name+"-1-T")
		must(t, err)
		return q.Messages < 400 && heap() < before+8<<20
	})
	waitsStill(t, woken)
	must(t, h.Verify(within(t)))
}

// A holder that lives is not taken for dead, and who waits away from the door steps back, though nobody vouches for the
// record by which it shows: it may be that of a berth that does not say from whom it is.
func TestRecordOfNobodyIsASignOfLife(t *testing.T) {
	id := ledgerWith(t, forged("", `{"record":"held","term":7,"id":"x","handover_ms":60000}`))
	_, h := claimed(t, id, time.Second)
	ready := untilReady(t, h)
	eventually(t, "it waits away from the door", func() bool {
		q, _, err := shared.Queue(within(t), "/", id.Name+"-1-T")
		must(t, err)
		return q.Consumers == 0 && q.Unacked > 0
	})
	publish(t, id.Name+"-1-T", forged("", `{"record":"held","term":7,"id":"x","handover_ms":60000}`))
	if err := <-ready; !errors.Is(err, lock.ErrFull) {
		t.Errorf("it does not step back: %v", err)
	}
}

// The same on quorum queues, where who comes to an unknown ledger waits for the longest lease there is.
func TestStrangerOnlyDelaysOnSeveralNodes(t *testing.T) {
	ch := forger(t)
	held := `{"record":"held","term":9000000000000000,"id":"x","handover_ms":1000,"host":"x"}`
	for name, messages := range map[string][]amqp.Publishing{
		"records":            many(20, forged("", "%s", held)),
		"copies":             many(20, forged("forger", `{"record":"held","term":9,"id":"x","copy":true}`)),
		"a flood of records": many(3000, forged("forger", "%s", held)),
		"a flood of nothing": many(3000, amqp.Publishing{}),
		"10 MB":              many(3, amqp.Publishing{Body: make([]byte, 10<<20)}),
	} {
		t.Run(name, func(t *testing.T) {
			id := replicated(t, 1)
			_, h := startedIn(t, id)
			forge(t, ch, ledgerOf(id), messages...)
			must(t, proven(within(t), h))
			must(t, h.Release(within(t)))
			forge(t, ch, ledgerOf(id), messages[:len(messages)/2]...)
			cfg := at(shared.URL())
			cfg.Heartbeat = time.Second
			l := backend(t, cfg).Lock(id)
			t.Cleanup(func() { l.Close() })
			must(t, l.Connect(within(t)))
			rabbit.SetLongest(l, time.Millisecond)
			running := wonBy(t, untilHeld(t, l))
			if running.Term() <= h.Term() {
				t.Errorf("term %d after %d", running.Term(), h.Term())
			}
			must(t, running.Release(within(t)))
			must(t, l.Close())
			_, h = startedIn(t, id) // at once: nothing is left of it
			must(t, h.Release(within(t)))
		})
	}
}

// As long as somebody goes on sending, nobody need start; but once that has ended.
func TestLockIsServedOnceAStrangerHasEnded(t *testing.T) {
	ch := forger(t)
	id := fresh(lock.Mutex)
	_, h := holding(t, id, time.Second)
	cfg := at(shared.URL())
	cfg.Heartbeat = time.Second
	next, woken := successor(t, cfg, id)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for n := range 300 {
			record := []string{"held", "released"}[n%2]
			_ = ch.Publish("", id.Name+"-1-T", false, false, forged("", `{"record":%q,"term":%d,"id":"x"}`, record, n+1))
			time.Sleep(10 * time.Millisecond)
		}
	}()
	must(t, h.Release(within(t)))
	<-ended
	must(t, <-woken)
	must(t, wonBy(t, untilHeld(t, next)).Release(within(t)))
}

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
	if said("somebody else fills the slot's ledger") != 1 {
		t.Fatal("the holder does not see the flood")
	}
	must(t, h.Release(within(t)))
	must(t, <-woken)
	running, err := next.Acquire(within(t))
	must(t, err)
	rabbit.SettleAfter(running, time.Hour)
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

// A record that goes another way than what the door is kept by can come late, behind that of a later holder, of which its
// writer has not read. Where a flood leaves that record alone, it does not say for how long that holder may live.
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
