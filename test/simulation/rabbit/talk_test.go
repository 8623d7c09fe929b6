//go:build simulation

package rabbit

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// args are arguments of a queue or a consumer: int64, string, bool.
type args map[string]any

func (a args) String() string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(a)) {
		all = append(all, fmt.Sprintf("%s=%v", key, a[key]))
	}
	return strings.Join(all, " ")
}

// The arguments that berth gives its queues.
var (
	empty  = args{"x-queue-type": "classic", "x-max-length": int64(0), "x-overflow": "drop-head"}
	ledger = args{"x-queue-type": "classic", "x-max-length": int64(100), "x-overflow": "drop-head"}
)

// said says which of the words are among the options.
func flags(options string, words ...string) (bits byte) {
	for i, word := range words {
		if word != "" && slices.Contains(strings.Fields(options), word) {
			bits |= 1 << i
		}
	}
	return bits
}

// do sends a method, as a step.
func (c *client) do(channel uint16, m method, what string, w writer) {
	c.w.t.Helper()
	c.w.step(fmt.Sprintf("%s%d: %s", c.name, channel, what), func() { c.send(channel, m, w) })
}

func (c *client) declaration(name, options string, a args) writer {
	var w writer
	w.u16(0)
	w.short(name)
	w.u8(flags(options, "passive", "durable", "exclusive", "auto-delete", "no-wait"))
	w.table(a)
	return w
}

// declare declares a queue; options are passive, durable, exclusive, auto-delete, no-wait.
func (c *client) declare(channel uint16, name, options string, a args) {
	c.w.t.Helper()
	c.do(channel, queueDeclare, strings.TrimSpace(fmt.Sprintf("declare %s %s %s", name, options, a)),
		c.declaration(name, options, a))
}

func (c *client) look(channel uint16, name string) {
	c.w.t.Helper()
	c.declare(channel, name, "passive", nil)
}

// delete deletes a queue; options are if-unused, if-empty, no-wait.
func (c *client) delete(channel uint16, name, options string) {
	c.w.t.Helper()
	var w writer
	w.u16(0)
	w.short(name)
	w.u8(flags(options, "if-unused", "if-empty", "no-wait"))
	c.do(channel, queueDelete, strings.TrimSpace("delete "+name+" "+options), w)
}

func (c *client) purge(channel uint16, name string) {
	c.w.t.Helper()
	var w writer
	w.u16(0)
	w.short(name)
	w.u8(0)
	c.do(channel, queuePurge, "purge "+name, w)
}

// letter is what is published. number is its header n.
type letter struct {
	number                  int
	key, options            string // options: mandatory, persistent, immediate
	expiration, user, reply string
	body                    string
	exchange                string
}

func (c *client) letter(channel uint16, l letter) []byte {
	c.mu.Lock()
	if c.waiting[channel] != nil {
		c.waiting[channel] = append(c.waiting[channel], l.key)
	}
	c.mu.Unlock()
	var w, header writer
	w.u16(0)
	w.short(l.exchange)
	w.short(l.key)
	w.u8(flags(l.options, "mandatory", "immediate"))
	out := methodFrame(channel, basicPublish, w.b)
	var p properties
	if l.number > 0 {
		var t writer
		t.table(map[string]any{"n": int64(l.number)})
		p[propHeaders] = t.b
	}
	if flags(l.options, "persistent") > 0 {
		p[propDeliveryMode] = []byte{2}
	}
	for i, text := range map[int]string{propExpiration: l.expiration, propUserID: l.user, propReplyTo: l.reply} {
		if text != "" {
			p.setText(i, text)
		}
	}
	header.u16(60)
	header.u16(0)
	header.u64(uint64(len(l.body)))
	header.properties(p)
	all := writer{out}
	all.frame(frameHeader, channel, header.b)
	if l.body != "" {
		all.frame(frameBody, channel, []byte(l.body))
	}
	return all.b
}

// publish publishes messages in one write.
func (c *client) publish(channel uint16, letters ...letter) {
	c.w.t.Helper()
	var out []byte
	var what []string
	for _, l := range letters {
		out = append(out, c.letter(channel, l)...)
		what = append(what, strings.Join(strings.Fields(fmt.Sprintf("%s %d %s %s %s %s %s %s", l.exchange, l.number, l.key,
			l.options, l.expiration, l.user, l.reply, l.body)), " "))
	}
	c.w.step(fmt.Sprintf("%s%d: publish %s", c.name, channel, strings.Join(what, ", ")), func() { c.write(out) })
}

func (c *client) consumption(queue, tag, options string, a args) writer {
	var w writer
	w.u16(0)
	w.short(queue)
	w.short(tag)
	w.u8(flags(options, "no-local", "no-ack", "exclusive", "no-wait"))
	w.table(a)
	return w
}

// consume consumes; options are no-ack, exclusive, no-wait.
func (c *client) consume(channel uint16, queue, tag, options string, a args) {
	c.w.t.Helper()
	c.do(channel, basicConsume, strings.TrimSpace(fmt.Sprintf("consume %s as %s %s %s", queue, tag, options, a)),
		c.consumption(queue, tag, options, a))
}

func (c *client) cancel(channel uint16, tag, options string) {
	c.w.t.Helper()
	var w writer
	w.short(tag)
	w.u8(flags(options, "no-wait"))
	c.do(channel, basicCancel, strings.TrimSpace("cancel "+tag+" "+options), w)
}

func (c *client) get(channel uint16, queue, options string) {
	c.w.t.Helper()
	var w writer
	w.u16(0)
	w.short(queue)
	w.u8(flags(options, "no-ack"))
	c.do(channel, basicGet, strings.TrimSpace("get "+queue+" "+options), w)
}

func (c *client) qos(channel, count uint16) {
	c.w.t.Helper()
	var w writer
	w.u32(0)
	w.u16(count)
	w.u8(0)
	c.do(channel, basicQos, fmt.Sprintf("qos %d", count), w)
}

func (c *client) settling(m method, tag uint64, options string) writer {
	var w writer
	w.u64(tag)
	if m == basicReject {
		w.u8(flags(options, "requeue"))
	} else {
		w.u8(flags(options, "multiple", "requeue"))
	}
	return w
}

func (c *client) ack(channel uint16, tag uint64, options string) {
	c.w.t.Helper()
	c.do(channel, basicAck, strings.TrimSpace(fmt.Sprintf("ack %d %s", tag, options)), c.settling(basicAck, tag, options))
}

func (c *client) nack(channel uint16, tag uint64, options string) {
	c.w.t.Helper()
	c.do(channel, basicNack, strings.TrimSpace(fmt.Sprintf("nack %d %s", tag, options)), c.settling(basicNack, tag, options))
}

func (c *client) reject(channel uint16, tag uint64, options string) {
	c.w.t.Helper()
	c.do(channel, basicReject, strings.TrimSpace(fmt.Sprintf("reject %d %s", tag, options)),
		c.settling(basicReject, tag, options))
}

func (c *client) confirms(channel uint16) {
	c.w.t.Helper()
	c.mu.Lock()
	c.waiting[channel] = []string{}
	c.mu.Unlock()
	c.do(channel, confirmSelect, "confirm.select", writer{[]byte{0}})
}

func (c *client) tx(channel uint16, m method) {
	c.w.t.Helper()
	names := map[method]string{txSelect: "tx.select", txCommit: "tx.commit", txRollback: "tx.rollback"}
	c.do(channel, m, names[m], writer{})
}

func (c *client) closeChannel(channel uint16) {
	c.w.t.Helper()
	var w writer
	w.u16(200)
	w.short("")
	w.u32(0)
	c.do(channel, channelClose, "channel.close", w)
}

func (c *client) close() {
	c.w.t.Helper()
	var w writer
	w.u16(200)
	w.short("")
	w.u32(0)
	c.do(0, connectionClose, "connection.close", w)
}

// cut ends the connection as a dead host does that a router speaks for.
func (c *client) cut() {
	c.w.t.Helper()
	c.w.step(c.name+": the socket is cut", func() {
		if tcp, ok := c.conn.(interface{ SetLinger(int) error }); ok {
			_ = tcp.SetLinger(0)
		}
		c.conn.Close()
	})
}

// beat has a client send heartbeats for so long, as a step.
func (c *client) beat(every, during time.Duration) {
	c.w.t.Helper()
	c.w.step(fmt.Sprintf("%s: heartbeats each %s for %s", c.name, every, during), func() {
		var w writer
		w.frame(frameHeartbeat, 0, nil)
		for end := time.Now().Add(during); time.Now().Before(end); time.Sleep(every) {
			c.write(w.b)
		}
	})
}
