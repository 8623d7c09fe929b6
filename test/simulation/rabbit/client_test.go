//go:build simulation

package rabbit

import (
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// world is a broker, real or simulated, in which a case happens, and what was said.
type world struct {
	t        *testing.T
	version  Version
	operator operator
	dial     func(node int) (net.Conn, error)
	quiet    func(seen func() int, expected int) // returns once nothing more is to be expected
	expected []int                               // how many lines each step has to have; nil: not known
	prefix   string                              // of the names of queues

	clients []*client
	steps   [][]string
}

// operator is who looks after a broker.
type operator interface {
	deleteQueue(name string)
	purge(name string)
	crash(name string)
	closeConnection(name string)
	alarm(on bool)
	diskAlarm(on bool)
	timeout(acknowledgement, tick time.Duration)      // for channels that are opened from now on; 0: the usual one
	tag(name, tag string)                             // a user
	policy(pattern string, definition map[string]any) // nil: none any more
	user(name, configure, write, read string)
	restart() // the node
	lose(name string)

	// Of a cluster of three.
	kill(node int)
	start(node int)
	hang(node int)
	resume(node int)
	split(alone int)
	rejoin(alone int)
}

// client is a client that hides nothing of what a broker says.
type client struct {
	w    *world
	name string
	conn net.Conn
	bare bool // it does not log in by itself, and does not answer connection.close

	mu      sync.Mutex
	heard   []string            // guarded by mu
	content string              // what its next message is about; the reader's
	reply   string              // the reply-to of the last message; guarded by mu
	opening map[uint16]bool     // channels that are opened again; the reader's
	waiting map[uint16][]string // where messages went that are not confirmed, "" if they are; guarded by mu
}

// step notes what is done, does it, and notes what is said then.
func (w *world) step(what string, do func()) {
	w.t.Helper()
	do()
	expected := -1
	if n := len(w.steps); n < len(w.expected) {
		expected = w.expected[n]
	}
	w.quiet(func() (n int) {
		for _, c := range w.clients {
			n += c.count()
		}
		return n
	}, expected)
	lines := []string{"> " + what}
	for _, c := range w.clients {
		lines = append(lines, c.take()...)
	}
	for i := range lines {
		lines[i] = w.anonymous(lines[i])
	}
	w.steps = append(w.steps, lines)
}

var generated = regexp.MustCompile(`(amq\.(gen-|ctag-|rabbitmq\.reply-to\.))[-\w.+/=@]+`)

var nodeName = regexp.MustCompile(`(home|on) node '[^']*'`)

// anonymous takes out what is another each time.
func (w *world) anonymous(line string) string {
	if before, _, ok := strings.Cut(line, "failed to deliver message: "); ok {
		return before + "failed to deliver message: X"
	}
	line = nodeName.ReplaceAllString(line, "${1} node X")
	return generated.ReplaceAllString(line, "${1}X")
}

func (w *world) q(name string) string { return w.prefix + "." + name }

func (c *client) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.heard)
}

func (c *client) take() (heard []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	heard, c.heard = c.heard, nil
	// What is said on one channel has no order beside what is said on another one. Nor have confirms, but that a message
	// comes back before its own.
	slices.SortStableFunc(heard, func(a, b string) int {
		first, second := strings.Fields(a), strings.Fields(b)
		if n := strings.Compare(first[0], second[0]); n != 0 {
			return n
		}
		return order(first) - order(second)
	})
	return heard
}

// order puts confirms behind all else, and in their own order.
func order(fields []string) (n int) {
	if what := fields[2]; what == "ack" || what == "nack" {
		n, _ = strconv.Atoi(fields[3])
	}
	return n
}

func (c *client) hear(channel uint16, format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heard = append(c.heard, fmt.Sprintf("  %s%d < %s", c.name, channel, fmt.Sprintf(format, args...)))
}

func (c *client) write(data []byte) { _, _ = c.conn.Write(data) }

func (c *client) send(channel uint16, m method, w writer) { c.write(methodFrame(channel, m, w.b)) }

// loginAs logs in, and opens the channels 1 to 3.
func (w *world) loginAs(name, user, password string, heartbeat int) *client {
	w.t.Helper()
	return w.loginAt(0, name, user, password, heartbeat)
}

// loginAt does so at another node.
func (w *world) loginAt(node int, name, user, password string, heartbeat int) *client {
	w.t.Helper()
	c := w.connect(node, name)
	w.step(name+": log in as "+user, func() {
		go c.read()
		c.write([]byte(protocolHeader))
		c.send(0, connectionStartOK, c.credentials("PLAIN", "\x00"+user+"\x00"+password, true))
		var tune writer
		tune.u16(100)
		tune.u32(frameMax)
		tune.u16(uint16(heartbeat))
		c.send(0, connectionTuneOK, tune)
		var open writer
		open.short("/")
		open.short("")
		open.u8(0)
		c.send(0, connectionOpen, open)
		for channel := range uint16(3) {
			c.open(channel + 1)
		}
	})
	return c
}

const protocolHeader = "AMQP\x00\x00\x09\x01"

// connect connects to a node, and does not say anything.
func (w *world) connect(node int, name string) *client {
	w.t.Helper()
	conn, err := w.dial(node)
	if err != nil {
		w.t.Fatal(err)
	}
	c := &client{w: w, name: name, conn: conn, opening: map[uint16]bool{}, waiting: map[uint16][]string{}}
	w.clients = append(w.clients, c)
	w.t.Cleanup(func() { conn.Close() })
	return c
}

// greet connects, and says hello.
func (w *world) greet(name string) *client {
	w.t.Helper()
	c := w.connect(0, name)
	c.bare = true
	w.step(name+": hello", func() {
		go c.read()
		c.write([]byte(protocolHeader))
	})
	return c
}

// credentials are what connection.start-ok says. told: the client wants to hear that they are refused.
func (c *client) credentials(mechanism, response string, told bool) (w writer) {
	w.table(map[string]any{"connection_name": c.w.prefix + "." + c.name, "capabilities": map[string]any{
		"consumer_cancel_notify": true, "connection.blocked": true, "authentication_failure_close": told,
		"basic.nack": true, "publisher_confirms": true}})
	w.short(mechanism)
	w.long(response)
	w.short("en_US")
	return w
}

func (w *world) login(name string) *client { w.t.Helper(); return w.loginAs(name, "guest", "guest", 0) }

func (c *client) open(channel uint16) {
	var open writer
	open.short("")
	c.send(channel, channelOpen, open)
}

// reopen opens a channel that was closed.
func (c *client) reopen(channel uint16) {
	c.w.t.Helper()
	c.w.step(fmt.Sprintf("%s%d: channel.open", c.name, channel), func() { c.open(channel) })
}

// read notes all that the broker says, and answers what must be answered at once.
func (c *client) read() {
	var in []byte
	buffer := make([]byte, 1<<16)
	for {
		n, err := c.conn.Read(buffer)
		if err != nil {
			c.hear(0, "the end")
			return
		}
		in = append(in, buffer[:n]...)
		for {
			f, rest, ok, broken := cutFrame(in, 1<<20)
			if broken {
				c.hear(0, "no frame: %q", in[:min(8, len(in))])
				return
			}
			if !ok {
				break
			}
			in = rest
			c.frame(f)
		}
	}
}

// confirmed notes which messages are confirmed, each by itself: how many a broker confirms at once is its own affair.
func (c *client) confirmed(channel uint16, m method, r *reader) {
	n, multiple := r.u64(), r.u8()&1 != 0
	c.mu.Lock()
	defer c.mu.Unlock()
	what := "ack"
	if m == basicNack {
		what = "nack"
	}
	sent := c.waiting[channel]
	for i := range sent {
		if sent[i] != "" && (multiple && uint64(i) < n || uint64(i)+1 == n) {
			sent[i] = ""
			c.heard = append(c.heard, fmt.Sprintf("  %s%d < %s %d", c.name, channel, what, i+1))
		}
	}
}

// returned tells of a message that came back only after its confirm.
func (c *client) returned(channel uint16, key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if sent := c.waiting[channel]; len(sent) > 0 && !slices.Contains(sent, key) {
		c.heard = append(c.heard, fmt.Sprintf("  %s%d < too late, a return for %s", c.name, channel, key))
	}
}

func (c *client) frame(f frame) {
	switch f.kind {
	case frameHeader:
		c.header(f)
		return
	case frameBody:
		c.hear(f.channel, "body %q", f.payload)
		return
	case frameHeartbeat:
		return
	}
	r := &reader{b: f.payload}
	m := method(r.u32())
	text := describe(m, r)
	switch m {
	case basicDeliver, basicGetOK, basicReturn:
		if m == basicReturn {
			of := &reader{b: f.payload[6:]}
			of.short()
			of.short()
			c.returned(f.channel, of.short())
		}
		c.content = text
		return
	case connectionTune:
		return
	case connectionStart:
		if !c.bare {
			return
		}
	}
	switch m {
	case basicAck, basicNack:
		c.confirmed(f.channel, m, &reader{b: f.payload[4:]})
		return
	case channelOpenOK:
		if c.opening[f.channel] {
			c.opening[f.channel] = false
			return
		}
	}
	c.hear(f.channel, "%s", text)
	switch m {
	case channelClose: // which is opened again
		c.send(f.channel, channelCloseOK, writer{})
		c.opening[f.channel] = true
		c.mu.Lock()
		delete(c.waiting, f.channel)
		c.mu.Unlock()
		c.open(f.channel)
	case connectionClose:
		if !c.bare {
			c.send(0, connectionCloseOK, writer{})
		}
	}
}

func (c *client) header(f frame) {
	r := &reader{b: f.payload}
	r.u32()
	size, p := r.u64(), r.properties()
	var said []string
	for _, of := range []struct {
		i    int
		what string
	}{{propReplyTo, "reply-to"}, {propUserID, "user-id"}, {propExpiration, "expiration"}} {
		if text, ok := p.text(of.i); ok {
			said = append(said, of.what+"="+text)
		}
	}
	if text, ok := p.text(propReplyTo); ok {
		c.mu.Lock()
		c.reply = text
		c.mu.Unlock()
	}
	if headers := p[propHeaders]; headers != nil {
		of := reader{b: headers}
		t := of.table()
		if v, ok := t["n"]; ok {
			said = append(said, fmt.Sprint(v.v))
		}
	}
	if size > 0 {
		said = append(said, fmt.Sprintf("%d bytes", size))
	}
	c.hear(f.channel, "%s: %s", c.content, strings.Join(said, " "))
}

// describe says what a method of the broker says.
func describe(m method, r *reader) string {
	switch m {
	case connectionClose, channelClose:
		code, text := r.u16(), r.short()
		return fmt.Sprintf("close %d %s (%d.%d)", code, text, r.u16(), r.u16())
	case connectionBlocked:
		return "blocked: " + r.short()
	case connectionStart:
		r.u16()
		r.table()
		offered := strings.Fields(r.long())
		slices.Sort(offered) // each node has an order of its own
		return "start " + strings.Join(offered, " ")
	case queueDeclareOK:
		return fmt.Sprintf("declare-ok %s %d messages %d consumers", r.short(), r.u32(), r.u32())
	case queueDeleteOK, queuePurgeOK:
		return fmt.Sprintf("%s %d", methodNames[m], r.u32())
	case basicConsumeOK, basicCancelOK:
		return fmt.Sprintf("%s %s", methodNames[m], r.short())
	case basicCancel:
		return fmt.Sprintf("cancel %s", r.short())
	case basicDeliver:
		tag, n, again := r.short(), r.u64(), r.u8()
		return fmt.Sprintf("deliver to %s number %d redelivered %d exchange %q key %s", tag, n, again, r.short(), r.short())
	case basicGetOK:
		n, again, exchange, key := r.u64(), r.u8(), r.short(), r.short()
		return fmt.Sprintf("get-ok number %d redelivered %d exchange %q key %s, %d left", n, again, exchange, key, r.u32())
	case basicReturn:
		code, text := r.u16(), r.short()
		return fmt.Sprintf("return %d %s exchange %q key %s", code, text, r.short(), r.short())
	case basicAck, basicNack:
		return fmt.Sprintf("%s %d multiple %d", methodNames[m], r.u64(), r.u8())
	}
	if name := methodNames[m]; name != "" {
		return name
	}
	return fmt.Sprintf("method %d.%d", m.class(), m.number())
}

var methodNames = map[method]string{connectionOpenOK: "open-ok", connectionCloseOK: "close-ok",
	connectionUnblocked: "unblocked", connectionUpdateSecretOK: "update-secret-ok", channelOpenOK: "open-ok",
	channelFlowOK: "flow-ok", channelCloseOK: "close-ok", queuePurgeOK: "purge-ok", queueDeleteOK: "delete-ok",
	basicQosOK: "qos-ok", basicConsumeOK: "consume-ok", basicCancelOK: "cancel-ok", basicGetEmpty: "get-empty",
	basicAck: "ack", basicNack: "nack", confirmSelectOK: "confirm.select-ok", txSelectOK: "tx.select-ok",
	txCommitOK: "tx.commit-ok", txRollbackOK: "tx.rollback-ok"}

// sleep lets time pass.
func (w *world) sleep(d time.Duration) {
	w.t.Helper()
	w.step("wait "+d.String(), func() { time.Sleep(d) })
}
