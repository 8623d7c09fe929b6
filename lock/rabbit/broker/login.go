package broker

import amqp "github.com/rabbitmq/amqp091-go"

// login wraps a mechanism to do what amqp091-go has no setting for.
type login struct {
	amqp.Authentication

	properties amqp.Table // the very table that goes into connection.start-ok
}

// Response is called after amqp091-go has put its own capabilities into the table and before it is serialised. RabbitMQ
// tells a client that its login was refused only if that client announces authentication_failure_close; otherwise it
// drops the connection, which looks like a network fault (https://www.rabbitmq.com/docs/auth-notification).
func (l *login) Response() string {
	if capabilities, ok := l.properties["capabilities"].(amqp.Table); ok {
		capabilities["authentication_failure_close"] = true
	}
	return l.Authentication.Response()
}
