// Package tokens contends for a token semaphore: it draws the token of a slot, or waits until the broker hands it one,
// and takes the reader's place of the slot with it. A contender without a token tries nothing. What follows is the
// holding's, as for every kind of lock.
package tokens

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/lock"
	"berth/lock/rabbit/holding"
	"berth/lock/rabbit/ledger"
	"berth/lock/rabbit/line"
	"berth/lock/rabbit/names"
	"berth/lock/rabbit/replicated"
	"berth/lock/rabbit/request"
	"berth/lock/rabbit/session"
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

// Config says who contends, and how.
type Config struct {
	Names  names.Names
	Dialer *transport.Dialer
	Host   string // for the ledger
	PID    int
	Log    hclog.Logger

	Contention lock.Contention
	Admins     *request.Admins   // in place of those of Contention
	Seen       bool              // the lock was seen, and no type is asked for: a mutex that has gone is not made
	Detected   func(names.Names) // is called when the lock is found, with the type of its queues
}

// Contender is lock.Lock. New makes it.
type Contender struct {
	Holder     *holding.Holder    // of what this contender claims of a lock with classic queues
	Replicated *replicated.Holder // the same with quorum queues
	Drawer     *token.Drawer      // its tokens
	Look       time.Duration      // for how long it waits before it looks whether tokens were lost
	FirstLook  time.Duration      // the same where it has just begun, or its consumer was ended

	id       lock.ID
	names    names.Names // of the type that the lock has, or that was asked for
	asked    names.Names // as configured: of no type if any will do
	detected bool        // the type is known
	priority int         // among the waiters, once it has won a slot
	once     bool        // see lock.Contention
	session  *session.Session
	writer   *ledger.Writer
	seen     bool              // see Config
	found    func(names.Names) // see Config.Detected
	log      hclog.Logger

	hindered bool          // something was in the way of the last attempt that no token tells of
	refusal  time.Duration // the next pause after a token that was of no use; 0: the last one was
	refusals []int         // slots whose tokens were of no use: the next attempt prefers others
	missing  []int         // slots whose token seemed to be lost at the last look
	soon     bool          // the next look is soon

	held *Held // the last one
}

var _ lock.Lock = (*Contender)(nil)

// New returns a contender that is not connected. It does no I/O.
func New(cfg Config) *Contender {
	s := session.New(cfg.Dialer)
	as := cfg.Contention
	priority := as.Priority
	if as.Takeover {
		priority = lock.MaxPriority + 1
	}
	c := &Contender{
		id: cfg.Names.ID, names: cfg.Names, asked: cfg.Names, priority: as.Priority, session: s, log: cfg.Log,
		Look: seldomLook, FirstLook: soonLook, soon: true, once: as.Once, seen: cfg.Seen, found: cfg.Detected,
		Drawer: token.NewDrawer(cfg.Names, priority, s, cfg.Log),
	}
	c.writer = ledger.NewWriter(s.Lender, cfg.Log)
	inbox, skipped := request.New(cfg.Admins, cfg.Dialer), &slots.Skipped{}
	c.Holder = &holding.Holder{
		Names: cfg.Names.Of(names.Classic), Session: s, Writer: c.writer, Skipped: skipped,
		Waiter: line.NewWaiter(line.Config{ID: c.id, Once: true, Log: cfg.Log}, s), // nobody stands in line
		Inbox:  inbox,
		Host:   cfg.Host, PID: cfg.PID, Env: holding.NewEnv(), Log: cfg.Log,
	}
	c.Replicated = &replicated.Holder{
		Names: cfg.Names.Of(names.Quorum), Session: s, Writer: c.writer, Skipped: skipped, Inbox: inbox,
		Host: cfg.Host, PID: cfg.PID, Env: replicated.NewEnv(), Log: cfg.Log,
	}
	return c
}

// Alarm implements lock.Lock.
func (c *Contender) Alarm() string { return c.session.Alarm() }

// Connect implements lock.Lock.
func (c *Contender) Connect(ctx context.Context) error {
	if err := c.id.Check(); err != nil {
		return err
	}
	return c.session.Connect(ctx)
}

// Acquire implements lock.Lock.
func (c *Contender) Acquire(ctx context.Context) (lock.Held, error) {
	if err := c.session.Begin("acquire "+c.id.String(), c.held != nil && !c.held.Over()); err != nil {
		return nil, err
	}
	c.writer.FlushOwed(ctx)
	if err := c.detectType(ctx); err != nil {
		c.hindered = true
		return nil, c.session.Outcome(err)
	}
	if err := c.makeMutex(ctx); errors.Is(err, transport.ErrTaken) { // another berth is making it, or sees to its token
		c.hindered = true
		return nil, c.id.Full()
	} else if err != nil {
		c.hindered = true
		return nil, c.session.Outcome(err)
	}
	h, t, err := c.attempt(ctx)
	for end := time.Now().Add(oncePatience); c.once && errors.Is(err, lock.ErrFull) && c.comeBack(ctx, end); {
		h, t, err = c.attempt(ctx)
	}
	if err == nil {
		c.hindered, c.refusal, c.refusals, c.Drawer.Priority = false, 0, nil, c.priority
		c.held = &Held{Place: h, Token: c.Drawer.Keep(t)}
		c.Holder.Leaving, c.Replicated.Leaving = c.held.Token.PutBack, c.held.Token.PutBack
		return c.held, nil
	}
	if errors.Is(err, lock.ErrAbsent) {
		c.detected = false // it may be made again with other queues
	}
	if none := errors.Is(err, lock.ErrFull) || errors.Is(err, lock.ErrAbsent); none && !c.once {
		err = cmp.Or(c.session.Permitted(ctx, c.names.Tokens(), c.names.Mark()), err)
	}
	c.hindered = !errors.Is(err, lock.ErrFull) && !errors.Is(err, lock.ErrAbsent)
	conn := c.session.Conn()
	back := conn.UnlessBlocked(func() error { return c.Drawer.PutBack(ctx) })
	if back != nil && !errors.Is(back, lock.ErrDenied) {
		c.log.Debug("tokens not given back cleanly", "error", back)
		conn.Abandon() // which gives them back
	}
	return nil, c.session.Outcome(err)
}

// detectType finds out of which type the lock's queues are. While there is no such lock, a waiter consumes from the
// tokens of the type that was asked for.
func (c *Contender) detectType(ctx context.Context) error {
	if c.detected {
		return nil
	}
	n, err := slots.DetectType(ctx, c.session.Side(), c.asked)
	switch {
	case errors.Is(err, lock.ErrAbsent) && c.seen && c.id.Kind == lock.Mutex:
		return c.asked.Vanished()
	case errors.Is(err, lock.ErrAbsent):
		n = c.asked
	case err != nil:
		return err
	}
	c.detected = err == nil
	c.names = n
	if c.detected {
		c.found(n)
	}
	return c.Drawer.UseQueue(ctx, n)
}

// makeMutex makes a mutex that does not exist, and that nobody administers, under the administration mutex.
func (c *Contender) makeMutex(ctx context.Context) error {
	if c.id.Kind != lock.Mutex {
		return nil
	}
	if err := c.exists(ctx, 1); !errors.Is(err, transport.ErrNoQueue) {
		return err
	}
	return c.administering(ctx, c.make)
}

// make makes the queues of a mutex, A last. Berths that use classic queues make a ledger, too, and look for this one: of
// two that disagree at least one sees both.
func (c *Contender) make(ctx context.Context) error {
	if err := c.exists(ctx, 1); !errors.Is(err, transport.ErrNoQueue) {
		return err // another berth has made it meanwhile
	}
	ctx, cancel := ledger.Finishing(ctx)
	defer cancel()
	if _, err := slots.OfNoOtherType(ctx, c.session, c.names, true, false); err != nil {
		return err
	}
	maker := ledger.Maker{Names: c.names, Side: c.session.Side(), Lender: c.session.Lender, Log: c.log}
	err := maker.Make(ctx, 1, func() (known bool, err error) {
		discarded, err := slots.OfNoOtherType(ctx, c.session, c.names, true, true)
		if err == nil {
			err = c.pool().Make(ctx) // others draw from it as soon as A is there, and RabbitMQ 3.10 cuts them off if it is half-made
		}
		return !discarded && !c.detected && !c.session.Returned(), err // otherwise it was there before
	})
	if err != nil {
		return err
	}
	return c.pool().Repair(ctx, 1, 0)
}

// attempt draws tokens until one of them is worth its slot. It prefers slots in which a command can be started at once.
func (c *Contender) attempt(ctx context.Context) (Place, token.Token, error) {
	a := attempt{Contender: c}
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
	*Contender
	seen      []token.Token // in hand
	aside     []token.Token // those whose slots were refused at the last attempts
	waited    []token.Token // those whose last holder has to be waited for
	gone      int           // how many slots were gone to
	useless   int           // how many tokens were removed
	hindrance error
}

// draw draws tokens and goes to their slots, but for those that were refused before: their tokens come first again.
func (a *attempt) draw(ctx context.Context) (Place, token.Token, error) {
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
func (a *attempt) each(ctx context.Context, of []token.Token, now bool) (Place, token.Token, error) {
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
			if !slots.LostRace(err) {
				a.hindrance = err
			}
		}
		a.gone++
		if !a.session.Usable() || ctx.Err() != nil {
			return nil, token.Token{}, err
		}
	}
	return nil, token.Token{}, nil
}

// refused notes whether there were tokens, of no use.
func (c *Contender) refused(drawn bool) {
	if !drawn {
		c.refusal, c.refusals = 0, nil
		return
	}
	c.refusal = min(max(2*c.refusal, firstPause), maxRefusal)
}

// errUseless says that a token's slot does not exist, or that it is none.
var errUseless = errors.New("the token is of no use")

// claim claims the slot of a token. With now it returns slots.ErrMustWait where a command could not be started at once.
func (c *Contender) claim(ctx context.Context, t token.Token, now bool) (h Place, err error) {
	if t.Slot == 0 {
		c.log.Warn("a message that is no token is removed", "queue", c.Drawer.Queue)
		return nil, errUseless
	}
	if c.leftover(ctx, t.Slot) {
		c.log.Debug("a token of a leftover is removed", "slot", t.Slot)
		return nil, errUseless
	}
	for pause, try := firstPause, 1; ; pause, try = 2*pause, try+1 {
		h, err = c.enter(ctx, t.Slot, now)
		if err == nil || !errors.Is(err, transport.ErrTaken) || try == tries {
			break
		}
		if err := transport.Sleep(ctx, pause); err != nil {
			return nil, err
		}
	}
	if errors.Is(err, transport.ErrNoQueue) && errors.Is(c.exists(ctx, t.Slot), transport.ErrNoQueue) {
		c.log.Debug("a token of a slot that was removed", "slot", t.Slot)
		return nil, errUseless
	}
	return h, err
}

// enter takes the reader's place of a slot.
func (c *Contender) enter(ctx context.Context, slot int, now bool) (Place, error) {
	if c.names.Replicated() {
		if h, err := c.Replicated.Claim(ctx, slot, now); err != nil {
			return nil, err
		} else {
			return h, nil
		}
	}
	h, err := c.Holder.Claim(ctx, slot, now)
	if err != nil {
		return nil, err
	}
	return h, nil
}

// exists returns nil if the slot exists.
func (c *Contender) exists(ctx context.Context, slot int) error {
	return slots.Find(ctx, c.session, c.session.Side(), c.names.Exists(slot))
}

// leftover reports whether a slot is beyond one that does not exist, and so nobody's.
func (c *Contender) leftover(ctx context.Context, slot int) bool {
	gap, err := (&slots.Finder{Names: c.names, Session: c.session, Limit: lock.MaxSlots}).Gap(ctx, slot)
	return err == nil && gap > 0 && errors.Is(c.session.Side().Find(ctx, c.names.Exists(gap)), transport.ErrNoQueue)
}

// none is the outcome where nobody has left a token.
func (c *Contender) none(ctx context.Context) error {
	switch err := c.exists(ctx, 1); {
	case err == nil:
		return c.id.Full()
	case errors.Is(err, transport.ErrNoQueue):
		return c.names.Absent()
	default:
		return err
	}
}

// noTokens is the outcome where tokens cannot be drawn.
func (c *Contender) noTokens(ctx context.Context, err error) error {
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

// Wait implements lock.Lock. It returns when a token has come.
func (c *Contender) Wait(ctx context.Context, pause time.Duration) error {
	conn := c.session.Conn()
	if conn == nil {
		return lock.Errorf(lock.ErrUnreachable, "cannot wait for %s: not connected", c.id)
	}
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
		if c.names.Replicated() {
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
		c.log.Debug("no token can come for now", "error", err)
		c.soon = c.soon || token.Ended(err)
		return c.sleep(ctx, pause)
	}
}

// sleep ends with the connection.
func (c *Contender) sleep(ctx context.Context, pause time.Duration) error {
	return c.session.Conn().Sleep(ctx, pause, c.id.String())
}

// Handovers implements lock.Lock. There is no successor before it has a token.
func (c *Contender) Handovers() <-chan lock.Handover { return nil }

// Requests implements lock.Lock.
func (c *Contender) Requests() <-chan lock.Request { return c.Holder.Inbox.Requests() }

// Close implements lock.Lock. It takes a second at most, and two more if something is just being published.
func (c *Contender) Close() error {
	answered := make(chan struct{})
	go func() {
		c.Holder.Inbox.Close()
		close(answered)
	}()
	err := c.session.Close() // which gives back what is in hand
	<-answered
	if c.held != nil {
		c.held.Token.Wait()
		c.held.Wait()
		c.held = nil
	}
	return err
}
