package token

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"berth/lock/rabbit/transport"
)

const (
	// Renewal is how often a token is delivered again to its keeper: brokers before 4.3 close the channel of a delivery
	// that is older than consumer_timeout, 30 min by default.
	Renewal = 10 * time.Minute

	// regainTimeout is for how long a keeper that has lost its token asks for it: longer than somebody who was handed
	// it meanwhile needs to see that the slot is held.
	regainTimeout = 2 * time.Second

	// maxGrasp is for how long a keeper that asks has other tokens in hand, and maxLull for how long at most it
	// then leaves them to others: to keepers that ask as well, and have its own, or to who waits.
	maxGrasp = 20 * time.Millisecond
	maxLull  = 50 * time.Millisecond

	// firstRegainPause is after how long it asks again; that doubles up to Renewal. The one that it asks for may be
	// lost.
	firstRegainPause = 10 * time.Second
)

// Held is the token of a slot that is held. It is not what holds the slot: where the channel or the connection has
// ended, the broker has handed the token on, and the holder, which goes on by B, takes it back. Tend and Return may be
// called beside each other.
type Held struct {
	drawer *Drawer
	slot   int

	life context.Context // over once it is given back
	end  context.CancelFunc
	work sync.WaitGroup // the goroutine of Tend

	mu      sync.Mutex
	busy    bool               // somebody takes it back; guarded by mu
	channel *transport.Channel // that it was delivered on; guarded by mu
	token   Token              // Slot 0: it is somewhere else; guarded by mu
	due     time.Time          // when it is delivered again, or asked for again; guarded by mu
	pause   time.Duration      // before it was asked for last; 0: it came; guarded by mu
}

func newHeld(of *Drawer, channel *transport.Channel, t Token) *Held {
	h := &Held{drawer: of, slot: t.Slot, channel: channel, token: t}
	h.life, h.end = context.WithCancel(context.Background())
	channel.BePatient(true) // to give up an answer would cut the connection
	h.due = time.Now().Add(h.renewal())
	return h
}

// renewal has a little chance in it: two keepers that renew at once could be given each other's token, and try again.
func (h *Held) renewal() time.Duration { return h.drawer.Renewal - rand.N(h.drawer.Renewal/4+1) }

// InHand reports whether the token is in hand as far as is known, and the channel that it was delivered on.
func (h *Held) InHand() (on *transport.Channel, known bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.channel, h.token.Slot != 0 && !h.channel.Closed() && !h.channel.Conn().Broken()
}

// Tend sees to it that the token is in hand, and is not kept for so long that the broker minds. It does not wait.
func (h *Held) Tend() {
	conn := h.drawer.session.Conn()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.channel.Conn() != conn || h.token.Slot != 0 && h.channel.Closed() {
		h.token, h.due = Token{}, time.Now()
	}
	if h.busy || conn == nil || conn.Broken() || h.life.Err() != nil || time.Now().Before(h.due) {
		return
	}
	h.busy = true
	h.work.Go(func() { h.renew(conn) })
}

// renew takes the token back on another channel.
func (h *Held) renew(conn *transport.Conn) {
	h.mu.Lock()
	last, before := h.channel, h.token
	h.mu.Unlock()
	channel, found, err := h.regain(conn, before)
	h.noteRenewal(channel, found, err)
	_ = last.Close(context.Background()) // patient: it ends with its answer or with the connection
}

// noteRenewal notes what renew has come to.
func (h *Held) noteRenewal(channel *transport.Channel, found Token, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.busy = false
	h.channel, h.token = channel, found
	if found.Slot != 0 {
		h.due, h.pause = time.Now().Add(h.renewal()), 0
	} else {
		h.pause = min(max(2*h.pause, firstRegainPause), h.drawer.Renewal)
		h.due = time.Now().Add(h.pause + rand.N(h.pause/4+1))
		h.drawer.Log.Debug("the slot's token is not back", "queue", h.drawer.Queue, "slot", h.slot, "error", err)
	}
}

// regain asks until it has the token of the slot, on the channel that it returns. It puts others back soon: where many
// were reset at once, each has one that another one asks for.
func (h *Held) regain(conn *transport.Conn, before Token) (on *transport.Channel, found Token, err error) {
	ctx, cancel := context.WithTimeoutCause(h.life, regainTimeout, errors.New("no berth has given it back"))
	defer cancel()
	for ctx.Err() == nil {
		on, found, err = h.grasp(ctx, conn, before)
		if err != nil || found.Slot != 0 {
			return on, found, err
		}
		before = Token{}
		_ = transport.Sleep(ctx, rand.N(maxLull))
	}
	return conn.Channel(), Token{}, context.Cause(ctx)
}

// grasp consumes all tokens that nobody has, as the consumer that the broker prefers to all who wait, until that of the
// slot has come, or only others have. Of several it keeps one and removes the others: it is the slot's only holder.
func (h *Held) grasp(ctx context.Context, conn *transport.Conn, before Token) (
	on *transport.Channel, found Token, err error) {
	all, consumer, err := h.consume(conn, 0)
	defer func() { _ = all.Close(context.Background()) }() // which puts back what is in hand
	if err != nil {
		return all, Token{}, err
	}
	if before.Slot != 0 {
		before.putBack()
	}
	var enough <-chan time.Time
	for {
		select {
		case d, open := <-consumer.Deliveries:
			switch t := read(d); {
			case !open:
				return all, Token{}, errEnded
			case t.Slot != h.slot:
				if enough == nil {
					enough = time.After(maxGrasp)
				}
			default:
				on, found, err = h.take(ctx, conn, t)
				if err != nil || found.Slot != 0 {
					h.removeOthers(consumer)
					return on, found, err
				}
			}
		case <-enough:
			return all, Token{}, nil
		case <-ctx.Done():
			return all, Token{}, nil
		}
	}
}

// take has a token delivered again, to a consumer that is given no other one. A consumer that may be given more cannot
// be ended without its channel, see Drawer.leave.
func (h *Held) take(ctx context.Context, conn *transport.Conn, t Token) (
	on *transport.Channel, found Token, err error) {
	on, consumer, err := h.consume(conn, 1)
	if err == nil {
		t.putBack()
		select {
		case d, open := <-consumer.Deliveries:
			if found = read(d); !open {
				err = errEnded
			} else if found.Slot == h.slot {
				err = consumer.Cancel(context.Background())
			}
		case <-time.After(maxGrasp):
		case <-ctx.Done():
		}
	}
	if err != nil || found.Slot != h.slot {
		_ = on.Close(context.Background())
		return on, Token{}, err
	}
	return on, found, nil
}

// consume consumes tokens on a channel of its own, a number of them at once or all. It prefers who takes one to who
// takes all.
func (h *Held) consume(conn *transport.Conn, atOnce int) (*transport.Channel, *transport.Consumer, error) {
	channel := conn.Channel()
	channel.BePatient(true)
	consumer, err := channel.Consume(context.Background(), h.drawer.Queue, transport.Consumption{
		Create: h.drawer.Length, Quorum: h.drawer.Length == 0, Priority: keeperPriority + int32(atOnce), Prefetch: atOnce,
		Tag: h.drawer.tag()})
	return channel, consumer, err
}

// removeOthers removes further tokens of the slot that have come.
func (h *Held) removeOthers(consumer *transport.Consumer) {
	for {
		select {
		case d, open := <-consumer.Deliveries:
			if !open {
				return
			}
			if t := read(d); t.Slot == h.slot {
				h.drawer.Log.Warn("a slot's token was there twice; one was removed", "queue", h.drawer.Queue, "slot", h.slot)
				t.remove()
			}
		default:
			return
		}
	}
}

// PutBack gives the token back, for the next one. It does not wait; Return follows.
func (h *Held) PutBack() {
	h.end()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.token.Slot != 0 {
		h.token.putBack()
		h.token = Token{}
	}
}

// Return gives the token back where PutBack did not, and ends the channel. The token is in the queue once Return is
// back, unless its connection is gone.
func (h *Held) Return(ctx context.Context) error {
	h.end()
	stop := context.AfterFunc(ctx, h.drawer.session.Conn().Abandon)
	defer stop()
	h.work.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	if conn := h.channel.Conn(); conn.Broken() || conn != h.drawer.session.Conn() {
		return nil
	}
	return h.channel.Conn().UnlessBlocked(func() error { return h.channel.Close(context.Background()) }) // it is back then
}

// Wait waits for what Tend has begun. The connection is closed, which gives the token back.
func (h *Held) Wait() {
	h.end()
	h.work.Wait()
}
