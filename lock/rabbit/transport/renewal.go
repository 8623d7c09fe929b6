package transport

import (
	"cmp"
	"context"
	"time"

	"berth/lock/rabbit/broker"
)

// renewalPause is how often an open connection looks whether its password is another by now. Who renews a token does so
// minutes before it expires.
const renewalPause = 5 * time.Second

// maxRenewalPause is how often at least a password is tried that the broker has refused.
const maxRenewalPause = time.Minute

// login returns how to log in at a node now.
func (d *Dialer) login(node broker.Node) broker.Node {
	now, err := d.Logins.Read(node)
	if err != nil {
		d.Log.Warn("cannot read the broker's login again; the last one is used", "error", err)
	}
	return now
}

// renew gives the broker the connection's new password each time that it changes, until the connection ends. A token
// of OAuth 2 expires, and the broker then refuses everything on a connection that it leaves open. Other passwords count
// at the login only; RabbitMQ takes them all the same.
//
// RabbitMQ closes a connection whose new password it refuses (rabbit_reader, connection.update_secret). So a login with it
// is tried first: what somebody has written by mistake costs nobody a slot.
func (d *Dialer) renew(c *Conn, used broker.Node) {
	pause := cmp.Or(d.Renewal, renewalPause)
	refused, wait := "", pause
	for c.Sleep(context.Background(), wait, "another password") == nil && !c.Broken() {
		now := d.login(c.node)
		if now.Password() == used.Password() || now.User() != used.User() { // another user is for the next connection
			wait = pause
			continue
		}
		err := d.tryOut(c, now)
		switch {
		case err == nil:
			if d.updateSecret(c, now.Password()) == nil {
				used, wait = now, pause
			}
		case IsClosed(c.done):
		case now.Password() == refused:
			wait = min(2*wait, maxRenewalPause)
		default:
			d.Log.Warn("the broker does not take the new password; this connection goes on with the last one", "broker",
				c.Label(), "error", err)
			refused, wait = now.Password(), pause
		}
	}
}

// tryOut logs in and leaves again. It gives up when c ends.
func (d *Dialer) tryOut(c *Conn, login broker.Node) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-c.done:
			cancel()
		case <-ctx.Done():
		}
	}()
	trial, err := d.open(ctx, c.node, login, "renewal")
	if err != nil {
		return err
	}
	trial.Close()
	return nil
}

// updateSecret sends the new password. It waits for the answer for as long as the connection is there, which
// heartbeats see to, and says so when that takes long; a second call, such as Close, would take the answer of the
// first.
func (d *Dialer) updateSecret(c *Conn, password string) error {
	c.calling.Lock()
	defer c.calling.Unlock()
	late := time.AfterFunc(operationTimeout, func() {
		d.Log.Warn("the broker has not answered yet whether it takes the new password", "broker", c.Label())
	})
	defer late.Stop()
	err := c.amqp.UpdateSecret(password, "renewed")
	if err == nil {
		d.Log.Info("the broker has taken the new password", "broker", c.Label())
	}
	return err
}

// renewable reports whether the broker knows how to renew a password: RabbitMQ since 3.8. A broker that does not may end
// the connection.
func (c *Conn) renewable() bool { return c.Says("product") == "RabbitMQ" && c.Since(3, 8) }
