package broker

import (
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
)

// login wraps a mechanism to do two things that amqp091-go has no setting for.
type login struct {
	amqp.Authentication

	properties amqp.Table // the very table that goes into connection.start-ok
	asked      *bool      // set once the broker has sent connection.start
}

// Response is called after amqp091-go has put its own capabilities into the table and before it is serialised. RabbitMQ
// tells a client that its login was refused only if that client announces authentication_failure_close; otherwise it
// drops the connection, which looks like a network fault (https://www.rabbitmq.com/docs/auth-notification).
func (l *login) Response() string {
	*l.asked = true
	if capabilities, ok := l.properties["capabilities"].(amqp.Table); ok {
		capabilities["authentication_failure_close"] = true
	}
	return l.Authentication.Response()
}

// logins returns what to offer the broker, in order of preference.
func logins(uri amqp.URI, properties amqp.Table, asked *bool) []amqp.Authentication {
	wanted := uri.AuthMechanism
	if len(wanted) == 0 {
		wanted = []string{"plain"}
	}
	var offers []amqp.Authentication
	for _, mechanism := range wanted {
		offers = append(offers, &login{mechanisms(uri)[strings.ToLower(mechanism)], properties, asked})
	}
	return offers
}
