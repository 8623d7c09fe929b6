package main

import (
	"context"
	"net"
	"net/url"
	"sync"
	"time"

	"berth/test/relay"
)

// piece is what is handed on, and when.
type piece struct {
	bytes []byte
	due   time.Time
}

// late returns what passes everything on late by so much. What takes longer by it was waited for.
func late(by time.Duration) func(_ context.Context, to, from net.Conn, _ bool) {
	return func(_ context.Context, to, from net.Conn, _ bool) {
		pieces := make(chan piece, 1000)
		var writing sync.WaitGroup
		writing.Go(func() {
			for p := range pieces {
				time.Sleep(time.Until(p.due))
				if _, err := to.Write(p.bytes); err != nil {
					from.Close() // ends the reading, which closes pieces
				}
			}
		})
		defer writing.Wait()
		defer close(pieces)
		for buffer := make([]byte, 64<<10); ; {
			n, err := from.Read(buffer)
			if n > 0 {
				pieces <- piece{append([]byte(nil), buffer[:n]...), time.Now().Add(by)}
			}
			if err != nil {
				return
			}
		}
	}
}

// delayed starts a relay to the broker of an amqp:// URL that hands everything on late, in both directions, and returns
// the broker's URL through it. The caller calls Close.
func delayed(broker string, by time.Duration) (r *relay.Relay, through string, err error) {
	u, err := url.Parse(broker)
	if err != nil {
		return nil, "", err
	}
	r, err = relay.New(relay.Config{To: u.Host, Pass: late(by)})
	if err != nil {
		return nil, "", err
	}
	return r, r.URL(u), nil
}
