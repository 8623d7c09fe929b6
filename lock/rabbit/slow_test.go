package rabbit_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/hashicorp/go-hclog"
	amqp "github.com/rabbitmq/amqp091-go"

	"berth/lock"
)

// slowLeader has the leader of a quorum queue stand still now and then, until the test ends, for longer than a broker
// waits that is asked what the queue has.
func slowLeader(t *testing.T, queue string) {
	t.Helper()
	_, err := shared.Eval(within(t), fmt.Sprintf(`{ok, Q} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"/">>, queue, <<%q>>)),
		Leader = amqqueue:get_pid(Q), Self = self(),
		spawn(fun() ->
			register(slow_leader, self()), Self ! slow,
			(fun Go() ->
				sys:suspend(Leader), timer:sleep(400), sys:resume(Leader),
				receive stop -> unregister(slow_leader) after 100 -> Go() end
			end)()
		end),
		receive slow -> ok end.`, queue))
	must(t, err)
	t.Cleanup(func() {
		_, err := shared.Eval(within(t), `slow_leader ! stop, (fun Go() ->
			case whereis(slow_leader) of undefined -> ok; _ -> timer:sleep(10), Go() end end)().`)
		must(t, err)
	})
}

// A broker answers a look at the ledger with neither messages nor consumers then.
func TestSlowLeaderBringsNobodyIntoDoubt(t *testing.T) {
	t.Parallel()
	id := replicated(t, 1)
	_, h := startedIn(t, id)
	publish(t, id.Name+"-Q", amqp.Publishing{Headers: amqp.Table{"slot": int32(1)}})
	slowLeader(t, ledgerOf(id))
	for range 5 {
		other := connected(t, shared, id)
		if _, err := other.Acquire(within(t)); !errors.Is(err, lock.ErrFull) && !errors.Is(err, lock.ErrUnknown) {
			t.Errorf("beside the holder: %v", err)
		}
		must(t, h.Verify(within(t)))
		other.Close()
	}
	must(t, h.Release(within(t)))
}

// Its node may be cut off from those that have the ledger.
func TestReplicatedSlotIsReclaimedOverAnotherNodeThanTheOneThatIsSilent(t *testing.T) {
	t.Parallel()
	id := replicated(t, 1)
	network, silent := newLate(t)
	cfg, said := journal()
	cfg.Log.SetLevel(hclog.Debug)
	cfg.URLs, cfg.Heartbeat = []string{silent, shared.URL()}, long
	h := startedAt(t, backend(t, cfg), id)
	awaitCompared(t, said)
	won := untilHeld(t, connected(t, shared, id))
	network.hold(false)
	must(t, proven(within(t), h))
	notHeld(t, won)
	must(t, h.Release(within(t)))
	must(t, wonBy(t, won).Release(within(t)))
}
