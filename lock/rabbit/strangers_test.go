package rabbit_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"berth/lock"
	"berth/lock/rabbit"
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
	t.Parallel()
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

// The same beside a holder that may live for longer than a newcomer: nothing in the ledger says so any more.
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
	t.Parallel()
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
	t.Parallel()
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
	t.Parallel()
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
			awaitB(t, running)
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

// The successor has in hand what counts, and a few hundred messages at most that do not, however long they are.
func TestSuccessorKeepsLittleOfWhatStrangersSend(t *testing.T) {
	ch := forger(t)
	id := fresh(lock.Mutex)
	_, h := holding(t, id, long)
	_, woken := successor(t, lasting(), id)
	before := heap()
	big := forged("", `{"record":"held","term":9,"id":"x","host":%q}`, strings.Repeat("x", 60_000))
	forge(t, ch, id.Name+"-1-T", many(500, big)...)
	forge(t, ch, id.Name+"-1-T", many(5000, forged("", `{"record":"held","term":9,"id":"x"}`))...)
	forge(t, ch, id.Name+"-1-T", many(8, amqp.Publishing{Body: make([]byte, 4<<20)})...)
	eventually(t, "little is kept", func() bool {
		q, _, err := shared.Queue(within(t), "/", id.Name+"-1-T")
		must(t, err)
		return q.Messages < 400 && heap() < before+8<<20
	})
	waitsStill(t, woken)
	must(t, h.Verify(within(t)))
}

// A holder that lives is not taken for dead, and who waits away from the reader's place steps back, though nobody
// vouches for the record by which it shows: it may be that of a berth that does not say from whom it is.
func TestRecordOfNobodyIsASignOfLife(t *testing.T) {
	t.Parallel()
	id := ledgerWith(t, forged("", `{"record":"held","term":7,"id":"x","handover_ms":60000}`))
	_, h := claimed(t, id, time.Second)
	ready := untilReady(t, h)
	eventually(t, "it waits away from the reader's place", func() bool {
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
	t.Parallel()
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
	t.Parallel()
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
