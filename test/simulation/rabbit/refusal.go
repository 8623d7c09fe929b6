package rabbit

import (
	"fmt"
	"math"
)

// refusal is what RabbitMQ calls an exception: it closes a channel, or the connection. A channel's handlers panic with
// one, so that nothing after it happens.
type refusal struct {
	code  int
	text  string
	of    method // that was refused; 0: none
	blunt bool   // nothing but the code is said
}

// refuse ends the method that is handled.
func refuse(code int, format string, args ...any) {
	panic(&refusal{code: code, text: fmt.Sprintf(format, args...)})
}

// hard reports whether it closes the connection.
func (r *refusal) hard() bool { return r.code == connectionForced || r.code >= frameError }

// explanation is the reply text, which is cut where it is too long for a short string (amqp_exception_explanation in
// rabbit_binary_generator.erl).
func (r *refusal) explanation() string {
	const cut = 252
	text := codeNames[r.code] + " - " + r.text
	if r.blunt {
		text = codeNames[r.code]
	}
	if len(text) > math.MaxUint8 {
		return text[:cut] + "..."
	}
	return text
}

// frame returns the frame that closes the channel, or the connection where that is 0.
func (r *refusal) frame(channel uint16) []byte {
	var w writer
	w.u16(uint16(r.code))
	w.short(r.explanation())
	w.u16(r.of.class())
	w.u16(r.of.number())
	closes := channelClose
	if channel == 0 {
		closes = connectionClose
	}
	return methodFrame(channel, closes, w.b)
}

// methodFrame returns a frame with a method.
func methodFrame(channel uint16, m method, arguments []byte) []byte {
	var payload, w writer
	payload.u32(uint32(m))
	payload.b = append(payload.b, arguments...)
	w.frame(frameMethod, channel, payload.b)
	return w.b
}

// contentFrames returns the frames of a method with a message.
func contentFrames(channel uint16, m method, arguments []byte, message *message, most uint32) []byte {
	w := writer{methodFrame(channel, m, arguments)}
	var header writer
	header.u16(m.class())
	header.u16(0)
	header.u64(uint64(len(message.body)))
	header.properties(message.properties)
	w.frame(frameHeader, channel, header.b)
	for body := message.body; len(body) > 0; {
		n := min(len(body), int(most)-frameRest)
		w.frame(frameBody, channel, body[:n])
		body = body[n:]
	}
	return w.b
}
