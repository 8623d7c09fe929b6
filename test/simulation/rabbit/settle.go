package rabbit

// outcome is what the client wants of messages that it had.
type outcome int

const (
	acked outcome = iota
	requeued
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
	ch.settleLater(settlement{putBack(bits[1]), ch.collect(tag, bits[0])})
}

func (ch *channel) reject(_ method, r *reader) {
	tag, requeue := r.u64(), r.bits()[0]
	ch.settleLater(settlement{putBack(requeue), ch.collect(tag, false)})
}

func putBack(requeue bool) outcome {
	if requeue {
		return requeued
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

// settle tells the queues, each of all of its own at once.
func (ch *channel) settle(s settlement) {
	var queues []*queue
	entries := map[*queue][]*entry{}
	for _, d := range s.deliveries {
		if entries[d.queue] == nil {
			queues = append(queues, d.queue)
		}
		entries[d.queue] = append(entries[d.queue], d.entry)
	}
	for _, q := range queues {
		ch.tell(&q.process, func() { q.settle(ch, s.outcome, entries[q]) })
	}
}
