package rabbit_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"berth/lock"
	"berth/lock/rabbit"
)

// Tokens of slots that are held are in their queue until their holders, whose channels have ended, take them back.
func TestFreeSlotIsFoundBehindTokensOfHeldOnes(t *testing.T) {
	t.Parallel()
	id := tokens(t, 6)
	var all []lock.Held
	for range 6 {
		_, h := holding(t, id, long)
		all = append(all, h)
	}
	var free lock.Held
	for _, h := range all {
		if h.Slot() == 6 {
			free = h
		} else {
			must(t, rabbit.CloseToken(within(t), h))
		}
	}
	must(t, free.Release(within(t)))
	awaitTokens(t, id, 6, 0)
	h := wonBy(t, untilHeld(t, connected(t, shared, id)))
	if h.Slot() != 6 {
		t.Errorf("slot %d was won, not 6", h.Slot())
	}
	must(t, h.Release(within(t)))
}

// It looks for lost tokens now and then, and is still before those who came later.
func TestWaiterKeepsItsPlaceWhileItLooksForTokens(t *testing.T) {
	id := tokens(t, 1)
	_, h := holding(t, id, long)
	l := connected(t, shared, id)
	rabbit.LookForTokens(l, time.Millisecond)
	first := untilHeld(t, l)
	eventually(t, "the first waits", func() bool { return consumersOfTokens(t, id) == 1 })
	second := untilHeld(t, connected(t, shared, id))
	eventually(t, "the second waits", func() bool { return consumersOfTokens(t, id) == 2 })
	must(t, h.Release(within(t)))
	select {
	case h = <-first:
		must(t, h.Release(within(t)))
		must(t, wonBy(t, second).Release(within(t)))
	case h = <-second:
		t.Error("the second was before the first")
		must(t, h.Release(within(t)))
		must(t, wonBy(t, first).Release(within(t)))
	}
}

// As where a broker was restarted: each is handed the tokens of others.
func TestManyHoldersTakeTheirTokensBackAtOnce(t *testing.T) {
	t.Parallel()
	id := tokens(t, 17)
	var all []lock.Held
	for range 16 {
		_, h := holding(t, id, long)
		all = append(all, h)
	}
	for _, h := range all {
		rabbit.CutConnection(h)
	}
	ctx := within(t)
	var reclaims sync.WaitGroup
	for _, h := range all {
		reclaims.Go(func() {
			for proven(ctx, h) != nil && ctx.Err() == nil {
				time.Sleep(time.Millisecond)
			}
		})
	}
	reclaims.Wait()
	must(t, wonBy(t, untilHeld(t, connected(t, shared, id))).Release(within(t)))
	eventually(t, "all tokens are kept", func() bool {
		kept := true
		for _, h := range all {
			must(t, proven(within(t), h))
			kept = kept && rabbit.KeepsToken(h)
		}
		return kept
	})
}

// Where nobody waits for long, nobody else notices.
func TestLostTokensAreMadeByWhoDoesNotWait(t *testing.T) {
	t.Parallel()
	for what, lose := range map[string]func(context.Context, string, string) error{
		"purged": shared.PurgeQueue, "deleted": shared.DeleteQueue,
	} {
		id := tokens(t, 2)
		_, h := holding(t, id, long)
		must(t, lose(within(t), "/", id.Name+"-K"))
		cfg := at(shared.URL())
		cfg.Contention.Once = true
		other := holdingAs(t, cfg, id)
		if other.Slot() == h.Slot() {
			t.Errorf("%s: slot %d is held twice", what, h.Slot())
		}
		must(t, other.Release(within(t)))
		must(t, h.Release(within(t)))
	}
}

// Who counts the tokens, as each resize does, has all that nobody keeps in hand, and who tries some of them has those.
func TestTokensInHandOfOthersAreAwaitedByWhoDoesNotWait(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		counts bool
		gone   time.Duration
	}{"tried": {false, 100 * time.Millisecond}, "counted": {true, 700 * time.Millisecond}} {
		id := tokens(t, 2)
		_, h := holding(t, id, long)
		conn, ch := stranger(t)
		if c.counts {
			_, err := ch.QueueDeclare(id.Name, false, false, true, false, amqp.Table{"x-queue-type": "classic"})
			must(t, err)
		}
		_, err := ch.Consume(id.Name+"-K", "", false, false, false, false, nil)
		must(t, err)
		awaitTokens(t, id, 2, 2)
		cfg := at(shared.URL())
		cfg.Contention.Once = true
		l := backend(t, cfg).Lock(id)
		t.Cleanup(func() { l.Close() })
		must(t, l.Connect(within(t)))
		time.AfterFunc(c.gone, func() { conn.Close() })
		other, err := acquire(t, l)
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		must(t, other.Release(within(t)))
		must(t, h.Release(within(t)))
	}
}

// RabbitMQ 4.3 closes a connection with 506 where a queue that is probed in a transaction is just going.
func TestTokensAreLookedForInTransactionsOverAnotherConnection(t *testing.T) {
	t.Parallel()
	txSelect, confirmSelect := method{90, 10}, method{85, 10}
	id := tokens(t, 1)
	must(t, shared.PurgeQueue(within(t), "/", id.Name+"-K"))
	p := newTap(t)
	cfg := at(p.url())
	cfg.Contention.Once, cfg.Probe = true, rabbit.ProbeByTx
	h := holdingAs(t, cfg, id)
	if _, own := p.count(confirmSelect, txSelect); own > 0 {
		t.Error("the contender's own connection has transactions")
	}
	if probing, _ := p.count(txSelect, txSelect); probing != 1 {
		t.Errorf("%d connections have transactions", probing)
	}
	must(t, h.Release(within(t)))
}

func TestLostTokensAreMadeSoonByWhoBeginsToWait(t *testing.T) {
	t.Parallel()
	id := tokens(t, 1)
	must(t, shared.PurgeQueue(within(t), "/", id.Name+"-K"))
	l := connected(t, shared, id)
	rabbit.LookForTokensFirst(l, 10*time.Millisecond)
	must(t, wonBy(t, untilHeld(t, l)).Release(within(t)))
}

// It may be slow to take what it has asked for.
func TestSlotThatIsGivenBackIsLeftToItsHolder(t *testing.T) {
	t.Parallel()
	id := tokens(t, 1)
	_, h := holding(t, id, long)
	b, _ := rabbit.Queues(h)
	cfg, said := journal()
	for range 3 {
		l := backend(t, cfg).Lock(id)
		t.Cleanup(func() { l.Close() })
		must(t, l.Connect(within(t)))
		untilHeld(t, l)
	}
	for resets := 1; resets <= 4; resets++ {
		waits := func() int { return said("waiting for the last holder's release") }
		rabbit.CutConnection(h)
		eventually(t, "a waiter has the slot", func() bool { return waits() == resets })
		publish(t, b, ask("guest", fmt.Sprintf(`{"request":"reclaim","term":%d}`, h.Term())))
		eventually(t, "it is given back", func() bool {
			_, held, err := shared.Queue(within(t), "/", b)
			must(t, err)
			return !held
		})
		must(t, proven(within(t), h))
		if n := waits(); n != resets {
			t.Fatalf("%d waiters had the slot after %d resets", n, resets)
		}
		eventually(t, "the token is kept", func() bool {
			must(t, proven(within(t), h))
			return rabbit.KeepsToken(h)
		})
	}
	must(t, h.Release(within(t)))
}

func TestTokensOfLeftoversAreHandedToNobody(t *testing.T) {
	t.Parallel()
	for _, of := range []rabbit.QueueType{rabbit.QueuesClassic, rabbit.QueuesQuorum} {
		t.Run(string(of), func(t *testing.T) {
			t.Parallel()
			id := fresh(lock.TokenSemaphore)
			_, err := makeTyped(t, id, of, 4)
			must(t, err)
			t.Cleanup(func() { resize(t, shared, id, 0) })
			_, h := startedIn(t, id)
			waiter := connected(t, shared, id)
			must(t, shared.DeleteQueue(within(t), "/", letter(id, of, 3, "A")))
			_, second := startedIn(t, id)
			if _, err := acquire(t, waiter); !errors.Is(err, lock.ErrFull) {
				t.Errorf("with slots 1 and 2, both held: %v", err)
			}
			must(t, shared.DeleteQueue(within(t), "/", letter(id, of, 1, "A")))
			must(t, second.Release(within(t)))
			for range 2 {
				if _, err := acquire(t, waiter); !errors.Is(err, lock.ErrAbsent) {
					t.Errorf("without slot 1: %v", err)
				}
			}
			if _, err := connectedAcquire(t, id); !errors.Is(err, lock.ErrAbsent) {
				t.Errorf("without slot 1, one that has just come: %v", err)
			}
			_ = h.Release(within(t))
		})
	}
}
