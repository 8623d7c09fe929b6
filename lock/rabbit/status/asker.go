package status

import (
	"context"
	"crypto/rand"
	"strconv"
	"strings"
	"sync"
	"time"

	"berth/lock"
	"berth/lock/rabbit/request"
	"berth/lock/rabbit/transport"
)

// asker publishes questions, over a connection of its own, and gets the answers. Its methods are called one at a time.
type asker struct {
	publisher *transport.Publisher
	channel   *transport.Channel // that answers come over; nil: there was none yet
	ended     chan struct{}      // closed once none comes any more

	mu      sync.Mutex
	current *round // what is answered now; guarded by mu
}

// round is what is asked at once, each question of another queue.
type round struct {
	id    string               // of the questions, which have a number after it
	found []transport.Presence // of each queue
	texts [][]byte             // of each queue: what was answered first; guarded by the asker's mu
	came  chan int             // which were answered
	ended <-chan struct{}      // closed when no answer can come any more
}

// ask asks the consumers of the queues. Under an alarm the broker takes one message of a connection: a single question
// reaches its queue, several do not. Errors: as transport.Channel.Send.
func (a *asker) ask(ctx context.Context, verb lock.Verb, queues []string) (*round, error) {
	r := &round{id: rand.Text(), texts: make([][]byte, len(queues)), came: make(chan int, len(queues))}
	err := a.publisher.Lend(ctx, func(c *transport.Channel) (err error) {
		if err := a.listen(ctx, c); err != nil {
			return err
		}
		r.ended = a.ended
		a.mu.Lock()
		a.current = r
		a.mu.Unlock()
		var letters []transport.Letter
		for i, queue := range queues {
			m := request.Message(verb, r.id+"-"+strconv.Itoa(i))
			letters = append(letters, transport.Letter{Queue: queue, Message: m})
		}
		if len(letters) > 1 {
			r.found, err = c.Send(ctx, letters)
			return err
		}
		found, err := c.Publish(ctx, transport.Batch{Queue: letters[0].Queue, Message: letters[0].Message})
		r.found = []transport.Presence{found}
		return err
	})
	return r, err
}

// listen has answers to what is published on the channel delivered. The broker takes no question before.
func (a *asker) listen(ctx context.Context, c *transport.Channel) error {
	if a.channel == c && !c.Closed() && !transport.IsClosed(a.ended) {
		return nil
	}
	answers, err := c.Consume(ctx, request.ReplyTo, transport.Consumption{NoAck: true})
	if err != nil {
		return err
	}
	ended := make(chan struct{})
	a.channel, a.ended = c, ended
	go func() {
		defer close(ended)
		for d := range answers.Deliveries { // always read, and never kept: anybody may send something
			if id, text, ok := request.Answer(d); ok {
				a.take(id, text)
			}
		}
	}()
	return nil
}

func (a *asker) take(id string, text []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.current == nil {
		return
	}
	number, ours := strings.CutPrefix(id, a.current.id+"-")
	i, err := strconv.Atoi(number)
	if !ours || err != nil || i < 0 || i >= len(a.current.texts) || a.current.texts[i] != nil {
		return
	}
	a.current.texts[i] = text
	a.current.came <- i
}

// await waits for so many answers, and returns those that have come: nil for each queue from which none has. Others
// that come later are dropped.
func (a *asker) await(ctx context.Context, r *round, answers int) [][]byte {
	for answers > 0 {
		select {
		case <-r.came:
			answers--
			continue
		case <-r.ended:
		case <-ctx.Done():
		}
		break
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.current = nil
	return r.texts
}

// close ends the connection.
func (a *asker) close() {
	a.publisher.Close()
	if a.ended != nil {
		<-a.ended
	}
}

const (
	// patience is for how long the answers of a look are awaited.
	patience = time.Second
	// soon is when nearly all have answered. What was sent to a holder that has just ended, or to one that has just left
	// its reader's place, is lost: to ask again then has an answer earlier than to wait.
	soon = 200 * time.Millisecond
)
