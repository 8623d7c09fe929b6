package rabbit

import (
	"encoding/binary"
	"maps"
	"math"
	"slices"
)

// What frames have in them, and how they end.
const (
	frameMethod    = 1
	frameHeader    = 2
	frameBody      = 3
	frameHeartbeat = 8
	frameEnd       = 0xCE

	frameMax  = 128 << 10 // what RabbitMQ allows unless it is told otherwise
	frameRest = 8         // by how much a frame is longer than its payload
)

// frame is a frame that was read.
type frame struct {
	kind    byte
	channel uint16
	payload []byte
}

// cutFrame returns the first frame of what was read, and what follows it. ok is false if it is not all there yet, broken
// if it is no frame.
func cutFrame(data []byte, most uint32) (f frame, rest []byte, ok, broken bool) {
	if len(data) < 7 {
		return f, data, false, false
	}
	size := binary.BigEndian.Uint32(data[3:])
	if size > most {
		return f, data, false, true
	}
	end := 7 + int(size)
	if len(data) <= end {
		return f, data, false, false
	}
	f = frame{data[0], binary.BigEndian.Uint16(data[1:]), data[7:end]}
	return f, data[end+1:], true, data[end] != frameEnd
}

// writer makes the arguments of a method, and frames. The zero value is empty.
type writer struct{ b []byte }

func (w *writer) u8(v byte)    { w.b = append(w.b, v) }
func (w *writer) u16(v uint16) { w.b = binary.BigEndian.AppendUint16(w.b, v) }
func (w *writer) u32(v uint32) { w.b = binary.BigEndian.AppendUint32(w.b, v) }
func (w *writer) u64(v uint64) { w.b = binary.BigEndian.AppendUint64(w.b, v) }

func (w *writer) flag(v bool) {
	if v {
		w.u8(1)
	} else {
		w.u8(0)
	}
}

func (w *writer) short(v string) {
	v = v[:min(len(v), math.MaxUint8)]
	w.u8(byte(len(v)))
	w.b = append(w.b, v...)
}

func (w *writer) long(v string) {
	w.u32(uint32(len(v)))
	w.b = append(w.b, v...)
}

// table writes a table of strings, integers, booleans and tables.
func (w *writer) table(t map[string]any) {
	var of writer
	for _, key := range slices.Sorted(maps.Keys(t)) {
		of.short(key)
		switch v := t[key].(type) {
		case bool:
			of.u8('t')
			of.flag(v)
		case int64:
			of.u8('l')
			of.u64(uint64(v))
		case string:
			of.u8('S')
			of.long(v)
		case map[string]any:
			of.u8('F')
			of.table(v)
		}
	}
	w.long(string(of.b))
}

// frame appends a frame.
func (w *writer) frame(kind byte, channel uint16, payload []byte) {
	w.u8(kind)
	w.u16(channel)
	w.u32(uint32(len(payload)))
	w.b = append(w.b, payload...)
	w.u8(frameEnd)
}

// reader reads the arguments of a method. What is missing is zero, and noted.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n int) []byte {
	if n > len(r.b) || n < 0 {
		r.b, r.bad = nil, true
		return make([]byte, 8)
	}
	taken := r.b[:n]
	r.b = r.b[n:]
	return taken
}

func (r *reader) u8() byte      { return r.take(1)[0] }
func (r *reader) u16() uint16   { return binary.BigEndian.Uint16(r.take(2)) }
func (r *reader) u32() uint32   { return binary.BigEndian.Uint32(r.take(4)) }
func (r *reader) u64() uint64   { return binary.BigEndian.Uint64(r.take(8)) }
func (r *reader) short() string { return r.text(int(r.u8())) }
func (r *reader) long() string  { return r.text(int(r.u32())) }

func (r *reader) text(n int) string {
	text := r.take(n)
	if r.bad {
		return ""
	}
	return string(text)
}

// bits reads the flags of one octet.
func (r *reader) bits() (flags [8]bool) {
	v := r.u8()
	for i := range flags {
		flags[i] = v&(1<<i) != 0
	}
	return flags
}

// value is a value of a table. Integers are int64, whatever their length.
type value struct {
	kind string // what RabbitMQ calls it
	v    any    // int64, bool, string, table, or nil for what is only skipped
}

type table map[string]value

func (r *reader) table() table {
	of, t := reader{b: []byte(r.long())}, table{}
	for len(of.b) > 0 && !of.bad {
		key := of.short()
		t[key] = of.value()
	}
	r.bad = r.bad || of.bad
	return t
}

func (r *reader) value() value {
	switch kind := r.u8(); kind {
	case 't':
		return value{"bool", r.u8() != 0}
	case 'b':
		return value{"byte", int64(int8(r.u8()))}
	case 'B':
		return value{"unsignedbyte", int64(r.u8())}
	case 's':
		return value{"short", int64(int16(r.u16()))}
	case 'u':
		return value{"unsignedshort", int64(r.u16())}
	case 'I':
		return value{"signedint", int64(int32(r.u32()))}
	case 'i':
		return value{"unsignedint", int64(r.u32())}
	case 'l', 'L':
		return value{"long", int64(r.u64())}
	case 'T':
		return value{"timestamp", int64(r.u64())}
	case 'S':
		return value{"longstr", r.long()}
	case 'x':
		return value{"binary", r.long()}
	case 'F':
		return value{"table", r.table()}
	case 'A':
		return value{"array", r.long()}
	case 'V':
		return value{"void", nil}
	case 'f':
		return value{"float", int64(r.u32())}
	case 'd':
		return value{"double", int64(r.u64())}
	case 'D':
		return value{"decimal", string(r.take(5))}
	}
	r.bad = true
	return value{}
}

// The properties of a message, in the order of their flags.
const (
	propHeaders       = 2
	propDeliveryMode  = 3
	propReplyTo       = 6
	propExpiration    = 7
	propUserID        = 11
	propertiesLayout  = "sst11ssss8ssss"
	propertiesHighest = 15 // the bit of the first
)

// properties are the properties of a message as they are on the wire; nil: it has none of that.
type properties [len(propertiesLayout)][]byte

func (r *reader) properties() (p properties) {
	flags := r.u16()
	for i := range propertiesLayout {
		if flags&(1<<(propertiesHighest-i)) == 0 {
			continue
		}
		before := r.b
		switch propertiesLayout[i] {
		case 's':
			r.short()
		case 't':
			r.table()
		case '1':
			r.u8()
		case '8':
			r.u64()
		}
		p[i] = slices.Clone(before[:len(before)-len(r.b)])
	}
	return p
}

func (w *writer) properties(p properties) {
	var flags uint16
	for i := range p {
		if p[i] != nil {
			flags |= 1 << (propertiesHighest - i)
		}
	}
	w.u16(flags)
	for i := range p {
		w.b = append(w.b, p[i]...)
	}
}

// text returns a property that is a short string, and whether there is one.
func (p *properties) text(i int) (string, bool) {
	if p[i] == nil {
		return "", false
	}
	return string(p[i][1:]), true
}

func (p *properties) setText(i int, text string) {
	var w writer
	w.short(text)
	p[i] = w.b
}

// persistent reports whether the message is to survive a restart.
func (p *properties) persistent() bool {
	return p[propDeliveryMode] != nil && p[propDeliveryMode][0] == 2
}
