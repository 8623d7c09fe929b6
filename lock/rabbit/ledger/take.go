package ledger

import (
	"berth/lock/rabbit/names"
	"berth/lock/rabbit/transport"
)

const (
	// mostInHand is how many messages may be in hand while none may be removed, because the own record does not count
	// yet: with more, somebody publishes all the time, and the place is given up. A ledger keeps half as many.
	mostInHand = 2 * int(names.LedgerLength)

	// mostDoubted is how many records that do not count stay in hand once the own record counts. They may be those of
	// holders that live; with so many the ledger says nothing, whatever they are.
	mostDoubted = 3 * names.LedgerFull
)

// request is a message to who stands at the door.
type request struct {
	Request  string `json:"request"`
	Priority int    `json:"priority"`
}

const requestYield = "yield"

// YieldRequest asks who stands at a door and has a lower priority to step back. It is of use for as long as the one
// who asks is fresh in line.
func YieldRequest(priority int) transport.Message {
	m := transport.NewMessage(requestYield, request{Request: requestYield, Priority: priority})
	m.Expiration = "1000" // ms
	return m
}

// take takes what is delivered to who stands at the door. Anybody may have published it: what counts is a record of a
// user of the lock, see Doubt.
func (d *Door) take(from *transport.Consumer, m transport.Delivery) {
	d.mu.Lock()
	defer d.mu.Unlock()
	defer d.ring()
	d.view.Read++
	record, ok := read(m)
	trusted := d.channel.Conn().Trusts(m.UserId)
	counts := ok && trusted && record.Term <= ceiling()
	doubt := ok && !counts
	switch {
	case d.leaving: // all is put back at once, after which nothing more can be acknowledged
	case d.pruned && (!ok || doubt && d.doubted >= mostDoubted):
		_ = from.Ack(m.DeliveryTag) // what anybody may publish is not to fill the ledger, nor our memory
	case !d.pruned && len(d.inHand) >= mostInHand:
		d.overrun = true // it goes back with the place
	case counts:
		d.inHand = append(d.inHand, letter{tag: m.DeliveryTag, record: record})
	default:
		d.inHand = append(d.inHand, letter{tag: m.DeliveryTag, doubt: doubt})
	}
	switch {
	case counts:
		d.takeRecord(record, m)
	case doubt:
		d.doubted++
		d.view.doubt.add(record, m.UserId, trusted)
		d.view.Echoed = d.view.Echoed || record.Record == held && d.echoes()
	default:
		d.takeOther(m, trusted)
	}
}

// takeRecord takes a record that counts. The caller has mu.
func (d *Door) takeRecord(record Record, m transport.Delivery) {
	echoes := d.echoes()
	d.view.add(record)
	if record.Record != held {
		return
	}
	switch {
	case record.ID != d.view.id:
		d.view.Echoed = d.view.Echoed || d.fresh || echoes && !d.view.past(record)
	case record.Term != d.view.own:
	case d.copies != nil:
		d.takeCopy(record, m)
	default:
		d.own = m.DeliveryTag
	}
}

// echoes reports whether the record of another holder that comes now shows that it lives. The caller has mu.
func (d *Door) echoes() bool { return d.fresh || d.copies != nil && d.view.own != 0 }

// takeOther takes what is no record. The caller has mu.
func (d *Door) takeOther(m transport.Delivery, trusted bool) {
	var asks request
	var knocks knock
	switch {
	case trusted && transport.Read(m, &asks) == nil && asks.Request == requestYield:
		d.view.Asked = max(d.view.Asked, asks.Priority)
	case trusted && d.copies != nil && transport.Read(m, &knocks) == nil && knocks.Knock != "":
		d.copies.knocked = d.copies.knocked || knocks.Knock == d.view.id
	case d.heed != nil:
		d.heed(m)
	}
}
