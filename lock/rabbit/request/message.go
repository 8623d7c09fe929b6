// Package request is what others ask of a contender over the broker, and what it answers: the messages, who may ask,
// and the connection for answers. It does not know what a request does.
package request

import (
	"encoding/json"
	"strings"

	"berth/lock"
	"berth/lock/rabbit/transport"
)

const (
	// ReplyTo is the queue that a client consumes from, on the channel that it asks on: the broker gives each message
	// of that channel an address for its answer instead (https://www.rabbitmq.com/docs/direct-reply-to).
	ReplyTo = "amq.rabbitmq.reply-to"

	// maxRequest and maxAnswer are in bytes. A header has to fit in one frame, which RabbitMQ bounds to 128 KiB.
	maxRequest = 256
	maxAnswer  = 16 << 10
)

// content is what a request says.
type content struct {
	Request lock.Verb `json:"request"`
}

// Message returns a request. The answer has the id. It is for a consumer that the queue has now: the broker does not
// keep it.
func Message(verb lock.Verb, id string) transport.Message {
	m := transport.NewMessage(string(verb), content{verb})
	m.ReplyTo, m.CorrelationId, m.Expiration = ReplyTo, id, "0"
	return m
}

// read returns what a message asks. Anybody may publish.
func read(d transport.Delivery) (verb lock.Verb, ok bool) {
	text := transport.Text(d)
	var c content
	if len(text) > maxRequest || json.Unmarshal([]byte(text), &c) != nil {
		return "", false
	}
	return c.Request, c.Request.Known()
}

// answerable reports whether an answer to the message goes to the client that asked, and not to a queue of its choice.
func answerable(d transport.Delivery) bool {
	return d.ReplyTo == "" || strings.HasPrefix(d.ReplyTo, ReplyTo+".")
}

// answerTo returns the message that answers.
func answerTo(id string, answer []byte) transport.Message {
	m := transport.NewMessage("answer", json.RawMessage(answer))
	m.CorrelationId = id
	return m
}

// Answer returns the id and the text of an answer, if a message is one. Anybody may answer.
func Answer(d transport.Delivery) (id string, answer []byte, ok bool) {
	text := transport.Text(d)
	ok = d.CorrelationId != "" && text != "" && len(text) <= maxAnswer
	return d.CorrelationId, []byte(text), ok
}
