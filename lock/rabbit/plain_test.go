package rabbit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/lock"
	"berth/lock/conformance"
	"berth/lock/rabbit"
)

// plainly is the configuration of the plain protocol, over a way to the shared broker.
func plainly(url string) rabbit.Config {
	cfg := at(url)
	cfg.Protocol, cfg.Heartbeat = rabbit.ProtocolPlain, time.Second
	return cfg
}

// prompt is a backend with the plain protocol whose lease, and handover delay, is next to nothing.
func prompt(t *testing.T, cfg rabbit.Config) *rabbit.Backend {
	t.Helper()
	return leasing(t, cfg, 10*time.Millisecond)
}

func leasing(t *testing.T, cfg rabbit.Config, lease time.Duration) *rabbit.Backend {
	t.Helper()
	b := backend(t, cfg)
	rabbit.SetLease(b, lease)
	return b
}

// plain returns a contender that is connected.
func plain(t *testing.T, b *rabbit.Backend, id lock.ID) lock.Lock {
	t.Helper()
	l := b.Lock(id)
	t.Cleanup(func() { l.Close() })
	must(t, l.Connect(within(t)))
	return l
}

// plainHolder returns a contender whose command has started.
func plainHolder(t *testing.T, id lock.ID) (lock.Lock, lock.Held) {
	t.Helper()
	l := plain(t, prompt(t, plainly(shared.URL())), id)
	h, err := l.Acquire(within(t))
	must(t, err)
	must(t, h.Ready(within(t)))
	return l, h
}

func TestConformanceOfThePlainProtocol(t *testing.T) {
	t.Parallel()
	leftover := map[rabbit.Naming]string{rabbit.NamingNLA: "%[1]s-%[2]d-A", rabbit.NamingNAL: "%[1]s-A-%[2]d"}
	for _, c := range []struct {
		naming rabbit.Naming
		probe  rabbit.Probing
	}{{rabbit.NamingNLA, rabbit.ProbeByTx}, {rabbit.NamingNAL, rabbit.ProbeByConfirm}} {
		if !thorough && c.probe == rabbit.ProbeByTx {
			continue // probe_test.go has every way to probe
		}
		t.Run(string(c.naming), func(t *testing.T) {
			t.Parallel()
			cfg := plainly(shared.URL())
			cfg.Naming, cfg.Probe = c.naming, c.probe
			cfg.Heartbeat = long // what the broker sends may come late where the machine is busy
			conformance.Run(t, conformance.Harness{
				Open: func(t *testing.T) lock.Backend { return prompt(t, cfg) },
				AddSlot: func(t *testing.T, id lock.ID, slot int) {
					declare(t, shared.URL(), fmt.Sprintf(leftover[c.naming], id.Name, slot))
				},
				OpenBrief: func(t *testing.T) lock.Backend { return leasing(t, cfg, 300*time.Millisecond) },
				Pause:     10 * time.Millisecond,
			})
		})
	}
}

// What other implementations of the scheme say, and nothing else.
var plainMethods = map[rabbit.Probing][]method{
	rabbit.ProbeByConfirm: {basicPublish, {85, 10}},           // confirm.select
	rabbit.ProbeByTx:      {basicPublish, {90, 10}, {90, 20}}, // tx.select, tx.commit
	rabbit.ProbeByPassive: {},
}

func TestPlainWireSaysNothingElse(t *testing.T) {
	t.Parallel()
	for how, probe := range plainMethods {
		p := newTap(t, slices.Concat(probe, []method{
			{10, 11}, {10, 31}, {10, 40}, {10, 50}, {10, 51}, // connection: start-ok, tune-ok, open, close, close-ok
			channelOpen, {20, 40}, {20, 41}, queueDeclare, {50, 40}, // channel.close, .close-ok, queue.delete
		})...)
		cfg := plainly(p.url())
		cfg.Probe = how
		b := prompt(t, cfg)
		for _, kind := range []lock.Kind{lock.Mutex, lock.Semaphore} {
			id := fresh(kind)
			useAll(t, b, id)
			_, err := b.Inspect(within(t), id)
			must(t, err)
		}
		if _, n := p.count(queueDeclare, queueDeclare); n == 0 || p.refused != nil {
			t.Errorf("%s: %d declarations, and what nobody may say: %v", how, n, p.refused)
		}
	}
}

// useAll does with a lock what there is to be done.
func useAll(t *testing.T, b *rabbit.Backend, id lock.ID) {
	t.Helper()
	sized := func(slots int) {
		if id.Kind != lock.Mutex {
			a := b.Administrator(id)
			_, _, err := a.Resize(within(t), 3, func(int) (int, error) { return slots, nil })
			must(t, err)
			must(t, a.AwaitVacant(within(t), slots+1, slots+1))
		}
	}
	sized(1)
	l, waiter := plain(t, b, id), plain(t, b, id)
	h, err := l.Acquire(within(t))
	must(t, err)
	must(t, h.Ready(within(t)))
	must(t, h.Verify(within(t)))
	if _, err := waiter.Acquire(within(t)); !errors.Is(err, lock.ErrFull) {
		t.Fatal(err)
	}
	must(t, waiter.Wait(within(t), time.Millisecond))
	look := b.Inspector(id)
	defer look.Close()
	if s, err := look.Look(within(t)); err != nil || len(s.Slots) != 1 || s.Slots[0].State != lock.SlotHeld {
		t.Errorf("it looks like %+v, %v", s, err)
	}
	rabbit.CutPlain(h)
	<-h.Lost()
	must(t, h.Reclaim(within(t)))
	must(t, h.Release(within(t)))
	sized(0)
}

// Nobody says that the last command is dead, even where it is.
func TestPlainWireAlwaysWaitsForTheLease(t *testing.T) {
	t.Parallel()
	id := fresh(lock.Mutex)
	_, first := plainHolder(t, id)
	l := plain(t, backend(t, plainly(shared.URL())), id)
	must(t, first.Release(within(t)))
	dead := time.Now()
	h, err := l.Acquire(within(t))
	must(t, err)
	must(t, h.Ready(within(t)))
	if early := h.Lease() - time.Since(dead); early > 0 || h.Lease() != 2*time.Second {
		t.Errorf("the command may start %s before the lease of %s is over", early, h.Lease())
	}
	if h.Term() <= first.Term() {
		t.Errorf("term %d after %d", h.Term(), first.Term())
	}
}

func TestPlainHolderNoticesTheEndOfItsSlot(t *testing.T) {
	t.Parallel()
	for what, end := range map[string]func(id lock.ID){
		"-1-B": func(id lock.ID) { // as brokers have deleted live queues
			must(t, shared.DeleteQueue(within(t), "/", id.Name+"-1-B"))
		},
		"-1-A": func(id lock.ID) { must(t, shared.DeleteQueue(within(t), "/", id.Name+"-1-A")) },
	} {
		id := fresh(lock.Semaphore)
		resize(t, shared, id, 1)
		_, h := plainHolder(t, id)
		must(t, h.Verify(within(t)))
		end(id)
		if err := h.Verify(within(t)); !errors.Is(err, lock.ErrLost) {
			t.Errorf("without %s: %v", what, err)
		}
		if err := h.Release(within(t)); err != nil {
			t.Errorf("without %s: %v", what, err)
		}
	}
}

// A berth that has won the slot meanwhile waits for as long as the command may live.
func TestPlainHolderHasItsSlotBackOrEnds(t *testing.T) {
	t.Parallel()
	id := fresh(lock.Mutex)
	_, h := plainHolder(t, id)
	term := h.Term()
	rabbit.CutPlain(h)
	<-h.Lost()
	if err := h.Verify(within(t)); !errors.Is(err, lock.ErrInDoubt) {
		t.Errorf("verifying without a connection: %v", err)
	}
	must(t, h.Reclaim(within(t)))
	must(t, h.Verify(within(t)))
	if h.Term() != term {
		t.Errorf("term %d, and then %d", term, h.Term())
	}
	rabbit.CutPlain(h)
	<-h.Lost()
	other := plain(t, backend(t, plainly(shared.URL())), id)
	var won lock.Held
	succeeds(t, "winning the slot", func() (err error) {
		won, err = other.Acquire(within(t))
		return err
	})
	ctx, cancel := context.WithTimeout(within(t), 300*time.Millisecond)
	defer cancel()
	if err := h.Reclaim(ctx); !errors.Is(err, lock.ErrInDoubt) {
		t.Errorf("reclaiming what somebody else has: %v", err)
	}
	must(t, h.Release(within(t)))
	must(t, won.Ready(within(t)))
	must(t, won.Verify(within(t)))
}

// The broker logs every look that it refuses as an error.
func TestWatchedPlainLockIsNotLookedAtInVainAgain(t *testing.T) {
	id := fresh(lock.Semaphore)
	resize(t, shared, id, 2)
	p := newTap(t)
	i := inspector(t, plainly(p.url()), id)
	declared := 0
	for look := range 3 {
		s, err := i.Look(within(t))
		must(t, err)
		_, n := p.count(queueDeclare, queueDeclare)
		if len(s.Slots) != 2 || look > 0 && n != declared {
			t.Errorf("look %d: %d slots, %d declarations after %d", look, len(s.Slots), n, declared)
		}
		declared = n
	}
	resize(t, shared, id, 4)
	if s, err := i.Look(within(t)); err != nil || len(s.Slots) != 4 {
		t.Errorf("%d slots of 4, %v", len(s.Slots), err)
	}
}

// A berth of the full protocol has begun as soon as B was free, and leaves it free again and again.
func TestPlainSlotThatHasGotALedgerIsLost(t *testing.T) {
	id := fresh(lock.Mutex)
	_, h := plainHolder(t, id)
	rabbit.CutPlain(h)
	<-h.Lost()
	_, other := holding(t, id, long)
	must(t, other.Release(within(t)))
	if err := h.Reclaim(within(t)); !errors.Is(err, lock.ErrLost) {
		t.Errorf("reclaiming it: %v", err)
	} else {
		readable(t, err, "--protocol full")
	}
	must(t, h.Release(within(t)))
	_, again := holding(t, id, long)
	must(t, again.Release(within(t)))
}

func TestPlainWireIsRefusedBesideALedger(t *testing.T) {
	for _, held := range []bool{true, false} {
		id := fresh(lock.Mutex)
		_, h := holding(t, id, long)
		if !held {
			must(t, h.Release(within(t)))
		}
		b := prompt(t, plainly(shared.URL()))
		_, err := plain(t, b, id).Acquire(within(t))
		if !errors.Is(err, lock.ErrUnsafe) || !strings.Contains(err.Error(), "--protocol full") {
			t.Errorf("held %v: %v", held, err)
		}
		if held {
			must(t, proven(within(t), h))
		}
		r, err := b.Inspect(within(t), id)
		must(t, err)
		if !errors.Is(errors.Join(r.Problems...), lock.ErrUnsafe) {
			t.Errorf("held %v: problems are %v", held, r.Problems)
		}
	}
}

// Every berth of the lock has to wait for as long. That is said once for all slots of which no more is known.
func TestVacantIsAPlainSlotThatNobodyHasHadForLong(t *testing.T) {
	id := fresh(lock.Semaphore)
	resize(t, shared, id, 1)
	_, h := plainHolder(t, id)
	must(t, h.Release(within(t)))
	cfg, said := journal()
	cfg.Protocol = rabbit.ProtocolPlain
	a := backend(t, cfg).Administrator(id)
	ctx, cancel := context.WithTimeout(within(t), 300*time.Millisecond)
	defer cancel()
	if err := a.AwaitVacant(ctx, 1, 20); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it is vacant at once: %v", err)
	}
	if n := said("waiting for as long"); n != 1 {
		t.Errorf("what is waited for is said %d times", n)
	}
}

func TestUnderMemoryAlarmPlainSlotsAreHeldWonAndGivenBack(t *testing.T) {
	for _, how := range probings {
		for _, kind := range []lock.Kind{lock.Mutex, lock.Semaphore} {
			t.Run(string(how)+" "+string(kind), func(t *testing.T) {
				id := fresh(kind)
				if kind == lock.Semaphore {
					resize(t, shared, id, 1)
				}
				cfg := plainly(shared.URL())
				cfg.Probe = how
				_, before := plainHolder(t, id)
				raiseAlarm(t)
				must(t, before.Verify(within(t)))
				must(t, before.Release(within(t)))
				l := plain(t, prompt(t, cfg), id)
				var h lock.Held
				succeeds(t, "the start of a command", func() (err error) {
					if err = l.Connect(within(t)); err != nil {
						return err
					}
					if h, err = l.Acquire(within(t)); err != nil {
						return err
					}
					if err = h.Ready(within(t)); err != nil {
						_ = h.Release(within(t))
					}
					return err
				})
				if told := l.Alarm() != ""; told != (how != rabbit.ProbeByPassive) {
					t.Errorf("that there is an alarm is told: %v", told)
				}
				must(t, h.Verify(within(t)))
				must(t, h.Release(within(t)))
			})
		}
	}
}

// Its B is free for a moment while a holder reads its ledger: who may not look at that (RabbitMQ 4.3
// wants a permission for that) would start beside it.
func TestPlainWireNeedsToSeeWhetherThereIsALedger(t *testing.T) {
	id := fresh(lock.Mutex)
	_, h := holding(t, id, long)
	must(t, h.Release(within(t)))
	must(t, shared.AddUser(within(t), "plain", "right"))
	must(t, shared.SetPermissions(within(t), "plain", "/", "-B$", `^amq\.default$`, "-B$"))
	b := prompt(t, plainly(shared.URLFor("plain", "right", "/")))
	_, err := plain(t, b, id).Acquire(within(t))
	if !errors.Is(err, lock.ErrDenied) && !errors.Is(err, lock.ErrUnsafe) {
		t.Fatalf("it obtains the slot: %v", err)
	}
	readable(t, err, id.Name+"-1-T")
	r, err := b.Inspect(within(t), id)
	must(t, err)
	problem := errors.Join(r.Problems...)
	if !errors.Is(problem, lock.ErrDenied) && !errors.Is(problem, lock.ErrUnsafe) {
		t.Errorf("problems are %v", problem)
	}
}

func TestPlainWireSaysOnceThatItPromisesLess(t *testing.T) {
	cfg, said := journal()
	cfg.Protocol = rabbit.ProtocolPlain
	l := plain(t, backend(t, cfg), fresh(lock.Mutex))
	must(t, l.Connect(within(t)))
	if n := said("less is promised"); n != 1 {
		t.Errorf("it is said %d times", n)
	}
}

// A contender that has won B and lost it begins again: meanwhile somebody else may have started, and be cut off.
func TestPlainDelayBeginsAgainWithAnotherClaim(t *testing.T) {
	id := fresh(lock.Mutex)
	l := plain(t, leasing(t, plainly(shared.URL()), 300*time.Millisecond), id)
	h, err := l.Acquire(within(t))
	must(t, err)
	ready := make(chan error, 1)
	go func() { ready <- h.Ready(within(t)) }()
	rabbit.CutPlain(h)
	if err := <-ready; err == nil {
		t.Fatal("the command may start without B")
	}
	_ = h.Release(within(t))
	other := prompt(t, plainly(shared.URL()))
	between := plain(t, other, id)
	var second lock.Held
	succeeds(t, "winning the slot", func() (err error) {
		second, err = between.Acquire(within(t))
		return err
	})
	must(t, second.Ready(within(t)))
	must(t, between.Close())
	cut := time.Now()
	must(t, l.Connect(within(t)))
	succeeds(t, "winning it again", func() (err error) {
		h, err = l.Acquire(within(t))
		return err
	})
	must(t, h.Ready(within(t)))
	if early := h.Lease() - time.Since(cut); early > 0 {
		t.Errorf("the command may start %s before the lease is over", early)
	}
}
