package broker

import "encoding/binary"

// method is a class and a method of AMQP 0-9-1 (https://www.rabbitmq.com/resources/specs/amqp0-9-1.xml).
type method struct{ class, number uint16 }

const connection = 10 // the class of what is sent on channel 0

var (
	start     = method{connection, 10}
	tune      = method{connection, 30}
	openOK    = method{connection, 41}
	closing   = method{connection, 50}
	closeOK   = method{connection, 51}
	blocked   = method{connection, 60}
	unblocked = method{connection, 61}

	channelOpen   = method{20, 10}
	channelClose  = method{20, 40}
	channelClosed = method{20, 41}

	publish  = method{60, 40}
	returned = method{60, 50}
	ack      = method{60, 80}
	nack     = method{60, 120}
)

// numbered is the method with which a payload begins.
func numbered(payload []byte) method {
	return method{binary.BigEndian.Uint16(payload), binary.BigEndian.Uint16(payload[2:])}
}

// login reports whether it belongs to the login.
func (m method) login() bool { return m == start || m == tune || m == openOK }

// ending reports whether it ends a connection, which may be at any time.
func (m method) ending() bool { return m == closing || m == closeOK }

// methods are those that a server sends to a client that declares no exchange.
var methods = map[method]layout{
	start:            "11tll",
	tune:             "242",
	openOK:           "s",
	closing:          "2s22",
	closeOK:          "",
	blocked:          "s",
	unblocked:        "",
	{connection, 71}: "", // update-secret-ok

	{20, 11}:      "l", // channel.open-ok
	{20, 20}:      "1", // flow
	{20, 21}:      "1",
	channelClose:  "2s22",
	channelClosed: "",

	{50, 11}: "s44", // queue.declare-ok
	{50, 31}: "4",   // purge-ok
	{50, 41}: "4",   // delete-ok

	{60, 11}: "",  // basic.qos-ok
	{60, 21}: "s", // consume-ok
	{60, 30}: "s1",
	{60, 31}: "s", // cancel-ok
	returned: "2sss",
	{60, 60}: "s81ss", // deliver
	{60, 71}: "81ss4", // get-ok
	{60, 72}: "s",     // get-empty
	ack:      "81",
	nack:     "81",

	{85, 11}: "", // confirm.select-ok
	{90, 11}: "", // tx.select-ok
	{90, 21}: "", // commit-ok
	{90, 31}: "", // rollback-ok
}
