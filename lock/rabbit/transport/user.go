package transport

import (
	"context"
	"regexp"
	"slices"

	amqp "github.com/rabbitmq/amqp091-go"

	"berth/lock/rabbit/broker"
)

// learn sets by which user the broker knows a connection, which it says of what we publish (user-id), and nobody else
// can. Where that is not the user of the URL it is asked once, on a channel that is thrown away: it takes the user from a
// certificate, or from a token that is the password. If it turns out later, at a message that is refused, the next
// connection knows it.
func (d *Dialer) learn(ctx context.Context, c *Conn) {
	url, user := c.node.URL(), d.UserOf(c.node)
	c.user.Store(&user)
	c.learned = func(is string) {
		c.user.Store(&is)
		d.known.Store(url, is)
	}
	if _, known := d.known.Load(url); known || d.Unsigned || !c.node.Anonymous() {
		return
	}
	trial := c.Channel()
	// The name that is tried may be the right one. Errors: without the permission to publish none is needed.
	_, _ = trial.Depart(ctx, Departure{Message: Message{UserId: user + "?"}})
	_ = trial.Close(ctx)
}

// UserOf returns by which user a node knows us, as far as is known.
func (d *Dialer) UserOf(node broker.Node) string {
	if is, ok := d.known.Load(node.URL()); ok {
		return is.(string)
	}
	return node.User()
}

// Own reports whether any of the nodes knows us by this user.
func (d *Dialer) Own(user string) bool {
	return slices.ContainsFunc(d.Brokers, func(node broker.Node) bool { return user == d.UserOf(node) })
}

// trusts is Conn.Trusts.
func (d *Dialer) trusts(user string) bool {
	return user != "" && (d.Own(user) || slices.Contains(d.Users, user))
}

// otherUser is how RabbitMQ refuses a message of another user (check_user_id_header in rabbit_channel.erl).
var otherUser = regexp.MustCompile(`^PRECONDITION_FAILED - user_id property set to '.*' but authenticated user was '(.*)'$`)

// told returns by which user the broker says that it knows us, if it refuses a message for that; "" otherwise. A text
// that it has cut does not say it.
func told(reason *amqp.Error) string {
	if reason == nil || reason.Code != amqp.PreconditionFailed {
		return ""
	}
	if found := otherUser.FindStringSubmatch(broker.OneLine(reason.Reason)); found != nil {
		return found[1]
	}
	return ""
}
