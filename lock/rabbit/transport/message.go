package transport

import (
	"encoding/json"
	"errors"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Message is what berth publishes. Its type is for people who look into a queue. The zero value is a probe.
//
// The body of every message is empty: under a memory or disk alarm the broker reads the properties of a connection's
// first publish, and no body (RabbitMQ 3.10.8).
type Message = amqp.Publishing

// Persistent is the delivery mode of a message that the broker confirms once it is on disk.
const Persistent = amqp.Persistent

// Delivery is a message that was consumed. Its Ack and Nack end with the channel, and their errors say only that it
// has ended.
type Delivery = amqp.Delivery

// contentHeader is the header that has what a message says, as JSON.
const contentHeader = "content"

// NewMessage returns a transient message that says v, which consists of strings and numbers.
func NewMessage(kind string, v any) Message {
	text, _ := json.Marshal(v)
	return Message{Type: kind, Headers: amqp.Table{contentHeader: string(text)}}
}

// Text returns what a message of NewMessage says, as JSON, or "" if it is none.
func Text(d Delivery) string {
	text, _ := d.Headers[contentHeader].(string)
	return text
}

// maxRead is how much is read of what a message says, in bytes. Ours are shorter.
const maxRead = 1 << 10

// Read reads what a message of NewMessage says into v. It fails if it is none, or too long.
func Read(d Delivery, v any) error {
	text := Text(d)
	if len(text) > maxRead {
		return errors.New("its content is longer than any of ours")
	}
	return json.Unmarshal([]byte(text), v)
}
