package measure

import (
	"encoding/binary"
	"maps"
	"sync"
)

// Method is something that a client or the broker says in a frame of its own, by
// the names of AMQP 0-9-1. Those that nobody asks for have no name here.
type Method string

// What clients say. A declaration is one of three: it asks whether a queue is there,
// makes one of the connection's own, or any other.
const (
	ConnectionOpen   Method = "connection.open"
	ChannelOpen      Method = "channel.open"
	DeclarePassive   Method = "queue.declare, passive"
	DeclareExclusive Method = "queue.declare, exclusive"
	DeclareOther     Method = "queue.declare"
	QueueDelete      Method = "queue.delete"
	Consume          Method = "basic.consume"
	Publish          Method = "basic.publish"
	Get              Method = "basic.get"
	Ack              Method = "basic.ack"
	Reject           Method = "basic.reject"
	Nack             Method = "basic.nack"
)

// What the broker says.
const (
	Deliver Method = "basic.deliver"
	GetOK   Method = "basic.get-ok"
	Return  Method = "basic.return"
)

// methodID is a class and a method as a frame of methods begins with them.
type methodID struct{ class, method uint16 }

var declare = methodID{50, 10}

// The names of what comes from clients and from the broker.
var (
	asked = map[methodID]Method{
		{10, 40}: ConnectionOpen, {20, 10}: ChannelOpen, declare: DeclareOther, {50, 40}: QueueDelete,
		{60, 20}: Consume, {60, 40}: Publish, {60, 70}: Get, {60, 80}: Ack, {60, 90}: Reject, {60, 120}: Nack,
	}
	answered = map[methodID]Method{{60, 50}: Return, {60, 60}: Deliver, {60, 71}: GetOK}
)

// maxMethod is how much of a frame has to be known to name its method: the longest
// is queue.declare up to its flags, which follow the queue's name.
const maxMethod = 4 + 2 + 1 + 255 + 1

// The flags of queue.declare.
const (
	passive   = 1 << 0
	exclusive = 1 << 2
)

// nameOf returns the name of a frame's method, "" for one that has none.
func nameOf(payload []byte, names map[methodID]Method) Method {
	if len(payload) < 4 {
		return ""
	}
	id := methodID{binary.BigEndian.Uint16(payload), binary.BigEndian.Uint16(payload[2:])}
	const length = 6 // where that of the queue's name stands, in queue.declare
	if id != declare || len(payload) <= length {
		return names[id]
	}
	at := length + 1 + int(payload[length])
	switch {
	case at >= len(payload):
		return ""
	case payload[at]&passive != 0:
		return DeclarePassive
	case payload[at]&exclusive != 0:
		return DeclareExclusive
	}
	return DeclareOther
}

// methodCounts is how often each method came. The zero value is empty.
type methodCounts struct {
	mu     sync.Mutex
	counts map[Method]int
}

func (m *methodCounts) add(name Method) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.counts == nil {
		m.counts = map[Method]int{}
	}
	m.counts[name]++
}

// copyTo adds everything to a map.
func (m *methodCounts) copyTo(all map[Method]int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.Copy(all, m.counts)
}
