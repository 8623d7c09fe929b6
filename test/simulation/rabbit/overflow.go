package rabbit

// rejects reports whether a queue that is full takes no more from that channel. A quorum queue tells channels once it has
// too much, and again when there is room, so that it may have one message more of each.
func (q *queue) rejects(from *channel) bool {
	if !q.quorum {
		return q.limits.rejects && q.limits.length >= 0 && int64(q.length()) >= q.limits.length
	}
	refused, known := q.enqueuers[from]
	if !known {
		if q.enqueuers == nil {
			q.enqueuers = map[*channel]bool{}
		}
		refused = q.limits.rejects && q.tooLong()
		q.enqueuers[from], q.refuses = refused, q.refuses || refused
	}
	return refused
}

func (q *queue) tooLong() bool { return q.limits.length >= 0 && int64(q.length()) > q.limits.length }

// refuseMore has a quorum queue tell channels that it has too much.
func (q *queue) refuseMore() {
	if q.quorum && q.limits.rejects && q.tooLong() {
		q.refuseAll(true)
	}
}

// refuseNoMore has it tell them that there is room again: four fifths of the limit. One that is not to reject any more, but
// has a limit, tells nobody, and channels that it has told go on refusing.
func (q *queue) refuseNoMore() {
	const part, of = 4, 5
	if q.refuses && (q.limits.length < 0 || q.limits.rejects && int64(q.length()) <= q.limits.length*part/of) {
		q.refuseAll(false)
	}
}

func (q *queue) refuseAll(on bool) {
	q.refuses = on
	for ch := range q.enqueuers {
		q.enqueuers[ch] = on
	}
}
