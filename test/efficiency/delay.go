package main

import (
	"net"
	"net/url"
	"sync"
	"time"
)

// delay is a relay that hands on everything late, in both directions. What takes longer
// by it was waited for. Its zero value is not usable: see newDelay.
type delay struct {
	listener net.Listener
	broker   *url.URL
	by       time.Duration // each way
	running  sync.WaitGroup

	mu    sync.Mutex
	conns []net.Conn // guarded by mu
	over  bool       // guarded by mu
}

// newDelay starts a relay on a free port of 127.0.0.1 to the broker of an amqp:// URL that
// has a port. The caller calls close.
func newDelay(broker string, by time.Duration) (*delay, error) {
	u, err := url.Parse(broker)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d := &delay{listener: l, broker: u, by: by}
	d.running.Go(d.accept)
	return d, nil
}

// url is the broker's, through the relay.
func (d *delay) url() string {
	u := *d.broker
	u.Host = d.listener.Addr().String()
	return u.String()
}

// close cuts every connection and returns when nothing of the relay is left.
func (d *delay) close() {
	d.listener.Close()
	d.mu.Lock()
	d.over = true
	for _, c := range d.conns {
		c.Close()
	}
	d.mu.Unlock()
	d.running.Wait()
}

func (d *delay) accept() {
	for {
		client, err := d.listener.Accept()
		if err != nil {
			return // closed
		}
		broker, err := net.DialTimeout("tcp", d.broker.Host, patience)
		if err != nil {
			client.Close() // who waits for an answer says so
			continue
		}
		d.mu.Lock()
		d.conns = append(d.conns, client, broker)
		if d.over {
			client.Close()
			broker.Close()
		}
		d.mu.Unlock()
		d.running.Go(func() { d.pass(broker, client) })
		d.running.Go(func() { d.pass(client, broker) })
	}
}

// piece is what is handed on, and when.
type piece struct {
	bytes []byte
	due   time.Time
}

// pass hands on until one side closes, and closes both.
func (d *delay) pass(to, from net.Conn) {
	defer from.Close()
	late := make(chan piece, 1000)
	d.running.Go(func() {
		defer to.Close()
		for p := range late {
			time.Sleep(time.Until(p.due))
			if _, err := to.Write(p.bytes); err != nil {
				from.Close() // ends the reading, which closes late
			}
		}
	})
	defer close(late)
	for buffer := make([]byte, 64<<10); ; {
		n, err := from.Read(buffer)
		if n > 0 {
			late <- piece{append([]byte(nil), buffer[:n]...), time.Now().Add(d.by)}
		}
		if err != nil {
			return
		}
	}
}
