package rabbit_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/lock"
	"berth/lock/rabbit"
)

// leader runs an Erlang function in the broker with the process that leads a quorum queue, until the test ends. It is
// told to stop then, and resumes the leader.
func leader(t *testing.T, queue, does string) {
	t.Helper()
	_, err := shared.Eval(within(t), fmt.Sprintf(`{ok, Q} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"/">>, queue, <<%q>>)),
		Leader = amqqueue:get_pid(Q), Self = self(),
		spawn(fun() ->
			register(led, self()), sys:suspend(Leader), Self ! suspended,
			%s, sys:resume(Leader), unregister(led)
		end),
		receive suspended -> ok end.`, queue, does))
	must(t, err)
	t.Cleanup(func() {
		_, err := shared.Eval(within(t), `catch led ! stop, (fun Go() ->
			case whereis(led) of undefined -> ok; _ -> timer:sleep(10), Go() end end)().`)
		must(t, err)
	})
}

// inSteps lets the leader do one thing each so many milliseconds.
const inSteps = `(fun Go() -> receive stop -> ok after %d -> sys:resume(Leader), sys:suspend(Leader), Go() end end)()`

// An answer that takes as long over any node is waited for, instead of being asked for again and again.
func TestSteadilySlowLedgerCostsNoConnection(t *testing.T) {
	for _, step := range []time.Duration{250 * time.Millisecond, 700 * time.Millisecond} { // after 400 ms another is asked
		t.Run(step.String(), func(t *testing.T) {
			id := replicated(t, 1)
			first, second := newTap(t), newTap(t)
			cfg, said := journal()
			cfg.Log.SetLevel(hclog.Debug)
			cfg.URLs, cfg.Heartbeat = []string{first.url(), second.url()}, time.Second
			h := startedAt(t, backend(t, cfg), id)
			awaitCompared(t, said)
			leader(t, ledgerOf(id), fmt.Sprintf(inSteps, step.Milliseconds()))
			for range 2 {
				must(t, h.Verify(within(t)))
			}
			if n := said("asking another broker"); n > 0 {
				t.Errorf("another broker was asked %d times", n)
			}
		})
	}
}

// Where no other node answers either, the leader is to blame, and what is asked is answered by and by.
func TestLeaderThatStandsStillCostsNoConnection(t *testing.T) {
	id := replicated(t, 1)
	first, second := newTap(t), newTap(t)
	cfg, said := journal()
	cfg.Log.SetLevel(hclog.Debug)
	cfg.URLs, cfg.Heartbeat = []string{first.url(), second.url()}, time.Second
	h := startedAt(t, backend(t, cfg), id)
	awaitCompared(t, said)
	leader(t, ledgerOf(id), `timer:sleep(3000)`)
	must(t, h.Verify(within(t)))
	if n := said("asking another broker"); n > 0 {
		t.Errorf("another broker was asked %d times", n)
	}
}

// What asks a leader that hangs to let it go is not over before that answers, or the broker gives it up after 70 s. Until
// then it is in everybody's way, though there may be another leader.
func TestHolderWhoseLedgerHangsLeavesNothingThatWaitsForIt(t *testing.T) {
	id := replicated(t, 1)
	cfg := at(shared.URL())
	cfg.Heartbeat = time.Second
	h := startedAt(t, backend(t, cfg), id)
	leader(t, ledgerOf(id), `receive stop -> ok end`)
	ctx, cancel := context.WithTimeout(within(t), time.Second)
	defer cancel()
	if err := h.Verify(ctx); err == nil {
		t.Fatal("verified by a ledger that hangs")
	}
	_ = h.Release(within(t))
	waiting, err := shared.Eval(within(t), `[P || P <- rabbit_channel:list(), {_, Calls} <-
		[erlang:process_info(P, current_stacktrace)], lists:keymember(try_process_command, 2, Calls)].`)
	must(t, err)
	if waiting != "[]" {
		t.Errorf("channels wait for the ledger: %s", waiting)
	}
}

// Its place has gone with its consumer: to give up an answer costs nothing any more, and berth can end.
func TestHolderThatComesBackToALedgerThatHangsHeedsItsTime(t *testing.T) {
	id := replicated(t, 1)
	_, h := startedIn(t, id)
	must(t, rabbit.CloseReader(within(t), h))
	_ = lost(t, h)
	leader(t, ledgerOf(id), `receive stop -> ok end`)
	ctx, cancel := context.WithTimeout(within(t), 100*time.Millisecond)
	defer cancel()
	reclaimed := make(chan error, 1)
	go func() { reclaimed <- h.Reclaim(ctx) }()
	select {
	case err := <-reclaimed:
		if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, lock.ErrInDoubt) {
			t.Errorf("reclaiming: %v", err)
		}
	case <-within(t).Done():
		rabbit.CutReplicated(h)
		t.Errorf("it goes on after its time, until its connection is cut: %v", <-reclaimed)
	}
}

// The first attempt may come too early.
func TestAnotherNodeIsTriedUntilOneAnswers(t *testing.T) {
	t.Parallel()
	id := replicated(t, 1)
	network, silent := newLate(t)
	away, second := newLate(t)
	cfg, said := journal()
	cfg.Log.SetLevel(hclog.Debug)
	cfg.URLs, cfg.Heartbeat = []string{silent, second}, long
	h := startedAt(t, backend(t, cfg), id)
	awaitCompared(t, said)
	network.hold(false)
	away.hold(false)
	done := make(chan error, 1)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	go func() {
		for err := proven(ctx, h); ; err = proven(ctx, h) {
			if err == nil || ctx.Err() != nil || errors.Is(err, lock.ErrLost) {
				done <- err
				return
			}
		}
	}()
	eventually(t, "the other node was tried", func() bool {
		return said("another broker cannot be asked for the slot")+said("no other broker can be asked for the slot") > 0
	})
	away.heal()
	must(t, <-done)
}

// The token is kept for a while, so that nobody else tries the slot. The records are the holder's at once.
func TestOneThatStepsBackLeavesTheReadersPlaceAtOnce(t *testing.T) {
	id := replicated(t, 1)
	_, h := startedIn(t, id)
	l := connected(t, shared, id)
	rabbit.CutReplicated(h)
	var next lock.Held
	succeeds(t, "the token of the one whose connection is lost", func() (err error) {
		next, err = l.Acquire(within(t))
		return err
	})
	stepped := make(chan error, 1)
	ctx := within(t)
	go func() { stepped <- rabbit.ReadyInPlace(ctx, next) }()
	must(t, h.Reclaim(within(t)))
	if err := <-stepped; !errors.Is(err, lock.ErrFull) {
		t.Errorf("the waiter: %v", err)
	}
	if !rabbit.KeepsToken(next) {
		t.Error("it does not keep the token")
	}
	must(t, next.Release(within(t)))
	must(t, h.Verify(within(t)))
}
