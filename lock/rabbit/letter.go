package rabbit

import (
	"encoding/json"

	amqp "github.com/rabbitmq/amqp091-go"
)

// contentHeader is the header that has what a message says, as JSON.
//
// The body of every message is empty: under a memory or disk alarm the broker
// reads a connection's first publish up to the end of its properties, and not its
// body, so that a message with a body is not complete until the alarm is over
// (RabbitMQ 3.10.8).
const contentHeader = "content"

// letter returns a message without a body that says v.
func letter(kind string, v any) (amqp.Publishing, error) {
	text, err := json.Marshal(v)
	return amqp.Publishing{Type: kind, Headers: amqp.Table{contentHeader: string(text)}}, err
}

// read returns what a message says, nothing if it is none of ours.
func read(d amqp.Delivery) []byte {
	text, _ := d.Headers[contentHeader].(string)
	return []byte(text)
}
