package rabbit

import (
	"fmt"
	"maps"
	"slices"
)

// outcome is what the client wants of messages that it had.
type outcome int

const (
	acked    outcome = iota
	requeued         // by basic.nack
	failed           // requeued otherwise
	dropped
)

// settlement is what becomes of some deliveries, in the order of their tags.
type settlement struct {
	outcome    outcome
	deliveries []*delivery
}

func (ch *channel) ack(_ method, r *reader) {
	tag, multiple := r.u64(), r.bits()[0]
	ch.settleLater(settlement{acked, ch.collect(tag, multiple)})
}

func (ch *channel) nack(_ method, r *reader) {
	tag, bits := r.u64(), r.bits()
	ch.settleLater(settlement{putBack(bits[1], requeued), ch.collect(tag, bits[0])})
}

func (ch *channel) reject(_ method, r *reader) {
	tag, requeue := r.u64(), r.bits()[0]
	ch.settleLater(settlement{putBack(requeue, failed), ch.collect(tag, false)})
}

func putBack(requeue bool, as outcome) outcome {
	if requeue {
		return as
	}
	return dropped
}

// settleLater settles now, or with the transaction.
func (ch *channel) settleLater(s settlement) {
	if ch.tx != nil {
		ch.tx.settlements = append(ch.tx.settlements, s)
		return
	}
	ch.settle(s)
}

// collect takes the deliveries with that tag, or up to it, from those that are unacknowledged.
func (ch *channel) collect(tag uint64, multiple bool) (taken []*delivery) {
	if tag == 0 && multiple {
		taken, ch.unacked = ch.unacked, nil
		return taken
	}
	var left []*delivery
	found := false
	for _, d := range ch.unacked {
		if d.tag == tag || multiple && d.tag < tag {
			taken = append(taken, d)
		} else {
			left = append(left, d)
		}
		found = found || d.tag == tag
	}
	if !found {
		refuse(preconditionFailed, "unknown delivery tag %d", tag)
	}
	ch.unacked = left
	return taken
}

// settle tells the queues.
func (ch *channel) settle(s settlement) {
	groups := map[string][]*delivery{}
	for _, d := range s.deliveries {
		groups[d.group()] = append(groups[d.group()], d)
	}
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		q := groups[name][0].queue
		var hands []hand
		for _, d := range groups[name] {
			hands = append(hands, d.hand)
		}
		ch.tell(&q.process, func() { q.settle(ch, s.outcome, hands) })
	}
}

// group names deliveries that a queue is told of together, and in which order: by queue and consumer, and what was got
// each by itself (foreach_per_queue in rabbit_channel.erl).
func (d *delivery) group() string {
	if d.consumer == nil {
		return fmt.Sprintf("%s\x00%020d", d.queue.name, d.tag)
	}
	return d.queue.name + "\x01" + d.consumer.tag
}
