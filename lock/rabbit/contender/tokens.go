package contender

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"berth/lock"
	"berth/lock/rabbit/holding"
	"berth/lock/rabbit/ledger"
	"berth/lock/rabbit/names"
	"berth/lock/rabbit/slots"
	"berth/lock/rabbit/token"
	"berth/lock/rabbit/transport"
)

const (
	// maxTried bounds the slots that one attempt goes to, and maxUseless the tokens that it removes.
	maxTried   = 4
	maxUseless = 100

	// A token can come a moment before its slot can be had: attempts go on, with pauses of 155 ms altogether.
	tries      = 6
	firstPause = 5 * time.Millisecond

	// maxRefusal bounds the pauses of a waiter whose tokens are of no use: somebody has doubled them, or their
	// holder, whose connection was reset, is about to take them back.
	maxRefusal = time.Second

	// seldomLook is for how long a waiter waits before it looks whether tokens were lost, quorumLook where they are on
	// several nodes: RabbitMQ 4.0 can leave a token with a consumer that was on a lost one. soonLook is for one that has
	// just begun to wait, or whose consumer the broker has just ended. Each takes up to twice as long.
	seldomLook = time.Minute
	quorumLook = 8 * time.Second
	soonLook   = 2 * time.Second

	// onceLook lies between the looks of one that does not wait: longer than a berth that has just drawn a token needs
	// to take the reader's place.
	onceLook = 200 * time.Millisecond

	// oncePatience is for how long such a one waits for tokens that somebody else has in hand, who counts or tries them.
	oncePatience = 2 * time.Second
)

// Tokens is the Caller of a lock that has tokens: it draws that of a slot, or waits until the broker hands it one, and
// takes the reader's place of the slot with it. Without a token it tries nothing.
type Tokens struct {
	*Candidate
	Drawer    *token.Drawer // its tokens
	Look      time.Duration // for how long it waits before it looks whether tokens were lost
	FirstLook time.Duration // the same where it has just begun, or its consumer was ended

	asked    names.Names       // as configured: of no type if any will do
	detected bool              // the type is known, and Holder.Names are of that
	seen     bool              // the lock was seen, and no type is asked for: a mutex that has gone is not made
	found    func(names.Names) // see Config.Detected

	hindered bool          // something was in the way of the last attempt that no token tells of
	refusal  time.Duration // the next pause after a token that was of no use; 0: the last one was
	refusals []int         // slots whose tokens were of no use: the next attempt prefers others
	missing  []int         // slots whose token seemed to be lost at the last look
	soon     bool          // the next look is soon
}

func newTokens(on *Candidate, priority int, seen bool, found func(names.Names)) *Tokens {
	h := on.Holder
	return &Tokens{
		Candidate: on, Drawer: token.NewDrawer(h.Names, priority, h.Session, h.Log), Look: seldomLook, FirstLook: soonLook,
		asked: h.Names, seen: seen, found: found, soon: true,
	}
}

func (c *Tokens) acquire(ctx context.Context) (*holding.Held, error) {
	err := c.detectType(ctx)
	if err == nil {
		err = c.makeMutex(ctx)
	}
	if err != nil {
		c.hindered = true
		return nil, err
	}
	h, t, err := c.attempt(ctx)
	for end := time.Now().Add(oncePatience); c.once && errors.Is(err, lock.ErrFull) && c.comeBack(ctx, end); {
		h, t, err = c.attempt(ctx)
	}
	if err == nil {
		c.hindered, c.refusal, c.refusals, c.Drawer.Priority = false, 0, nil, c.priority
		h.Token = c.Drawer.Keep(t)
		return h, nil
	}
	if errors.Is(err, lock.ErrAbsent) {
		c.detected = false // it may be made again with other queues
	}
	if none(err) {
		err = c.permitted(ctx, c.Holder.Names.Tokens(), err)
	}
	c.hindered = !none(err) && !errors.Is(err, lock.ErrSilent) // that is as a slot which is taken
	conn := c.Holder.Session.Conn()
	back := conn.UnlessBlocked(func() error { return c.Drawer.PutBack(ctx) })
	if back != nil && !errors.Is(back, lock.ErrDenied) {
		c.Holder.Log.Debug("tokens not given back cleanly", "error", back)
		conn.Abandon() // which gives them back
	}
	return nil, err
}

// detectType finds out of which type the lock's queues are. While there is no such lock, a waiter consumes from the
// tokens of the type that was asked for.
func (c *Tokens) detectType(ctx context.Context) error {
	if c.detected {
		return nil
	}
	n, err := slots.DetectType(ctx, c.Holder.Session.Side(), c.asked)
	switch {
	case errors.Is(err, lock.ErrAbsent) && c.seen && c.id.Kind == lock.Mutex:
		return c.asked.Vanished()
	case errors.Is(err, lock.ErrAbsent):
		n = c.asked
	case err != nil:
		return err
	}
	if err := c.Drawer.UseQueue(ctx, n); err != nil {
		return err
	}
	c.Holder.Names = n
	if c.detected = err == nil; c.detected {
		c.found(n)
	}
	return nil
}

// makeMutex makes a mutex that does not exist, and that nobody administers, under the administration mutex. Error:
// lock.ErrFull if another berth has that, which makes it or sees to its token, or if A is somebody's.
func (c *Tokens) makeMutex(ctx context.Context) error {
	if c.id.Kind != lock.Mutex {
		return nil
	}
	err := c.exists(ctx, 1)
	if errors.Is(err, transport.ErrNoQueue) {
		err = c.administering(ctx, c.make)
	}
	if errors.Is(err, transport.ErrTaken) {
		return c.id.Full()
	}
	return err
}

// make makes the queues of a mutex, A last. Berths that use classic queues make a ledger, too, and look for this one: of
// two that disagree at least one sees both.
func (c *Tokens) make(ctx context.Context) error {
	if err := c.exists(ctx, 1); !errors.Is(err, transport.ErrNoQueue) {
		return err // another berth has made it meanwhile
	}
	ctx, cancel := ledger.Finishing(ctx)
	defer cancel()
	s, n := c.Holder.Session, c.Holder.Names
	if _, err := slots.OfNoOtherType(ctx, s, n, true, false); err != nil {
		return err
	}
	maker := ledger.Maker{Names: n, Side: s.Side(), Lender: s.Lender, Log: c.Holder.Log}
	err := maker.Make(ctx, 1, func() (known bool, err error) {
		discarded, err := slots.OfNoOtherType(ctx, s, n, true, true)
		if err == nil {
			err = c.pool().Make(ctx) // others draw from it as soon as A is there, and RabbitMQ 3.10 cuts them off if it is half-made
		}
		return !discarded && !c.detected && !s.Returned(), err // otherwise it was there before
	})
	if err != nil {
		return err
	}
	return c.pool().Repair(ctx, 1, 0)
}

// attempt draws tokens until one of them is worth its slot. It prefers slots in which a command can be started at once.
func (c *Tokens) attempt(ctx context.Context) (*holding.Held, token.Token, error) {
	a := attempt{Tokens: c}
	h, t, err := a.draw(ctx)
	if h != nil || err != nil {
		return h, t, err
	}
	if a.gone == 0 { // all of them were refused before
		c.refusals = nil
		h, t, err = a.each(ctx, a.aside[:min(len(a.aside), maxTried)], true)
	}
	if h == nil && err == nil {
		h, t, err = a.each(ctx, a.waited, false)
	}
	if h != nil || err != nil {
		return h, t, err
	}
	c.refused(len(a.seen) > 0)
	switch {
	case a.hindrance != nil:
		return nil, token.Token{}, a.hindrance
	case len(a.seen) > 0:
		return nil, token.Token{}, c.id.Full()
	}
	return nil, token.Token{}, c.none(ctx)
}

// attempt is one Acquire under way.
type attempt struct {
	*Tokens
	seen      []token.Token // in hand
	aside     []token.Token // those whose slots were refused at the last attempts
	waited    []token.Token // those whose last holder has to be waited for
	gone      int           // how many slots were gone to
	useless   int           // how many tokens were removed
	hindrance error
}

// draw draws tokens and goes to their slots, but for those that were refused before: their tokens come first again.
func (a *attempt) draw(ctx context.Context) (*holding.Held, token.Token, error) {
	for a.gone < maxTried && a.useless < maxUseless {
		t, found, err := a.Drawer.Draw(ctx, a.seen)
		if err != nil {
			return nil, token.Token{}, a.noTokens(ctx, err)
		}
		if !found {
			break
		}
		a.seen = append(a.seen, t)
		if slices.Contains(a.refusals, t.Slot) {
			a.aside = append(a.aside, t)
			continue
		}
		if h, t, err := a.each(ctx, []token.Token{t}, true); h != nil || err != nil {
			return h, t, err
		}
	}
	return nil, token.Token{}, nil
}

// each goes to the slots of tokens until one of them can be had. It returns neither a slot nor an error if others may.
func (a *attempt) each(ctx context.Context, of []token.Token, now bool) (*holding.Held, token.Token, error) {
	for _, t := range of {
		h, err := a.claim(ctx, t, now)
		switch {
		case err == nil:
			return h, t, nil
		case errors.Is(err, errUseless):
			a.Drawer.Remove(t)
			a.seen = slices.DeleteFunc(a.seen, t.Same)
			a.useless++
			continue
		case errors.Is(err, slots.ErrMustWait):
			a.waited = append(a.waited, t)
		default:
			a.refusals = append(a.refusals, t.Slot)
			if !slots.LostRace(err) && (a.hindrance == nil || errors.Is(a.hindrance, lock.ErrSilent)) {
				a.hindrance = err
			}
		}
		a.gone++
		if !a.Holder.Session.Usable() || ctx.Err() != nil {
			return nil, token.Token{}, err
		}
	}
	return nil, token.Token{}, nil
}

// refused notes whether there were tokens, of no use.
func (c *Tokens) refused(drawn bool) {
	if !drawn {
		c.refusal, c.refusals = 0, nil
		return
	}
	c.refusal = min(max(2*c.refusal, firstPause), maxRefusal)
}

// errUseless says that a token's slot does not exist, or that it is none.
var errUseless = errors.New("the token is of no use")

// claim claims the slot of a token. With now it returns slots.ErrMustWait where a command could not be started at once.
func (c *Tokens) claim(ctx context.Context, t token.Token, now bool) (h *holding.Held, err error) {
	if t.Slot == 0 {
		c.Holder.Log.Warn("a message that is no token is removed", "queue", c.Drawer.Queue)
		return nil, errUseless
	}
	if c.leftover(ctx, t.Slot) {
		c.Holder.Log.Debug("a token of a leftover is removed", "slot", t.Slot)
		return nil, errUseless
	}
	for pause, try := firstPause, 1; ; pause, try = 2*pause, try+1 {
		h, err = c.Holder.Claim(ctx, t.Slot, now)
		if err == nil || !errors.Is(err, transport.ErrTaken) || try == tries {
			break
		}
		if err := transport.Sleep(ctx, pause); err != nil {
			return nil, err
		}
	}
	if errors.Is(err, transport.ErrNoQueue) && errors.Is(c.exists(ctx, t.Slot), transport.ErrNoQueue) {
		c.Holder.Log.Debug("a token of a slot that was removed", "slot", t.Slot)
		return nil, errUseless
	}
	return h, err
}

// exists returns nil if the slot exists.
func (c *Tokens) exists(ctx context.Context, slot int) error {
	return slots.Find(ctx, c.Holder.Session, c.Holder.Session.Side(), c.Holder.Names.Exists(slot))
}

// leftover reports whether a slot is beyond one that does not exist, and so nobody's.
func (c *Tokens) leftover(ctx context.Context, slot int) bool {
	gap, err := (&slots.Finder{Names: c.Holder.Names, Session: c.Holder.Session, Limit: lock.MaxSlots}).Gap(ctx, slot)
	return err == nil && gap > 0 && errors.Is(c.Holder.Session.Side().Find(ctx, c.Holder.Names.Exists(gap)), transport.ErrNoQueue)
}

// none is the outcome where nobody has left a token.
func (c *Tokens) none(ctx context.Context) error {
	switch err := c.exists(ctx, 1); {
	case err == nil:
		return c.id.Full()
	case errors.Is(err, transport.ErrNoQueue):
		return c.Holder.Names.Absent()
	default:
		return err
	}
}

// noTokens is the outcome where tokens cannot be drawn.
func (c *Tokens) noTokens(ctx context.Context, err error) error {
	if !errors.Is(err, transport.ErrNoQueue) {
		return err
	}
	if err := c.pool().Make(ctx); err != nil {
		return err
	}
	if none := c.none(ctx); !errors.Is(none, lock.ErrFull) {
		return none
	}
	c.soon = true
	return c.id.Full() // as far as is known: who waits looks whether the tokens are lost
}

// wait returns when a token has come.
func (c *Tokens) wait(ctx context.Context, pause time.Duration) error {
	if c.hindered {
		return c.sleep(ctx, pause)
	}
	if c.refusal > 0 {
		if err := c.sleep(ctx, c.refusal); err != nil {
			return err
		}
	}
	for {
		patience := c.Look
		if c.Holder.Names.Replicated() {
			patience = min(patience, quorumLook)
		}
		if c.soon {
			patience = min(patience, c.FirstLook)
		}
		woken, err := c.Drawer.Await(ctx, patience+rand.N(patience))
		switch {
		case woken:
			return err
		case err == nil:
			if stay, err := c.lookForLost(ctx); err != nil || !stay {
				return err
			}
			continue // as the same consumer, or those who came later would be before it
		case ctx.Err() != nil:
			return fmt.Errorf("gave up waiting for %s: %w", c.id, ctx.Err())
		case errors.Is(err, lock.ErrUnreachable):
			return err
		case errors.Is(err, lock.ErrDenied): // until somebody permits it
			return cmp.Or(c.sleep(ctx, pause), err)
		}
		c.Holder.Log.Debug("no token can come for now", "error", err)
		c.soon = c.soon || token.Ended(err)
		return c.sleep(ctx, pause)
	}
}

// sleep ends with the connection.
func (c *Tokens) sleep(ctx context.Context, pause time.Duration) error {
	return c.Holder.Session.Conn().Sleep(ctx, pause, c.id.String())
}

func (c *Tokens) leave() {} // the end of the connection gives back what is in hand
