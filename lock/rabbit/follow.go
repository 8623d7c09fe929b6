package rabbit

import (
	"encoding/json"
	"errors"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"berth/lock"
)

// resubscribePause lies between attempts to consume again after the consumer's
// channel was closed. The slot is verified on another channel meanwhile, so
// there is no hurry, only the earlier news of a deletion to regain.
const resubscribePause = 500 * time.Millisecond

// subscription is a consumer of B. It exists for its end: the broker cancels it
// when B is deleted.
type subscription struct {
	queue      string
	deliveries <-chan amqp.Delivery
	cancels    <-chan string // of the channel, which may have had other consumers before
}

// subscribe has no deadline of its own; it ends with the connection. Without
// waiting for the answer, a refusal is the end of the deliveries. The queue's
// name is the consumer's tag.
func subscribe(l *line, queue string, noWait bool) (s subscription, err error) {
	err = l.try(func(ch *amqp.Channel) error {
		s.queue, s.cancels = queue, l.cancels
		s.deliveries, err = ch.Consume(queue, queue, true, true, false, noWait, nil)
		return err
	})
	return s, err
}

// cancelled reports whether the broker ended the consumer, because the queue is
// gone. amqp091-go tells that before it ends the deliveries.
func (s subscription) cancelled() bool {
	for {
		select {
		case tag, open := <-s.cancels:
			if tag == s.queue && open {
				return true
			}
			if !open {
				return false
			}
		default:
			return false
		}
	}
}

// follow reports the loss of the slot as soon as the broker says so. It ends
// with the first loss, the connection, or Release.
func (h *held) follow(s subscription) {
	defer close(h.followed)
	for {
		if deleted, over := h.drain(s); over {
			return
		} else if deleted {
			h.lose("its queue was deleted")
			return
		}
		if h.conn.broken() {
			_ = h.dropped("the connection to " + h.conn.label + " " + h.conn.why())
			return
		}
		// Only the channel was closed. B may still be ours.
		var again bool
		if s, again = h.resubscribe(); !again {
			return
		}
	}
}

// drain reads what comes until nothing can come any more. Probes arrive here,
// empty, and are ignored; requests are taken from our own user only, as the
// broker has checked it.
func (h *held) drain(s subscription) (deleted, over bool) {
	for {
		select {
		case <-h.stop:
			return false, true
		case d, open := <-s.deliveries:
			if open {
				h.heed(d)
				continue
			}
			return s.cancelled(), isClosed(h.stop)
		}
	}
}

// heed passes a request on to whom it concerns. One that nobody waits for is
// dropped: it comes again.
func (h *held) heed(d amqp.Delivery) {
	var r request
	text := read(d)
	if len(text) == 0 || d.UserId == "" || d.UserId != h.conn.user {
		return
	}
	if err := json.Unmarshal(text, &r); err != nil || r.Request != requestReclaim {
		return
	}
	select {
	case h.reclaims <- r.Term:
	default:
	}
}

// resubscribe returns false when there is nothing left to follow.
func (h *held) resubscribe() (subscription, bool) {
	for {
		s, err := subscribe(&h.consumer, h.b, false)
		err = h.conn.explain(consuming(h.b), err)
		switch {
		case err == nil:
			h.l.log.Debug("consuming again", "queue", h.b)
			return s, true
		case errors.Is(err, errNoQueue), errors.Is(err, errTaken):
			h.lose(err.Error())
			return s, false
		case errors.Is(err, lock.ErrUnreachable):
			_ = h.dropped(err.Error())
			return s, false
		}
		again := time.After(resubscribePause)
		if errors.Is(err, lock.ErrDenied) {
			h.l.log.Warn("a deletion of the slot's queue is noticed late, and a slot that was lost cannot be asked back", "error", err)
			again = nil
		} else {
			h.l.log.Debug("cannot consume again", "queue", h.b, "error", err)
		}
		select {
		case <-h.stop:
			return s, false
		case <-h.conn.done:
		case <-again:
		}
	}
}
