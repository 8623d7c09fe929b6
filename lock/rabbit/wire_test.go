package rabbit_test

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"berth/lock"
)

// tap is a proxy in front of the shared broker that notes which AMQP methods
// each client connection sends.
type tap struct {
	listener net.Listener
	running  sync.WaitGroup
	frozen   sync.RWMutex // locked while nothing that clients send is passed on
	allowed  []method     // what clients may send; nil: anything

	mu      sync.Mutex
	sent    []map[method]int // per connection; guarded by mu
	refused []method         // that clients have sent all the same; guarded by mu
	conns   []net.Conn       // guarded by mu
}

// method is a class and a method of AMQP 0-9-1.
type method [2]uint16

var (
	channelOpen  = method{20, 10}
	queueDeclare = method{50, 10}
	basicPublish = method{60, 40}
)

// newTap returns a tap that lets through what is allowed: anything, if nothing is.
func newTap(t *testing.T, allowed ...method) *tap {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	p := &tap{listener: l, allowed: allowed}
	p.running.Go(p.serve)
	t.Cleanup(p.close)
	return p
}

func (p *tap) close() {
	p.listener.Close()
	p.mu.Lock()
	for _, c := range p.conns {
		c.Close()
	}
	p.mu.Unlock()
	p.running.Wait()
}

// reopen has a tap that was closed listen again where it was.
func (p *tap) reopen(t *testing.T) {
	t.Helper()
	l, err := net.Listen("tcp", p.listener.Addr().String())
	must(t, err)
	p.listener = l
	p.running.Go(p.serve)
}

// fail says to all clients, in the broker's place, that it ends their connections because of an error of its own:
// connection.close, which nothing may come between.
func (p *tap) fail(t *testing.T, code uint16) {
	t.Helper()
	const text = "SOME_ERROR"
	payload := binary.BigEndian.AppendUint16([]byte{0, 10, 0, 50}, code)
	payload = append(append(payload, byte(len(text))), text+"\x00\x00\x00\x00"...)
	frame := binary.BigEndian.AppendUint32([]byte{1, 0, 0}, uint32(len(payload)))
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := 0; i < len(p.conns); i += 2 {
		if _, err := p.conns[i].Write(append(append(frame, payload...), 0xCE)); !errors.Is(err, net.ErrClosed) {
			must(t, err)
		}
	}
}

func (p *tap) url() string {
	return strings.Replace(shared.URL(), shared.Addr(), p.listener.Addr().String(), 1)
}

func (p *tap) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", shared.Addr())
		if err != nil {
			client.Close()
			continue
		}
		notes := map[method]int{}
		p.mu.Lock()
		p.sent = append(p.sent, notes)
		p.conns = append(p.conns, client, server)
		p.mu.Unlock()
		p.running.Go(func() {
			_, _ = io.Copy(client, server)
			client.Close()
		})
		p.running.Go(func() {
			p.note(client, server, notes)
			server.Close()
		})
	}
}

// note reads the frames of one client: type, channel, size, payload, end. Each is
// noted before it is passed on, so that nothing is answered that is not.
func (p *tap) note(from io.Reader, to io.Writer, notes map[method]int) {
	r := bufio.NewReader(from)
	if _, err := io.CopyN(to, r, 8); err != nil { // protocol header
		return
	}
	for {
		var header [7]byte
		if _, err := io.ReadFull(r, header[:]); err != nil {
			return
		}
		payload := make([]byte, binary.BigEndian.Uint32(header[3:])+1)
		if _, err := io.ReadFull(r, payload); err != nil {
			return
		}
		if header[0] == 1 {
			m := method{binary.BigEndian.Uint16(payload), binary.BigEndian.Uint16(payload[2:])}
			p.mu.Lock()
			notes[m]++
			refused := p.allowed != nil && !slices.Contains(p.allowed, m)
			if refused {
				p.refused = append(p.refused, m)
			}
			p.mu.Unlock()
			if refused {
				return
			}
		}
		p.frozen.RLock()
		_, err := to.Write(append(header[:], payload...))
		p.frozen.RUnlock()
		if err != nil {
			return
		}
	}
}

// count adds up what all connections that sent the first method sent of the
// second.
func (p *tap) count(who, what method) (conns, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, notes := range p.sent {
		if notes[who] > 0 {
			conns++
			n += notes[what]
		}
	}
	return conns, n
}

// total counts all methods of all connections.
func (p *tap) total() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, notes := range p.sent {
		for _, k := range notes {
			n += k
		}
	}
	return n
}

// A connection that publishes under an alarm is not served any more.
func TestConnectionOfARunningCommandNeverPublishes(t *testing.T) {
	t.Parallel()
	p := newTap(t)
	id := fresh(lock.Mutex)
	h := holdingAs(t, at(p.url()), id)
	published := func() int {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.sent[0][basicPublish]
	}
	before := published()
	must(t, shared.PurgeQueue(within(t), "/", id.Name+"-1-T"))
	must(t, proven(within(t), h)) // its record is written again
	if conns, n := p.count(basicPublish, basicPublish); conns < 2 || n <= before {
		t.Errorf("%d connections published %d messages, %d of them before", conns, n, before)
	}
	if after := published(); after != before {
		t.Errorf("%d messages were published over the connection that holds the slot", after-before)
	}
	connections(t, id, 1) // the other one is closed again
}

func TestHoldersAndWaitersNeedOneConnectionEach(t *testing.T) {
	id := fresh(lock.Mutex)
	holding(t, id, long)
	connections(t, id, 1)
	waiting(t, id)
	awaitBaton(t, id)
	connections(t, id, 2)
	waiting(t, id)
	awaitPlaces(t, id, 2)
	connections(t, id, 3)
}

// connections waits until the broker has so many for the lock.
func connections(t *testing.T, id lock.ID, want int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d connections", want), func() bool {
		all, err := shared.Connections(within(t))
		must(t, err)
		n := 0
		for _, c := range all {
			if strings.Contains(c.ClientName, " "+id.Name+" @") {
				n++
			}
		}
		return n == want
	})
}
