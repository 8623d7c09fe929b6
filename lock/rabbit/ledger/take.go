package ledger

import (
	"berth/lock/rabbit/names"
	"berth/lock/rabbit/transport"
)

const (
	// maxInHand is how many messages may be in hand while none may be removed, because the own record does not count
	// yet: with more, somebody publishes all the time, and the place is given up. A ledger keeps half as many.
	maxInHand = 2 * int(names.LedgerLength)

	// maxDoubted is how many records that do not count stay in hand once the own record counts. They may be those of
	// holders that live; with so many the ledger says nothing, whatever they are.
	maxDoubted = 3 * names.LedgerFull
)

// request is a message to the reader.
type request struct {
	Request  string `json:"request"`
	Priority int    `json:"priority"`
}

const requestYield = "yield"

// YieldRequest asks the reader, if it has a lower priority, to step back. It is of use for as long as the one
// who asks is fresh in line.
func YieldRequest(priority int) transport.Message {
	m := transport.NewMessage(requestYield, request{Request: requestYield, Priority: priority})
	m.Expiration = "1000" // ms
	return m
}

// take takes what is delivered to the reader. Anybody may have published it: what counts is a record of a
// user of the lock, see Doubt.
func (r *Reader) take(from *transport.Consumer, m transport.Delivery) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.ring()
	r.view.Read++
	record, ok := read(m)
	trusted := r.channel.Conn().Trusts(m.UserId)
	counts := ok && trusted && record.Term <= ceiling()
	doubt := ok && !counts
	switch {
	case r.leaving: // all is put back at once, after which nothing more can be acknowledged
	case r.pruned && (!ok || doubt && r.doubted >= maxDoubted):
		_ = from.Ack(m.DeliveryTag) // what anybody may publish is not to fill the ledger, nor our memory
	case !r.pruned && len(r.inHand) >= maxInHand:
		r.overrun = true // it goes back with the place
	case counts:
		r.inHand = append(r.inHand, letter{tag: m.DeliveryTag, record: record})
	default:
		r.inHand = append(r.inHand, letter{tag: m.DeliveryTag, doubt: doubt})
	}
	switch {
	case counts:
		r.takeRecord(record, m)
	case doubt:
		r.doubted++
		r.view.doubt.add(record, m.UserId, trusted)
		r.view.HolderAlive = r.view.HolderAlive || record.Record == held && r.showsAlive()
	default:
		r.takeOther(m, trusted)
	}
}

// takeRecord takes a record that counts. The caller has mu.
func (r *Reader) takeRecord(record Record, m transport.Delivery) {
	alive := r.showsAlive()
	r.view.add(record)
	if record.Record != held {
		return
	}
	switch {
	case record.ID != r.view.id:
		r.view.HolderAlive = r.view.HolderAlive || r.fresh || alive && !r.view.past(record)
	case record.Term != r.view.own:
	case r.copies != nil:
		r.takeCopy(record, m)
	default:
		r.own = m.DeliveryTag
	}
}

// showsAlive reports whether the record of another holder that comes now shows that it lives. The caller has mu.
func (r *Reader) showsAlive() bool { return r.fresh || r.copies != nil && r.view.own != 0 }

// takeOther takes what is no record. The caller has mu.
func (r *Reader) takeOther(m transport.Delivery, trusted bool) {
	var asks request
	var knocks knock
	switch {
	case trusted && transport.Read(m, &asks) == nil && asks.Request == requestYield:
		r.view.Asked = max(r.view.Asked, asks.Priority)
	case trusted && r.copies != nil && transport.Read(m, &knocks) == nil && knocks.Knock != "":
		r.copies.knocked = r.copies.knocked || knocks.Knock == r.view.id
	case r.handle != nil:
		r.handle(m)
	}
}
