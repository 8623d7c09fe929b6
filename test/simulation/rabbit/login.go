package rabbit

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"
)

// greet reads the protocol's header; false: it is not all there, or is another protocol's.
func (o *connection) greet() bool {
	const header = "AMQP\x00\x00\x09\x01"
	if len(o.in) < len(header) {
		return false
	}
	if !bytes.HasPrefix(o.in, []byte(header)) {
		o.emit([]byte(header))
		o.finish()
		return false
	}
	o.in = o.in[len(header):]
	o.phase = starting
	var w writer
	w.u8(0)
	w.u8(9)
	w.table(map[string]any{
		"product": "RabbitMQ", "version": o.cluster.config.Version.String(), "platform": "Erlang/OTP, simulated",
		"cluster_name": "simulated",
		"capabilities": map[string]any{"publisher_confirms": true, "exchange_exchange_bindings": true, "basic.nack": true,
			"consumer_cancel_notify": true, "connection.blocked": true, "consumer_priorities": true,
			"authentication_failure_close": true, "per_consumer_qos": true, "direct_reply_to": true},
	})
	w.long(o.cluster.mechanisms())
	w.long("en_US")
	o.emitMethod(connectionStart, w.b)
	return true
}

// control handles a method of the connection.
func (o *connection) control(m method, r *reader) {
	switch {
	case o.phase == refused:
	case o.phase == closing && m == connectionCloseOK:
		o.finish()
	case m == connectionClose:
		o.closed()
	case o.phase == closing:
	case m == connectionStartOK && o.phase == starting:
		o.login(r)
	case m == connectionTuneOK && o.phase == tuning:
		o.tuned(r)
	case m == connectionOpen && o.phase == opening:
		o.opened(r)
	case m == connectionUpdateSecret && o.phase == running:
		o.emitMethod(connectionUpdateSecretOK, nil)
	default:
		o.fail(&refusal{code: commandInvalid, text: fmt.Sprintf("unexpected method %d.%d", m.class(), m.number()), of: m})
	}
}

// closed handles connection.close of the client.
func (o *connection) closed() {
	if o.phase == closing { // both sides do it
		o.emitMethod(connectionCloseOK, nil)
		return
	}
	o.phase = closing
	o.leave(func() { // it is the client that closes the socket
		o.emitMethod(connectionCloseOK, nil)
		o.after(closingTimeout, o.finish)
	})
}

func (o *connection) login(r *reader) {
	client := r.table()
	mechanism, response := r.short(), r.long()
	o.capabilities, _ = client["capabilities"].v.(table)
	o.name, _ = client["connection_name"].v.(string)
	parts := strings.Split(response, "\x00")
	user, known := "", false
	switch offered := slices.Contains(strings.Fields(o.cluster.mechanisms()), mechanism); {
	case !offered, mechanism == "PLAIN" && len(parts) != 3:
		o.fail(&refusal{code: commandInvalid, text: "invalid authentication mechanism '" + mechanism + "'"})
		return
	case mechanism == "PLAIN":
		user = parts[1]
		password, exists := o.cluster.passwords[user]
		known = exists && password == parts[2]
	case mechanism == "ANONYMOUS":
		user, known = "guest", true
	}
	if !known {
		o.denyLogin(mechanism)
		return
	}
	o.user, o.impersonates = user, slices.Contains(o.cluster.tags[user], "impersonator")
	o.phase = tuning
	var w writer
	w.u16(2047)
	w.u32(frameMax)
	w.u16(uint16(o.cluster.config.Heartbeat / time.Second))
	o.emitMethod(connectionTune, w.b)
}

// mechanisms are those that a client may log in by: no EXTERNAL, which takes a plugin and TLS.
func (c *Cluster) mechanisms() string {
	switch c.config.Version {
	case V4_0:
		return "AMQPLAIN PLAIN ANONYMOUS"
	case V4_3:
		return "ANONYMOUS AMQPLAIN PLAIN"
	}
	return "AMQPLAIN PLAIN"
}

// denyLogin tells a client that wants to know, and closes the socket after a while, or once that one has answered.
func (o *connection) denyLogin(mechanism string) {
	if told, _ := o.capabilities["authentication_failure_close"].v.(bool); told {
		text := "Login was refused using authentication mechanism " + mechanism +
			". For details see the broker logfile."
		o.emit((&refusal{code: accessRefused, text: text}).frame(0))
		o.phase = closing
	} else {
		o.phase = refused
	}
	o.after(silentDelay, o.finish)
}

func (o *connection) tuned(r *reader) {
	r.u16()
	o.frameMax = r.u32()
	o.heartbeat = time.Duration(r.u16()) * time.Second
	if o.frameMax == 0 || o.frameMax > frameMax {
		o.frameMax = frameMax
	}
	o.phase = opening
	o.beat()
}

func (o *connection) opened(r *reader) {
	vhost := r.short()
	var refused string
	switch {
	case vhost != "/":
		refused = fmt.Sprintf("vhost %s not found", vhost)
	case o.cluster.rights[o.user] == nil:
		refused = fmt.Sprintf("access to vhost '%s' refused for user '%s'", vhost, o.user)
	}
	o.phase = running
	if refused != "" {
		o.fail(&refusal{code: notAllowed, text: refused, of: connectionOpen})
		return
	}
	var w writer
	w.short("")
	o.emitMethod(connectionOpenOK, w.b)
	o.cluster.log("connection %d (%s): user %s, heartbeat %s, on node %d", o.id, o.name, o.user, o.heartbeat, o.node.id)
}
