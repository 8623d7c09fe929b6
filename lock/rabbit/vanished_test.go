package rabbit_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"berth/lock"
	"berth/lock/rabbit"
)

// vanishings put something in the place of a B that is gone without its holder
// having been told: the holder's question is then answered with 404 or with 405.
var vanishings = map[string]func(t *testing.T, b string){
	"nothing":           func(*testing.T, string) {},
	"somebody else's B": func(t *testing.T, b string) { another(t, b) },
}

// eachVanishing has B of the first slot vanish, once it is told to.
func eachVanishing(t *testing.T, test func(t *testing.T, id lock.ID, vanish func())) {
	for found, put := range vanishings {
		t.Run(found, func(t *testing.T) {
			eachKind(t, func(t *testing.T, id lock.ID) {
				b := of(id, "1-B")
				test(t, id, func() {
					t.Helper()
					awaitConsumer(t, b)
					must(t, shared.ForgetQueue(within(t), "/", b))
					put(t, b)
				})
			})
		})
	}
}

// awaitConsumer waits until the holder would be told of a deletion: it does not
// wait for that itself.
func awaitConsumer(t *testing.T, queue string) {
	t.Helper()
	eventually(t, queue+" is consumed from", func() bool {
		q, _, err := shared.Queue(within(t), "/", queue)
		must(t, err)
		return q.Consumers == 1
	})
}

// awaitSuccessor waits until there is a successor for the first slot.
func awaitSuccessor(t *testing.T, id lock.ID) {
	t.Helper()
	awaitConsumer(t, of(id, "1-T"))
}

// untold makes sure that the holder has not noticed anything by itself.
func untold(t *testing.T, h lock.Held) {
	t.Helper()
	select {
	case <-h.Lost():
		t.Fatalf("the holder was told before it asked: %v", h.Cause())
	default:
	}
}

func TestVerifyFindsOutThatItsQueueIsNotItsOwnAnyMore(t *testing.T) {
	t.Parallel()
	eachVanishing(t, func(t *testing.T, id lock.ID, vanish func()) {
		_, h := holding(t, id, long)
		must(t, proven(within(t), h))
		vanish()
		untold(t, h)
		if err := proven(within(t), h); !errors.Is(err, lock.ErrLost) {
			t.Fatalf("verifying: %v", err)
		}
		if err := lost(t, h); !errors.Is(err, lock.ErrLost) {
			t.Errorf("cause: %v", err)
		}
	})
}

// Somebody else may have claimed B since, and have run its command.
func TestCommandDoesNotStartAfterItsQueueHasVanished(t *testing.T) {
	t.Parallel()
	eachVanishing(t, func(t *testing.T, id lock.ID, vanish func()) {
		if id.Kind.Administered() {
			resize(t, shared, id, 1) // or the slot that needs no wait is taken
		}
		l, last := holding(t, id, long)
		must(t, last.Release(within(t)))
		must(t, l.Close())
		publish(t, of(id, "1-T"), heldBy(last.Term()+1, time.Second))
		_, h := claimed(t, id, long)
		vanish()
		untold(t, h)
		if err := h.Ready(within(t)); !errors.Is(err, lock.ErrLost) {
			t.Errorf("Ready: %v", err)
		}
		must(t, h.Release(within(t)))
	})
}

// A newcomer that waits for a holder, loses its queue without being told, and so
// gives up, has run nothing: what it says must not be taken for the end of the
// holder.
func TestNewcomerThatRanNothingDoesNotReleaseTheHolder(t *testing.T) {
	t.Parallel()
	id := fresh(lock.Mutex)
	_, h := holding(t, id, time.Second)
	rabbit.CutConnection(h)
	_, newcomer := claimed(t, id, time.Second)
	ready := make(chan error, 1)
	go func() { ready <- newcomer.Ready(within(t)) }()
	awaitConsumer(t, of(id, "1-B"))
	must(t, shared.ForgetQueue(within(t), "/", of(id, "1-B")))
	if err := <-ready; !errors.Is(err, lock.ErrLost) {
		t.Fatalf("the newcomer is ready: %v", err)
	}
	must(t, newcomer.Release(within(t)))
	_, next := claimed(t, id, long)
	waits(t, next)
}

// RabbitMQ starts the process of a queue again that has crashed, with its owner, and tells its consumer that it is gone.
func TestQueueWhoseProcessHasCrashedIsNotLost(t *testing.T) {
	t.Parallel()
	id := fresh(lock.Mutex)
	_, h := holding(t, id, long)
	b := of(id, "1-B")
	for range 3 {
		_, err := shared.Eval(within(t), fmt.Sprintf(`{ok, Queue} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"/">>, queue, <<"%s">>)),
			exit(amqqueue:get_pid(Queue), kill).`, b))
		must(t, err)
		eventually(t, "it is consumed from again", func() bool {
			q, found, err := shared.Queue(within(t), "/", b)
			return err == nil && found && q.Consumers == 1
		})
		must(t, h.Cause())
		must(t, h.Verify(within(t)))
	}
	must(t, shared.DeleteQueue(within(t), "/", b))
	if err := lost(t, h); !errors.Is(err, lock.ErrLost) {
		t.Errorf("a deletion is told as %v", err)
	}
}
