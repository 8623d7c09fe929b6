package transport

import (
	"context"
	"regexp"
	"slices"

	amqp "github.com/rabbitmq/amqp091-go"

	"berth/lock/rabbit/broker"
)

// identity is what a login says of who we are: another password is no other user.
type identity struct{ node, user, mechanism string }

func identityOf(node, login broker.Node) identity {
	return identity{node.URL(), login.User(), login.Login()}
}

// learn sets by which user the broker knows a connection, which it says of what we publish (user-id), and nobody else
// can. Where that is not the user of the URL it is asked once, on a channel that is thrown away: it takes the user from a
// certificate, or from a token that is the password. If it turns out later, at a message that is refused, the next
// connection knows it.
func (d *Dialer) learn(ctx context.Context, c *Conn, login broker.Node) {
	key := identityOf(c.node, login)
	user := d.as(key)
	c.user.Store(&user)
	c.learned = func(is string) {
		c.user.Store(&is)
		d.known.Store(key, is)
	}
	if !login.Anonymous() {
		d.known.LoadOrStore(key, user)
	}
	if _, known := d.known.Load(key); known || d.Unsigned {
		return
	}
	trial := c.Channel()
	// The name that is tried may be the right one. Errors: without the permission to publish none is needed.
	_, _ = trial.Publish(ctx, Batch{Message: Message{UserId: user + "?"}})
	_ = trial.Close(ctx)
}

// as returns by which user a broker knows who logs in like that, as far as is known.
func (d *Dialer) as(who identity) string {
	if is, ok := d.known.Load(who); ok {
		return is.(string)
	}
	return who.user
}

// UserOf returns by which user a node knows us, as far as is known.
func (d *Dialer) UserOf(node broker.Node) string { return d.as(identityOf(node, d.Logins.Last(node))) }

// Own reports whether any of the nodes knows us by this user, or has since this process began: a login may have changed
// since a record was written.
func (d *Dialer) Own(user string) (own bool) {
	d.known.Range(func(_, is any) bool {
		own = is == user
		return !own
	})
	return own || slices.ContainsFunc(d.Brokers, func(node broker.Node) bool { return user == d.UserOf(node) })
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
