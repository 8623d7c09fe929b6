package wire

import (
	"encoding/binary"
	"errors"
	"syscall"

	"berth/internal/boottime"
)

// Message is an Order or an Event. Numbers are written as varints, texts after their
// length: a slot that was won waits for orders, and package encoding/json would first
// have to look at the types of both.
type Message interface {
	appendTo(data []byte) []byte
}

// received is a message that Receive reads.
type received interface {
	parse(data []byte) error
}

var errCut = errors.New("it is cut, or has too much in it")

func (o Order) appendTo(data []byte) []byte {
	data = appendText(data, o.Op)
	data = binary.AppendVarint(data, int64(o.Deadline))
	data = binary.AppendVarint(data, int64(o.Signal))
	data = appendText(data, o.Scope)
	data = appendText(data, o.Will)
	data = binary.AppendVarint(data, bit(o.Last))
	data = binary.AppendVarint(data, bit(o.Beside))
	return appendTexts(data, o.Vars)
}

func (o *Order) parse(data []byte) error {
	p := parser{rest: data}
	*o = Order{
		Op: Op(p.text()), Deadline: boottime.Instant(p.number()), Signal: syscall.Signal(p.number()),
		Scope: Scope(p.text()), Will: p.bytes(), Last: p.number() != 0,
		Beside: p.number() != 0, Vars: p.texts(),
	}
	return p.end()
}

func (e Event) appendTo(data []byte) []byte {
	data = appendText(data, e.Kind)
	for _, n := range []int64{int64(e.Pid), int64(e.Errno), int64(e.Status), bit(e.Left), bit(e.Terminal)} {
		data = binary.AppendVarint(data, n)
	}
	return data
}

func (e *Event) parse(data []byte) error {
	p := parser{rest: data}
	*e = Event{
		Kind: Kind(p.text()), Pid: int(p.number()), Errno: syscall.Errno(p.number()),
		Status: syscall.WaitStatus(p.number()), Left: p.number() != 0, Terminal: p.number() != 0,
	}
	return p.end()
}

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func appendText[T ~string | ~[]byte](data []byte, text T) []byte {
	return append(binary.AppendVarint(data, int64(len(text))), text...)
}

func appendTexts(data []byte, texts []string) []byte {
	data = binary.AppendVarint(data, int64(len(texts)))
	for _, text := range texts {
		data = appendText(data, text)
	}
	return data
}

// parser reads one message. Once it has failed, everything else is zero.
type parser struct {
	rest   []byte
	failed bool
}

func (p *parser) number() int64 {
	n, size := binary.Varint(p.rest)
	if p.failed = p.failed || size <= 0; p.failed {
		return 0
	}
	p.rest = p.rest[size:]
	return n
}

// bytes returns a copy, nil if it is empty.
func (p *parser) bytes() []byte { return append([]byte(nil), p.take()...) }

func (p *parser) text() string { return string(p.take()) }

// texts returns what appendTexts has written, nil if there are none.
func (p *parser) texts() (all []string) {
	for left := p.number(); left > 0 && !p.failed; left-- {
		all = append(all, p.text())
	}
	return all
}

func (p *parser) take() []byte {
	size := p.number()
	if p.failed = p.failed || size < 0 || size > int64(len(p.rest)); p.failed {
		return nil
	}
	taken := p.rest[:size]
	p.rest = p.rest[size:]
	return taken
}

func (p *parser) end() error {
	if p.failed || len(p.rest) > 0 {
		return errCut
	}
	return nil
}
