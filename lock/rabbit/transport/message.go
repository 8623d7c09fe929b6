package transport

import (
	"encoding/json"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Message is what berth publishes. The zero value is a probe.
//
// The body of every message is empty: under a memory or disk alarm the broker reads a connection's first publish up
// to the end of its properties, and not its body, so that a message with a body is not complete until the alarm is
// over (RabbitMQ 3.10.8).
type Message struct {
	Kind       string // for people who look into a queue
	Headers    map[string]any
	UserID     string // the broker checks that it is the sender's; "": not given
	Persistent bool   // the broker confirms it once it is on disk

	Expires time.Duration // from the queue, where nobody takes it; 0: never
}

// Delivery is a message that was consumed. Its Ack and Nack end with the channel, and their errors say only that it
// has ended.
type Delivery = amqp.Delivery

// contentHeader is the header that has what a message says, as JSON.
const contentHeader = "content"

// NewMessage returns a transient message that says v, which JSON can encode.
func NewMessage(kind string, v any) (Message, error) {
	text, err := json.Marshal(v)
	return Message{Kind: kind, Headers: map[string]any{contentHeader: string(text)}}, err
}

// Content returns what a message of NewMessage says, nothing if it is none.
func Content(d Delivery) []byte {
	text, _ := d.Headers[contentHeader].(string)
	return []byte(text)
}

func (m Message) publishing() amqp.Publishing {
	p := amqp.Publishing{Type: m.Kind, Headers: m.Headers, UserId: m.UserID}
	if m.Persistent {
		p.DeliveryMode = amqp.Persistent
	}
	if m.Expires > 0 {
		p.Expiration = strconv.FormatInt(m.Expires.Milliseconds(), 10)
	}
	return p
}
