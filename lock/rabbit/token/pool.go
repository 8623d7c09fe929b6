package token

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/lock"
	"berth/lock/rabbit/names"
	"berth/lock/rabbit/slots"
	"berth/lock/rabbit/transport"
)

const (
	// quiet is how long nothing more comes before all tokens that nobody keeps are taken to be in hand.
	quiet = 20 * time.Millisecond

	// missingFor is how long a token is nowhere to be seen before it is made again. Who has just drawn one is the
	// slot's reader long before that.
	missingFor = 500 * time.Millisecond

	// firstBatch is how many slots Missing looks at first.
	firstBatch = 16
)

// Pool is all tokens of a lock. The caller of its methods has the administration mutex, but for Missing.
type Pool struct {
	Names  names.Names
	Side   *transport.Channel // looks, and lends its connection
	Lender transport.Lender   // publishes
	Probe  func(ctx context.Context, queues []string) ([]transport.Presence, error)
	Log    hclog.Logger
}

// Repair leaves one token for each of the slots 1..present, and no other. Those above known have just been made: nobody
// can have drawn theirs. One that was lost is made again where nobody is seen to use its slot. That is no proof that
// nobody has it in hand: the worst that follows is one token too many, which a holder or the next Repair removes.
//
// Errors: lock.ErrDenied, lock.ErrUnknown, lock.ErrUnreachable, that of ctx.
func (p Pool) Repair(ctx context.Context, present, known int) error {
	if err := p.Make(ctx); err != nil {
		return fmt.Errorf("cannot make the queue of the tokens of %s: %w", p.Names.ID, err)
	}
	channel := p.Side.Conn().Channel()
	consumer, err := channel.Consume(ctx, p.Names.Tokens(), transport.Consumption{
		Create: declared(p.Names), Priority: poolPriority})
	if err != nil {
		return fmt.Errorf("cannot count the tokens of %s: %w", p.Names.ID, err)
	}
	c := count{Pool: p, consumer: consumer, present: present, seen: make(map[int]bool)}
	missing, err := c.missing(ctx, known)
	if err == nil {
		err = p.make(ctx, missing)
	}
	if c.removed {
		p.Log.Warn("messages that were no tokens, or were there twice, were removed", "queue", p.Names.Tokens())
	}
	lost := slices.DeleteFunc(missing, func(slot int) bool { return slot > known })
	if len(lost) > 0 && err == nil {
		p.Log.Warn("tokens were lost and made again", "slots", fmt.Sprint(lost))
	}
	if closed := channel.Close(ctx); closed != nil { // which puts back all that are in hand
		channel.Conn().Abandon()
		err = errors.Join(err, closed)
	}
	if err != nil {
		return fmt.Errorf("cannot see to the tokens of %s: %w", p.Names.ID, err)
	}
	return nil
}

// Make makes K where it is missing and nobody declares it who consumes from it.
func (p Pool) Make(ctx context.Context) error {
	if !p.Names.Replicated() {
		return nil
	}
	err := p.Side.Find(ctx, p.Names.Tokens())
	if !errors.Is(err, transport.ErrNoQueue) {
		return err
	}
	err = p.Side.CreateReplicated(ctx, p.Names.Tokens(), names.TokensLength, false)
	if errors.Is(err, transport.ErrDiffers) {
		return nil // somebody else has made it meanwhile, on a broker of another version
	}
	return err
}

// count is one Repair under way.
type count struct {
	Pool
	consumer *transport.Consumer
	present  int
	seen     map[int]bool // slots whose token is in hand
	removed  bool         // there were messages that should not have been there
}

// missing returns the slots whose token nobody has.
func (c *count) missing(ctx context.Context, known int) ([]int, error) {
	if err := c.read(ctx); err != nil {
		return nil, err
	}
	var gone, made []int
	for slot := 1; slot <= c.present; slot++ {
		if c.seen[slot] {
			continue
		}
		if slot > known {
			made = append(made, slot)
		} else {
			gone = append(gone, slot)
		}
	}
	made, err := c.unused(ctx, made)
	for since := time.Now(); err == nil && len(gone) > 0; {
		if gone, err = c.unused(ctx, gone); err != nil || len(gone) == 0 || time.Since(since) >= missingFor {
			break
		}
		err = c.read(ctx)
		gone = slices.DeleteFunc(gone, func(slot int) bool { return c.seen[slot] })
	}
	return append(gone, made...), err
}

// read takes what comes, until nothing has come for a moment.
func (c *count) read(ctx context.Context) error {
	timer := time.NewTimer(quiet)
	defer timer.Stop()
	for {
		select {
		case d, open := <-c.consumer.Deliveries:
			if !open {
				return lock.Errorf(lock.ErrUnknown, "queue %q cannot be read: %s", c.Names.Tokens(), errEnded.Error())
			}
			timer.Reset(quiet)
			switch t := read(d); {
			case t.Slot == 0 || c.seen[t.Slot]:
				c.removed = true
				t.remove()
			case t.Slot > c.present:
				t.remove()
			default:
				c.seen[t.Slot] = true
			}
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// unused returns those of the slots that nobody is seen to use.
func (p Pool) unused(ctx context.Context, of []int) (unused []int, err error) {
	for batch := range slices.Chunk(of, slots.LargestBatch) {
		held := make([]transport.Presence, len(batch))
		var queues []string
		for i, slot := range batch {
			held[i] = transport.Absent
			queues = append(queues, p.Names.Holds(slot))
		}
		if !p.Names.Replicated() { // or there is no such queue
			if held, err = p.see(ctx, queues); err != nil {
				return nil, err
			}
		}
		for i, slot := range batch {
			if held[i] != transport.Absent {
				continue // held, or unknown
			}
			_, readers, err := p.Side.Count(ctx, p.Names.Ledger(slot))
			switch {
			case err != nil && !errors.Is(err, transport.ErrNoQueue):
				return nil, err
			case readers == 0:
				unused = append(unused, slot)
			}
		}
	}
	return unused, nil
}

// see probes queues, or looks at them where probes are not answered.
func (p Pool) see(ctx context.Context, queues []string) ([]transport.Presence, error) {
	found, err := p.Probe(ctx, queues)
	if errors.Is(err, transport.ErrUnanswered) {
		return p.Side.LookAll(ctx, queues)
	}
	return found, err
}

// unanswered makes what a publisher says an outcome.
func unanswered(err error) error {
	if errors.Is(err, transport.ErrUnanswered) {
		return fmt.Errorf("%w: %w", lock.ErrUnknown, err)
	}
	return err
}

// make makes tokens.
func (p Pool) make(ctx context.Context, of []int) error {
	for batch := range slices.Chunk(of, slots.LargestBatch) {
		var letters []transport.Letter
		for _, slot := range batch {
			letters = append(letters, transport.Letter{Queue: p.Names.Tokens(), Message: message(slot)})
		}
		var found []transport.Presence
		err := p.Lender.Lend(ctx, func(c *transport.Channel) (err error) {
			found, err = c.Send(ctx, letters)
			return err
		})
		if err != nil {
			return unanswered(err)
		}
		if slices.ContainsFunc(found, func(p transport.Presence) bool { return p != transport.Present }) {
			return lock.Errorf(lock.ErrUnknown, "the broker has not taken all messages into queue %q", p.Names.Tokens())
		}
	}
	return nil
}

// ErrReady says that there are tokens that nobody has.
var ErrReady = errors.New("there are tokens to be had")

// Missing returns the slots whose token may be lost: nobody is seen to use them, while nobody is handed their token.
// It takes a second look, later, to believe that. Errors: ErrReady, and as Repair.
func (p Pool) Missing(ctx context.Context) (missing []int, err error) {
	ready, _, err := p.Side.Count(ctx, p.Names.Tokens())
	switch {
	case err != nil && !errors.Is(err, transport.ErrNoQueue):
		return nil, err
	case ready > 0:
		return nil, ErrReady
	}
	size := firstBatch
	for from := 1; from <= lock.MaxSlots; from, size = from+size, min(4*size, slots.LargestBatch) {
		size = min(size, lock.MaxSlots-from+1)
		exist, err := p.Probe(ctx, slots.Queues(p.Names.Exists, from, from+size-1))
		if err != nil {
			return nil, unanswered(err)
		}
		end := slices.Index(exist, transport.Absent)
		if end < 0 {
			end = size
		}
		var present []int
		for i := range end {
			present = append(present, from+i)
		}
		unused, err := p.unused(ctx, present)
		if err != nil {
			return nil, err
		}
		if missing = append(missing, unused...); end < size {
			break
		}
	}
	return missing, nil
}
