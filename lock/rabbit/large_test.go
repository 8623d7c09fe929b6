package rabbit_test

import (
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"berth/lock"
)

// largestHeaders are properties that just fit in a frame of 128 KiB when they are published.
func largestHeaders() amqp.Table {
	const others = 14 + 4 + 1 + len("x") + 1 + 4 // the header of the message, and the lengths that are sent with it
	return amqp.Table{"x": strings.Repeat("x", 128<<10-8-others)}
}

// A client that may publish must not be able to end the connection of a holder, or of the successor: neither by a body
// that is large, nor by properties that the broker adds to.
func TestLargeMessagesOfAStrangerEndNoConnection(t *testing.T) {
	t.Parallel()
	id := fresh(lock.Mutex)
	_, h := holding(t, id, long)
	next := refused(t, at(shared.URL()), id)
	woken := untilWoken(t, next)
	awaitSuccessor(t, id)
	ch := outsider(t)
	must(t, ch.Confirm(false))
	for _, queue := range []string{id.Name + "-1-B", id.Name + "-1-T"} {
		// What expires in it goes on to the holder's, with one header more.
		through := queue + " through"
		_, err := ch.QueueDeclare(through, false, false, true, false,
			amqp.Table{"x-message-ttl": int32(1), "x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue})
		must(t, err)
		for to, m := range map[string]amqp.Publishing{
			through: {Headers: largestHeaders()},
			queue:   {Body: make([]byte, 16<<20)},
		} {
			confirm, err := ch.PublishWithDeferredConfirm("", to, false, false, m)
			must(t, err)
			_, err = confirm.WaitContext(within(t))
			must(t, err)
		}
		eventually(t, "it has gone on", func() bool {
			q, err := ch.QueueDeclarePassive(through, false, false, true, false, nil)
			must(t, err)
			return q.Messages == 0
		})
	}
	must(t, h.Verify(within(t)))
	connections(t, id, 2)
	must(t, h.Release(within(t)))
	must(t, <-woken)
}
