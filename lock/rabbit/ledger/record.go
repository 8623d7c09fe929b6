// Package ledger is what a slot's queue T says of those who held it: records that the next holder reads before it
// starts its command. It knows queues and messages, and nothing of who holds a slot now.
package ledger

import (
	"strings"
	"time"

	"berth/lock/rabbit/transport"
)

// What a record can say.
const (
	held     = "held"
	released = "released"
)

const (
	// MaxLease is the longest that berth can be configured to, 2 x timing.MaxHeartbeat. A holder that does not say
	// may have it.
	MaxLease = 2 * time.Minute

	// maxHandover bounds what a record can make others wait, whichever client wrote it.
	maxHandover = 10 * time.Minute

	// The parts of a record have no more bytes than these. A message that has is none.
	maxHost = 255
	maxID   = 64
)

// Record is one message in a slot's ledger.
type Record struct {
	Record string `json:"record"` // held or released
	Holding

	// Of a holder's record only: for how long after it won B a successor that finds no release has to wait, and who the
	// holder is, for people.
	Handover int64  `json:"handover_ms,omitempty"`
	Host     string `json:"host,omitempty"`
	PID      int    `json:"pid,omitempty"`

	Early bool `json:"early,omitempty"` // of a release: see Holding.Released

	Copy bool `json:"copy,omitempty"` // in a replicated ledger: there is another one, which is not the copy
}

// handover is for how long a record has a successor wait, up to a bound.
func (r Record) handover(bound time.Duration) time.Duration {
	return time.Duration(min(max(r.Handover, 0), bound.Milliseconds())) * time.Millisecond
}

// Holding is one holding of a slot, as records name it. The term alone does not: after a ledger has lost its newest
// record, another holding can have the same.
type Holding struct {
	Term uint64 `json:"term"`
	ID   string `json:"id"` // unlike that of any other holding
}

// Held returns the holder's record of a holding. It says for how long successors have to wait without its release, and
// who it is.
func (h Holding) Held(handover time.Duration, host string, pid int) Record {
	host = strings.ToValidUTF8(host[:min(len(host), maxHost)], "")
	return Record{Record: held, Holding: h, Handover: handover.Milliseconds(), Host: host, PID: pid}
}

// Released returns the message that a holding is over and its tree dead. One that ends early has not seen everybody
// before it end: it says nothing of them, whose records may be lost.
func (h Holding) Released(early bool) transport.Message {
	return Record{Record: released, Holding: h, Early: early}.message()
}

func (r Record) message() transport.Message {
	m := transport.NewMessage(r.Record, r)
	m.DeliveryMode = transport.Persistent
	return m
}

// read returns what a message says, if it looks like a record: anybody may publish.
func read(d transport.Delivery) (Record, bool) {
	var r Record
	if transport.Read(d, &r) != nil || r.Term == 0 || len(r.ID) > maxID || len(r.Host) > maxHost {
		return Record{}, false
	}
	return r, r.Record == held || r.Record == released
}
