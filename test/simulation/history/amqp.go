package history

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
)

// Message is one method of AMQP 0-9-1 with what belongs to it, as far as a history tells of it.
type Message struct {
	Channel uint16
	Method  string // such as basic.publish
	Queue   string // or what it was routed by
	Type    string // of a published message
	Content string // what berth's messages say
	Detail  string // what else is worth knowing
}

// String returns the message as a history shows it.
func (m Message) String() string {
	words := []string{fmt.Sprintf("ch%d", m.Channel), m.Method}
	for _, word := range []string{m.Queue, m.Type, m.Content, m.Detail} {
		if word != "" {
			words = append(words, word)
		}
	}
	return strings.Join(words, " ")
}

// letter returns what a queue of a lock is for: A, B, T, W, K or Q, the last word of its name but for a number.
func letter(queue string) string {
	name := queue
	if i := strings.LastIndexByte(queue, '-'); i >= 0 && i+1 < len(queue) && strings.Trim(queue[i+1:], "0123456789") == "" {
		name = queue[:i]
	}
	name = name[strings.LastIndexByte(name, '-')+1:]
	if len(name) != 1 || !strings.Contains("ABTWKQ", name) {
		return "other"
	}
	return name
}

// Step names the message without what differs from one lock, slot and holding to the next.
func (m Message) Step() string {
	of, kind := "", ""
	if m.Queue != "" {
		of = " " + letter(m.Queue)
	}
	if m.Type != "" {
		kind = " " + m.Type
	}
	return m.Method + of + kind
}

var methods = map[[2]uint16]string{
	{10, 10}: "connection.start", {10, 11}: "connection.start-ok", {10, 30}: "connection.tune",
	{10, 31}: "connection.tune-ok", {10, 40}: "connection.open", {10, 41}: "connection.open-ok",
	{10, 50}: "connection.close", {10, 51}: "connection.close-ok", {10, 60}: "connection.blocked",
	{10, 61}: "connection.unblocked", {10, 70}: "connection.update-secret", {10, 71}: "connection.update-secret-ok",
	{20, 10}: "channel.open", {20, 11}: "channel.open-ok", {20, 20}: "channel.flow", {20, 21}: "channel.flow-ok",
	{20, 40}: "channel.close", {20, 41}: "channel.close-ok",
	{50, 10}: "queue.declare", {50, 11}: "queue.declare-ok", {50, 30}: "queue.purge", {50, 31}: "queue.purge-ok",
	{50, 40}: "queue.delete", {50, 41}: "queue.delete-ok",
	{60, 10}: "basic.qos", {60, 11}: "basic.qos-ok", {60, 20}: "basic.consume", {60, 21}: "basic.consume-ok",
	{60, 30}: "basic.cancel", {60, 31}: "basic.cancel-ok", {60, 40}: "basic.publish", {60, 50}: "basic.return",
	{60, 60}: "basic.deliver", {60, 70}: "basic.get", {60, 71}: "basic.get-ok", {60, 72}: "basic.get-empty",
	{60, 80}: "basic.ack", {60, 90}: "basic.reject", {60, 110}: "basic.recover", {60, 120}: "basic.nack",
	{85, 10}: "confirm.select", {85, 11}: "confirm.select-ok",
	{90, 10}: "tx.select", {90, 11}: "tx.select-ok", {90, 20}: "tx.commit", {90, 21}: "tx.commit-ok",
	{90, 30}: "tx.rollback", {90, 31}: "tx.rollback-ok",
}

// Tap reads what one side of a connection sends. Its zero value reads the server's; a client's begins with a header.
type Tap struct {
	Header int  // bytes before the first frame
	Brief  bool // messages have no Detail
	data   []byte
	begun  map[uint16]Message // with content, whose header is to come
}

// Take takes some bytes, which stay as they are, and tells of the messages that are complete with them.
func (t *Tap) Take(data []byte, tell func(Message)) {
	if len(t.data) == 0 {
		t.data = slices.Clip(data)
	} else {
		t.data = append(t.data, data...)
	}
	for t.Header > 0 && len(t.data) > 0 {
		t.Header, t.data = t.Header-1, t.data[1:]
	}
	for len(t.data) >= 7 {
		size := int(binary.BigEndian.Uint32(t.data[3:])) + 8
		if len(t.data) < size {
			break
		}
		frame := t.data[:size]
		t.data = t.data[size:]
		if m, complete := t.frame(frame[0], binary.BigEndian.Uint16(frame[1:]), frame[7:size-1]); complete {
			tell(m)
		}
	}
}

func (t *Tap) frame(kind byte, channel uint16, payload []byte) (Message, bool) {
	switch kind {
	case 1:
		m := t.method(payload)
		m.Channel = channel
		switch m.Method {
		case "basic.publish", "basic.return", "basic.deliver", "basic.get-ok":
			if t.begun == nil {
				t.begun = map[uint16]Message{}
			}
			t.begun[channel] = m
			return m, false
		}
		return m, true
	case 2:
		m := t.begun[channel]
		m.Type, m.Content = properties(payload)
		return m, true
	case 8:
		return Message{Method: "heartbeat"}, true
	}
	return Message{}, false
}

// fields reads the arguments of a method. What is not there is zero.
type fields struct {
	data  []byte
	brief bool // nothing is put in words
}

func (f *fields) take(n int) []byte {
	if n > len(f.data) {
		n = len(f.data)
	}
	taken := f.data[:n]
	f.data = f.data[n:]
	return taken
}

func (f *fields) number(bytes int) (n uint64) {
	for _, b := range f.take(bytes) {
		n = n<<8 | uint64(b)
	}
	return n
}

func (f *fields) short() string { return string(f.take(int(f.number(1)))) }
func (f *fields) long() string  { return string(f.take(int(f.number(4)))) }

// flags returns the names of the bits that are set, the lowest first.
func (f *fields) flags(names ...string) string {
	bits := f.number(1)
	if f.brief {
		return ""
	}
	var set []string
	for i, name := range names {
		if bits>>i&1 == 1 && name != "" {
			set = append(set, name)
		}
	}
	return strings.Join(set, ",")
}

// detail returns what is worth knowing besides.
func (f *fields) detail(format string, args ...any) string {
	if f.brief {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

func (t *Tap) method(payload []byte) (m Message) {
	f := fields{payload, t.Brief}
	id := [2]uint16{uint16(f.number(2)), uint16(f.number(2))}
	m.Method = methods[id]
	if m.Method == "" {
		m.Method = fmt.Sprintf("method %d.%d", id[0], id[1])
	}
	switch m.Method {
	case "queue.declare":
		f.take(2)
		m.Queue, m.Detail = f.short(), f.flags("passive", "durable", "exclusive", "auto-delete", "no-wait")
	case "queue.declare-ok":
		m.Queue = f.short()
		m.Detail = f.detail("%d messages, %d consumers", f.number(4), f.number(4))
	case "queue.delete", "queue.purge":
		f.take(2)
		m.Queue, m.Detail = f.short(), f.flags("if-unused", "if-empty", "no-wait")
	case "basic.consume":
		f.take(2)
		m.Queue = f.short()
		f.short()
		m.Detail = f.flags("", "no-ack", "exclusive", "no-wait")
	case "basic.publish":
		f.take(2)
		f.short()
		m.Queue, m.Detail = f.short(), f.flags("mandatory")
	case "basic.deliver":
		f.short()
		tag := f.number(8)
		again := f.flags("redelivered")
		f.short()
		m.Queue, m.Detail = f.short(), strings.TrimSpace(f.detail("#%d %s", tag, again))
	case "basic.get":
		f.take(2)
		m.Queue = f.short()
	case "basic.get-ok":
		m.Detail = f.detail("#%d", f.number(8))
		f.take(1)
		f.short()
		m.Queue = f.short()
	case "basic.return":
		m.Detail = f.detail("%d", f.number(2))
		f.short()
		f.short()
		m.Queue = f.short()
	case "basic.ack", "basic.nack", "basic.reject":
		tag := f.number(8)
		m.Detail = strings.TrimSpace(f.detail("#%d %s", tag, f.flags("multiple", "requeue")))
	case "connection.close", "channel.close":
		code := f.number(2)
		m.Detail = f.detail("%d %s", code, f.short())
	}
	return m
}

// properties returns the type of a message, and what it says.
func properties(payload []byte) (kind, content string) {
	f := fields{data: payload}
	f.take(12)
	flags := f.number(2)
	for bit := 15; bit >= 5; bit-- {
		if flags>>bit&1 == 0 {
			continue
		}
		switch bit {
		case 13:
			content = said(f.long())
		case 12, 11:
			f.take(1)
		case 6:
			f.take(8)
		case 5:
			kind = f.short()
		default:
			f.short()
		}
	}
	return kind, content
}

// said returns the one string of a table that berth writes.
func said(table string) string {
	f := fields{data: []byte(table)}
	if f.short() == "content" && f.number(1) == 'S' {
		return f.long()
	}
	return ""
}
