package rabbit_test

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
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

	mu    sync.Mutex
	sent  []map[method]int // per connection; guarded by mu
	conns []net.Conn       // guarded by mu
}

// method is a class and a method of AMQP 0-9-1.
type method [2]uint16

var (
	channelOpen  = method{20, 10}
	queueDeclare = method{50, 10}
	queueDelete  = method{50, 40}
	basicConsume = method{60, 20}
	basicPublish = method{60, 40}
)

func newTap(t *testing.T) *tap {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	p := &tap{listener: l}
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
			p.mu.Lock()
			notes[method{binary.BigEndian.Uint16(payload), binary.BigEndian.Uint16(payload[2:])}]++
			p.mu.Unlock()
		}
		if _, err := to.Write(append(header[:], payload...)); err != nil {
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

func TestConnectionThatOwnsQueuesNeverPublishes(t *testing.T) {
	p := newTap(t)
	id := fresh(lock.Semaphore)
	b := backend(t, at(p.url()))
	a := b.Administrator(id)
	_, _, err := a.Resize(within(t), 3, func(int) (int, error) { return 1, nil })
	must(t, err)
	for range 2 {
		l := b.Lock(id)
		must(t, l.Connect(within(t)))
		h, err := l.Acquire(within(t))
		must(t, err)
		must(t, h.Verify(within(t)))
		if _, err := connectedAcquire(t, id); !errors.Is(err, lock.ErrFull) {
			t.Errorf("a second holder: %v", err)
		}
		must(t, h.Release(within(t)))
		must(t, l.Close())
	}
	_, _, err = a.Resize(within(t), 3, func(int) (int, error) { return 0, nil })
	must(t, err)
	p.close()
	for _, owning := range []method{queueDeclare, queueDelete, basicConsume} {
		if conns, n := p.count(owning, basicPublish); conns == 0 || n != 0 {
			t.Errorf("%d connections that sent %v published %d times", conns, owning, n)
		}
	}
	if conns, n := p.count(basicPublish, basicPublish); conns < 2 || n < 4 {
		t.Errorf("%d publishers published %d times", conns, n)
	}
}

func TestMutexIsClaimedWithoutAProbe(t *testing.T) {
	p := newTap(t)
	l := backend(t, at(p.url())).Lock(fresh(lock.Mutex))
	must(t, l.Connect(within(t)))
	h, err := l.Acquire(within(t))
	must(t, err)
	if conns, _ := p.count(basicPublish, basicPublish); conns != 0 {
		t.Errorf("%d connections published", conns)
	}
	must(t, h.Release(within(t)))
	must(t, l.Close())
	p.close()
}
