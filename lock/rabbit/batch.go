package rabbit

import (
	"net"
	"sync"
)

// batchSize is how much is gathered before it is written: as much as a socket
// takes without waiting, usually.
const batchSize = 64 << 10

// batching is a connection whose writes can be gathered. amqp091-go writes each
// message by itself, and a search of many slots publishes a thousand.
type batching struct {
	net.Conn

	mu     sync.Mutex
	gather bool   // guarded by mu
	left   int    // writes to gather, guarded by mu; 0 or less: until end
	data   []byte // guarded by mu
}

// Write implements net.Conn.
func (b *batching) Write(data []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.gather {
		return b.Conn.Write(data)
	}
	b.data = append(b.data, data...)
	b.left--
	b.gather = b.left != 0
	if b.gather && len(b.data) < batchSize {
		return len(data), nil
	}
	return len(data), b.write()
}

// begin has so many writes gathered, or all until end if it is 0.
func (b *batching) begin(writes int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.gather, b.left = true, writes
}

// end writes what was gathered. A failure closes the connection, which is how
// whoever waits for answers is told.
func (b *batching) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.gather = false
	if err := b.write(); err != nil {
		b.Conn.Close()
	}
	b.data = nil
}

func (b *batching) write() error {
	data := b.data
	b.data = b.data[:0]
	if len(data) == 0 {
		return nil
	}
	_, err := b.Conn.Write(data)
	return err
}
