package rabbit_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"berth/lock"
	"berth/lock/rabbit"
)

// A policy for all queues takes records out of a ledger. That makes every handover
// slow.
func TestPolicyThatSwallowsRecordsIsToldOf(t *testing.T) {
	t.Parallel()
	for what, definition := range map[string]string{
		"max-length 0":                   `[{<<"max-length">>, 0}]`,
		"message-ttl 0":                  `[{<<"message-ttl">>, 0}]`,
		"max-length 1":                   `[{<<"max-length">>, 1}]`,
		"max-length 1 and rejected else": `[{<<"max-length">>, 1}, {<<"overflow">>, <<"reject-publish">>}]`,
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			id := fresh(lock.Mutex)
			setPolicy(t, id, "-", definition)
			cfg, said := journal()
			cfg.Heartbeat = time.Second
			for range 2 {
				l := backend(t, cfg).Lock(id)
				must(t, l.Connect(within(t)))
				rabbit.SetLongest(l, 2*time.Second)
				h, err := l.Acquire(within(t))
				must(t, err)
				start(t, h)
				must(t, proven(within(t), h))
				must(t, proven(within(t), h))
				must(t, h.Release(within(t)))
				must(t, l.Close())
			}
			if said("policies") == 0 || said(id.Name+"-1-T") == 0 {
				t.Error("nobody is told why every handover takes so long")
			}
		})
	}
}

// Rented brokers delete queues that nobody uses. Those of a slot that is held are used: it is verified.
func TestQueuesThatExpireWhenIdleDoNotWhileTheSlotIsVerified(t *testing.T) {
	t.Parallel()
	expiring := func(t *testing.T, made func() lock.ID, hurry func(lock.Lock)) {
		t.Parallel()
		id := made() // now, and not when others ran: it would be idle until then
		setPolicy(t, id, "-", `[{<<"expires">>, 5000}]`)
		cfg, said := journal()
		l := backend(t, cfg).Lock(id)
		t.Cleanup(func() { l.Close() })
		must(t, l.Connect(within(t)))
		hurry(l)
		h, err := l.Acquire(within(t))
		must(t, err)
		must(t, h.Ready(within(t)))
		for range 2 {
			idle := id.Name + "-idle"
			onChannel(t, func(ch *amqp.Channel) error {
				_, err := ch.QueueDeclare(idle, true, false, false, false, nil)
				return err
			})
			eventually(t, "an idle queue expires", func() bool {
				must(t, proven(within(t), h))
				_, found, err := shared.Queue(within(t), "/", idle)
				must(t, err)
				return !found
			})
		}
		if n := said("recording this holder again"); n > 0 {
			t.Errorf("the ledger was written again %d times", n)
		}
		must(t, h.Release(within(t)))
	}
	eachKind(t, func(t *testing.T, id lock.ID) { expiring(t, func() lock.ID { return id }, func(lock.Lock) {}) })
	t.Run("on quorum queues", func(t *testing.T) { // a slot is used each ten minutes there
		expiring(t, func() lock.ID { return replicated(t, 1) }, func(l lock.Lock) { rabbit.RewriteMoreOften(l, 600) })
	})
}

// setPolicy sets a policy for the queues of a lock whose names go on like this, until the test ends.
func setPolicy(t *testing.T, id lock.ID, rest, definition string) {
	t.Helper()
	_, err := shared.Eval(within(t), fmt.Sprintf(
		`ok = rabbit_policy:set(<<"/">>, <<"%[1]s">>, <<"^%[1]s%[2]s">>, %[3]s, 0, <<"queues">>, <<"operator">>).`,
		id.Name, rest, definition))
	must(t, err)
	t.Cleanup(func() {
		_, err := shared.Eval(within(t), fmt.Sprintf(`rabbit_policy:delete(<<"/">>, <<"%s">>, <<"operator">>).`, id.Name))
		must(t, err)
	})
}

func TestPolicyThatTakesReplicatedRecordsIsToldOf(t *testing.T) {
	t.Parallel()
	for what, definition := range map[string]string{
		"max-length 1":  `[{<<"max-length">>, 1}]`,
		"message-ttl 0": `[{<<"message-ttl">>, 0}]`,
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			id := replicated(t, 1)
			setPolicy(t, id, "-.*-T$", definition)
			cfg, said := journal()
			cfg.Heartbeat = time.Second
			l := backend(t, cfg).Lock(id)
			defer l.Close()
			rabbit.SetLongest(l, time.Millisecond)
			for range 5 {
				must(t, l.Connect(within(t))) // a release that its ledger does not answer has cut the connection
				var h lock.Held
				succeeds(t, "acquiring it", func() (err error) { // a ledger without a record is as one that somebody reads
					h, err = l.Acquire(within(t))
					return err
				})
				if h.Ready(within(t)) == nil {
					_ = h.Verify(within(t))
				}
				must(t, h.Release(within(t)))
				if said("policies") > 0 && said(ledgerOf(id)) > 0 {
					return
				}
			}
			t.Error("nobody is told why commands start late, or are ended")
		})
	}
}

// From RabbitMQ 4.3 on a policy may delay what is put back, which every proof waits for.
func TestPolicyThatDelaysRecordsDoesNothing(t *testing.T) {
	if !shared.Since(4, 3) {
		t.Skip("no such policy")
	}
	t.Parallel()
	for _, of := range []string{"all", "returned"} {
		t.Run(of, func(t *testing.T) {
			t.Parallel()
			id := replicated(t, 1)
			setPolicy(t, id, "-", delaying(of))
			for range 3 {
				l, h := startedIn(t, id)
				for range 20 {
					must(t, h.Verify(within(t)))
				}
				rabbit.CutReplicated(h)
				must(t, proven(within(t), h))
				must(t, h.Release(within(t)))
				must(t, l.Close())
			}
			if r := inspect(t, id, shared.URL()); len(r.Problems) > 0 {
				t.Errorf("a lock that it does nothing to: %v", r.Problems)
			}
		})
	}
}

func delaying(of string) string {
	return fmt.Sprintf(`[{<<"delayed-retry-type">>, <<"%s">>}, {<<"delayed-retry-min">>, 1000}]`, of)
}

// An older berth, or an older RabbitMQ, has made the lock.
func TestPolicyThatDelaysRecordsOfAnOlderLockIsToldOf(t *testing.T) {
	if !shared.Since(4, 3) {
		t.Skip("no such policy")
	}
	t.Parallel()
	id := fresh(lock.TokenSemaphore)
	onChannel(t, func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(ledgerOf(id), true, false, false, false, amqp.Table{
			"x-queue-type": "quorum", "x-overflow": "drop-head", "x-max-length": int32(1000),
			"x-single-active-consumer": true, "x-delivery-limit": int32(-1), "x-consumer-disconnected-timeout": int32(0),
		})
		return err
	})
	_, err := makeTyped(t, id, rabbit.QueuesQuorum, 1)
	must(t, err)
	t.Cleanup(func() { resize(t, shared, id, 0) })
	if r := inspect(t, id, shared.URL()); len(r.Problems) > 0 {
		t.Errorf("without the policy: %v", r.Problems)
	}
	setPolicy(t, id, "-", delaying("all"))
	cfg, said := journal()
	l := backend(t, cfg).Lock(id)
	defer l.Close()
	must(t, l.Connect(within(t)))
	rabbit.SetLongest(l, time.Millisecond)
	h, err := l.Acquire(within(t))
	must(t, err)
	must(t, h.Ready(within(t)))
	for ctx := within(t); said("delayed-retry-type") == 0 || said(ledgerOf(id)) == 0; {
		if _ = h.Reclaim(ctx); ctx.Err() != nil {
			t.Fatal("nobody is told why commands are ended")
		}
	}
	r := inspect(t, id, shared.URL())
	if len(r.Problems) != 1 || !strings.Contains(r.Problems[0].Error(), "delayed-retry-type") {
		t.Errorf("check says %v", r.Problems)
	}
	must(t, h.Release(within(t)))
}

// With several brokers each doubt brings another connection.
func TestPolicyThatExpiresRecordsIsToldOfAfterEachDoubt(t *testing.T) {
	t.Parallel()
	id := replicated(t, 1)
	setPolicy(t, id, "-", `[{<<"message-ttl">>, 300}]`)
	cfg, said := journal()
	l := backend(t, cfg).Lock(id)
	defer l.Close()
	must(t, l.Connect(within(t)))
	rabbit.SetLongest(l, time.Millisecond)
	h, err := l.Acquire(within(t))
	must(t, err)
	must(t, h.Ready(within(t)))
	for ctx := within(t); said("message-ttl") == 0; {
		time.Sleep(400 * time.Millisecond) // until the records have expired
		rabbit.CutReplicated(h)
		if must(t, proven(within(t), h)); ctx.Err() != nil {
			t.Fatal("nobody is told why the slot is in doubt")
		}
	}
	must(t, h.Release(within(t)))
}

// A leader without a majority, or one that hangs, delivers nothing, whatever the policies say.
func TestLedgerThatDoesNotAnswerIsNotTakenForAPolicy(t *testing.T) {
	t.Parallel()
	id := replicated(t, 1)
	cfg, said := journal()
	l := backend(t, cfg).Lock(id)
	defer l.Close()
	must(t, l.Connect(within(t)))
	h, err := l.Acquire(within(t))
	must(t, err)
	must(t, h.Ready(within(t)))
	must(t, h.Verify(within(t)))
	for range 2 {
		hang(t, ledgerOf(id), 5500*time.Millisecond)
		_ = h.Verify(within(t)) // is late
		must(t, h.Reclaim(within(t)))
	}
	must(t, h.Release(within(t)))
	if said("policies") > 0 {
		t.Error("a policy is blamed")
	}
}

// One that waits has nothing in hand by which it could tell.
func TestLedgerThatDoesNotAnswerAWaiterIsNotTakenForAPolicy(t *testing.T) {
	t.Parallel()
	id := replicated(t, 1)
	publish(t, ledgerOf(id), heldBy(5, time.Hour))
	cfg, said := journal()
	cfg.Heartbeat = 2 * time.Second // it looks every second
	l := backend(t, cfg).Lock(id)
	defer l.Close()
	must(t, l.Connect(within(t)))
	for range 2 {
		h, err := acquire(t, l) // the knock may have cost it its connection
		must(t, err)
		hang(t, ledgerOf(id), 9*time.Second)
		if err := h.Ready(within(t)); !errors.Is(err, lock.ErrUnknown) {
			t.Errorf("its ledger does not answer: %v", err)
		}
		if err := h.Release(within(t)); err != nil && !errors.Is(err, lock.ErrUnknown) { // it is owed then
			t.Error(err)
		}
	}
	if said("policies") > 0 {
		t.Error("a policy is blamed")
	}
}

// hang keeps the leader of a queue on several nodes from doing anything for a while.
func hang(t *testing.T, queue string, d time.Duration) {
	t.Helper()
	_, err := shared.Eval(within(t), fmt.Sprintf(`{ok, Q} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"/">>, queue, <<%q>>)),
		Leader = amqqueue:get_pid(Q), sys:suspend(Leader), spawn(fun() -> timer:sleep(%d), sys:resume(Leader) end).`,
		queue, d.Milliseconds()))
	must(t, err)
}

// From RabbitMQ 4.3 on it ends consumers of quorum queues, and may serve nobody once it has ended all of them.
func TestShortTimeoutOfConsumersDoesNothing(t *testing.T) {
	if !shared.Since(4, 3) {
		t.Skip("consumer_timeout concerns channels, for all queues alike")
	}
	t.Parallel()
	id := replicated(t, 1)
	setPolicy(t, id, "-", `[{<<"consumer-timeout">>, 500}]`)
	_, h := startedIn(t, id)
	won := untilHeld(t, connected(t, shared, id))
	proofs := time.NewTicker(100 * time.Millisecond)
	defer proofs.Stop()
	for began := time.Now(); time.Since(began) < 4*time.Second; <-proofs.C {
		must(t, h.Verify(within(t)))
	}
	notHeld(t, won)
	must(t, h.Release(within(t)))
	must(t, wonBy(t, won).Release(within(t)))
}

func TestLedgerThatKeepsItsRecordsIsNotComplainedOf(t *testing.T) {
	id := fresh(lock.Mutex)
	cfg, said := journal()
	cfg.Heartbeat = time.Second
	for range 3 {
		h := startedAs(t, cfg, id)
		must(t, proven(within(t), h))
		must(t, proven(within(t), h))
		must(t, h.Release(within(t)))
	}
	if said("policies") > 0 {
		t.Error("a policy is suspected that is not there")
	}
}
