package rabbit

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// message is a message, as it was published.
type message struct {
	key        string
	properties properties
	body       []byte
}

// publication is a message on its way to a queue.
type publication struct {
	*message
	exchange  string
	mandatory bool
	missing   uint64 // of the body; while the header is missing it is 1
	sequence  uint64 // 0: nobody waits for a confirm
	queue     *queue // nil: none; known once it is routed
}

// transaction is what waits for tx.commit.
type transaction struct {
	publications []*publication
	settlements  []settlement
	committing   bool
	failed       bool
}

// directReply begins the names of queues of direct reply-to.
const directReply = "amq.rabbitmq.reply-to"

func (ch *channel) publish(_ method, r *reader) {
	r.u16()
	exchange, key, bits := r.short(), r.short(), r.bits()
	if bits[1] {
		refuse(notImplemented, "immediate=true")
	}
	ch.pending = &publication{message: &message{key: key}, exchange: exchange, mandatory: bits[0]}
}

// header takes the header of a message. Its method is basic.publish.
func (ch *channel) header(payload []byte) {
	if ch.pending == nil {
		refuse(unexpectedFrame, "expected method frame, got content header frame instead")
	}
	r := reader{b: payload}
	r.u32()
	ch.pending.missing = r.u64()
	ch.pending.properties = r.properties()
	if ch.pending.missing == 0 {
		ch.complete()
	}
}

func (ch *channel) body(payload []byte) {
	if ch.pending == nil || uint64(len(payload)) > ch.pending.missing {
		refuse(unexpectedFrame, "expected method frame, got content body frame instead")
	}
	ch.pending.body = append(ch.pending.body, payload...)
	ch.pending.missing -= uint64(len(payload))
	if ch.pending.missing == 0 {
		ch.complete()
	}
}

// complete publishes the message that is complete now.
func (ch *channel) complete() {
	p := ch.pending
	ch.pending = nil
	ch.guard(basicPublish, func() {
		ch.examine(p)
		if ch.confirming || ch.tx != nil {
			ch.sequence++
			p.sequence = ch.sequence
		}
		ch.route(p)
		if ch.tx != nil {
			ch.tx.publications = append(ch.tx.publications, p)
			return
		}
		ch.send(p)
	})
}

// examine refuses a message that may not be published.
func (ch *channel) examine(p *publication) {
	c := ch.cluster
	where := "exchange '" + p.exchange + "' in vhost '/'"
	if p.exchange == "" {
		where = "exchange 'amq.default' in vhost '/'"
	}
	name := p.exchange
	if name == "" {
		name = "amq.default"
	}
	c.permit(ch.conn.user, mayWrite, name, where)
	if p.exchange != "" {
		refuse(notFound, "no %s", where)
	}
	if to, ok := p.properties.text(propReplyTo); ok && to == directReply {
		if ch.replyQueue == "" {
			refuse(preconditionFailed, "fast reply consumer does not exist")
		}
		p.properties.setText(propReplyTo, ch.replyQueue)
	}
	if text, ok := p.properties.text(propExpiration); ok {
		checkExpiration(text)
	}
	if user, ok := p.properties.text(propUserID); ok && user != ch.conn.user && !ch.conn.impersonates {
		refuse(preconditionFailed, "user_id property set to '%s' but authenticated user was '%s'", user, ch.conn.user)
	}
}

// checkExpiration refuses what is no number of milliseconds.
func checkExpiration(text string) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n < 0 {
		refuse(preconditionFailed, "invalid expiration '%s': {value_negative,%d}", text, n)
	}
	digits := len(text) - len(strings.TrimLeft(text, "0123456789"))
	switch {
	case digits == 0:
		refuse(preconditionFailed, "invalid expiration '%s': no_integer", text)
	case digits < len(text):
		refuse(preconditionFailed, "invalid expiration '%s': {leftover_string,%q}", text, text[digits:])
	}
}

// route finds the queue of a message.
func (ch *channel) route(p *publication) {
	if strings.HasPrefix(p.key, directReply+".") {
		return // see send
	}
	if q := ch.node.book.live[p.key]; q != nil {
		p.queue = q
	}
}

// send sends a message to its queue, or returns it.
func (ch *channel) send(p *publication) {
	c := ch.cluster
	if strings.HasPrefix(p.key, directReply+".") {
		if to := c.replies[p.key]; to != nil {
			ch.tell(&to.process, func() { to.deliverReply(p.message) })
		}
		// Before 4.3 no queue is known to have it, and from then on any address that somebody has ever had will do.
		if len(p.key) == len(ch.cluster.address(0)) && c.config.Version >= V4_3 {
			ch.settleConfirm(p.sequence, true)
			return
		}
	}
	if p.queue == nil {
		if p.mandatory {
			ch.bounce(p)
		}
		ch.settleConfirm(p.sequence, true)
		return
	}
	q := p.queue
	if p.sequence > 0 {
		ch.unconfirmed[p.sequence] = q
	}
	ch.meet(q)
	ch.process.send(&q.process, note{
		f:    func() { q.publish(p, ch) },
		lost: func() { ch.after(0, func() { ch.unconfirm(p.sequence, q, false) }) },
	})
}

// bounce returns a message that has no queue.
func (ch *channel) bounce(p *publication) {
	if ch.closing || ch.dead {
		return
	}
	var w writer
	w.u16(noRoute)
	w.short("NO_ROUTE")
	w.short(p.exchange)
	w.short(p.key)
	ch.conn.emit(contentFrames(ch.number, basicReturn, w.b, p.message, ch.conn.frameMax))
}

// unconfirm is told what became of a message in that queue.
func (ch *channel) unconfirm(sequence uint64, q *queue, taken bool) {
	if of, waits := ch.unconfirmed[sequence]; waits && of == q {
		delete(ch.unconfirmed, sequence)
		ch.settleConfirm(sequence, taken)
	}
}

// settleConfirm says what became of a message, once the channel has done what it has to do now.
func (ch *channel) settleConfirm(sequence uint64, taken bool) {
	switch {
	case sequence == 0:
		return
	case ch.tx != nil:
		ch.tx.failed = ch.tx.failed || !taken
		ch.completeTx()
		return
	}
	if len(ch.confirmed)+len(ch.rejected) == 0 {
		ch.soon(ch.sayConfirms)
	}
	if taken {
		ch.confirmed = append(ch.confirmed, sequence)
	} else {
		ch.rejected = append(ch.rejected, sequence)
	}
}

// sayConfirms says all confirms at once: coalesce_and_send in rabbit_channel.erl.
func (ch *channel) sayConfirms() {
	acks, nacks := ch.confirmed, ch.rejected
	ch.confirmed, ch.rejected = nil, nil
	ch.sayAll(basicAck, acks, nacks)
	ch.sayAll(basicNack, nacks, acks)
}

func (ch *channel) sayAll(m method, sequences, others []uint64) {
	if len(sequences) == 0 {
		return
	}
	slices.Sort(sequences)
	cutoff := sequences[len(sequences)-1] + 1
	for sequence := range ch.unconfirmed {
		cutoff = min(cutoff, sequence)
	}
	for _, sequence := range others {
		cutoff = min(cutoff, sequence)
	}
	n, _ := slices.BinarySearch(sequences, cutoff)
	if n > 0 {
		ch.sayConfirm(m, sequences[n-1], m == basicNack || len(sequences) > 1)
	}
	for _, sequence := range sequences[n:] {
		ch.sayConfirm(m, sequence, false)
	}
}

func (ch *channel) sayConfirm(m method, sequence uint64, multiple bool) {
	var w writer
	w.u64(sequence)
	bits := byte(0)
	if multiple {
		bits = 1
	}
	if m == basicNack { // requeue, which is the default
		bits |= 2
	}
	w.u8(bits)
	ch.emit(m, w.b)
}

func (ch *channel) selectConfirms(_ method, r *reader) {
	if ch.tx != nil {
		refuse(preconditionFailed, "cannot switch from tx to confirm mode")
	}
	ch.confirming = true
	if !r.bits()[0] {
		ch.emit(confirmSelectOK, nil)
	}
}

func (ch *channel) selectTx(method, *reader) {
	if ch.confirming {
		refuse(preconditionFailed, "cannot switch from confirm to tx mode")
	}
	if ch.tx == nil {
		ch.tx = &transaction{}
	}
	ch.emit(txSelectOK, nil)
}

func (ch *channel) commit(method, *reader) {
	if ch.tx == nil {
		refuse(preconditionFailed, "channel is not transactional")
	}
	publications, settlements := ch.tx.publications, ch.tx.settlements
	ch.tx.publications, ch.tx.settlements = nil, nil
	for _, p := range publications {
		if ch.cluster.config.Version >= V4_3 && p.queue != nil && p.queue.dead {
			refuse(resourceError, "failed to deliver message: noproc")
		}
		if ch.cluster.config.Version < V4_0 {
			p.queue = nil
			ch.route(p)
		}
		ch.send(p)
	}
	for _, s := range settlements {
		ch.settle(s)
	}
	ch.tx.committing = true
	ch.completeTx()
}

// completeTx answers tx.commit once all has been done.
func (ch *channel) completeTx() {
	if !ch.tx.committing || len(ch.unconfirmed) > 0 {
		return
	}
	failed := ch.tx.failed
	ch.tx = &transaction{}
	if failed {
		ch.guard(txCommit, func() { refuse(preconditionFailed, "partial tx completion") })
		return
	}
	ch.emit(txCommitOK, nil)
}

func (ch *channel) rollback(method, *reader) {
	if ch.tx == nil {
		refuse(preconditionFailed, "channel is not transactional")
	}
	for _, s := range ch.tx.settlements {
		ch.unacked = append(ch.unacked, s.deliveries...)
	}
	slices.SortFunc(ch.unacked, func(a, b *delivery) int { return int(a.tag) - int(b.tag) })
	ch.tx = &transaction{}
	ch.emit(txRollbackOK, nil)
}

// expiry returns when the message expires, as far as it says so.
func (m *message) expiry() (time.Duration, bool) {
	text, ok := m.properties.text(propExpiration)
	if !ok {
		return 0, false
	}
	ms, err := strconv.ParseInt(text, 10, 64)
	return time.Duration(ms) * time.Millisecond, err == nil
}
