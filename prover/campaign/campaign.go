// Package campaign has clients contend for a lock, breaks things meanwhile, and returns the history.
//
// All that it has started is dead when [Run] returns, whatever ended it. What is left when the prover itself is killed ends
// by itself, some time after the campaign should have.
package campaign

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"berth/prover/adapter"
	"berth/prover/fault"
	"berth/prover/history"
	"berth/prover/witness"
	"berth/test/brokertest"
)

const (
	tick  = 10 * time.Millisecond  // how often the campaign looks at what has to be done
	look  = 250 * time.Millisecond // how often it reads records
	rest  = 200 * time.Millisecond // from a client's start to that of the one in its place, at least
	grace = 20 * time.Second       // how long a client has to end on TERM
	ask   = 5 * time.Second        // how often it asks whether that is enough

	// How long most commands work; one in five does so for half of Config.Work to all of it.
	leastWork, mostWork = 100 * time.Millisecond, 3 * time.Second

	// Between two faults.
	leastPause, mostPause = 100 * time.Millisecond, 2 * time.Second

	// What lasts does so for up to briefly, or, every third time, longest: longer than a lease, as a rule.
	briefly, longest = 2 * time.Second, 15 * time.Second

	exitStatus = 7 // of commands that have worked until their end: a lock has others of its own

	settling    = 10 * time.Second // for how long a fault waits for a command that it can strike
	healTimeout = 2 * time.Minute  // in which a broker is started again
)

// ErrNothingRan is returned when no command ran at all.
var ErrNothingRan = errors.New("no command has run: the lock must run {witness}, and pass its variables WITNESS_* on")

// Config is what clients contend for, and what is broken meanwhile.
type Config struct {
	Adapter adapter.Template
	Values  adapter.Values // of its placeholders, but for the witness, and for a broker with relays
	Slots   int
	Clients int
	Skip    int // how many clients are not started: with 2 the first one is c3

	Servers []*url.URL          // the nodes of the broker that relays are before; nil: there are none
	Cluster *brokertest.Cluster // the prover's own, of one node or more; nil: there is none

	Faults   []fault.Fault
	Allows   map[string][]string // the checkers whose promises a fault may break, by its name
	AtOnce   int                 // how many faults may last at once; default: 1
	Time     time.Duration       // for how long faults strike
	Work     time.Duration       // how long the longest commands work
	Progress time.Duration       // for how long the end waits for commands after the last fault
	Orphan   time.Duration       // for how long what lives on at the end is no leftover yet
	Calm     time.Duration       // for how long nothing is broken once a command has run
	Script   []Plan              // how faults strike; nil: that is drawn
	Seed     uint64

	Enough func(history.History) bool // asked now and then whether the campaign may end; nil: it may not

	Logs string // the directory for what clients print; "": one that is removed at the end

	Mode, SlotVariable, TermVariable string // as package witness has them
}

// campaign is a run under way. One goroutine owns it.
type campaign struct {
	Config
	dir     string // with records, and the register
	began   int64
	random  *rand.Rand // of the faults
	clients []*client  // whose end is not in the history yet
	started int
	first   time.Time               // when a command was seen to run; zero: none was. See hasRun
	relays  map[string]*fault.Relay // by client, also of those that have ended: what those leave may use theirs
	history history.History
	lived   *witness.Records

	enough  bool      // Config.Enough has said so
	asked   time.Time // when it was asked last
	next    time.Time // before which no fault strikes
	plan    *Plan     // nil: there is none yet
	broken  []*breach
	lasting context.Context // until calm is called
	calm    context.CancelFunc
}

// Run has clients contend for cfg.Time, and returns what happened, also with an error.
func Run(ctx context.Context, cfg Config) (history.History, error) {
	dir, err := os.MkdirTemp("", "berth-prove-")
	if err != nil {
		return nil, fmt.Errorf("cannot make a directory for records: %w", err)
	}
	defer os.RemoveAll(dir)
	c := &campaign{Config: cfg, dir: dir, began: history.Now(), started: cfg.Skip,
		random: rand.New(rand.NewPCG(cfg.Seed, 0)), relays: map[string]*fault.Relay{}}
	c.lived = &witness.Records{Dir: c.records()}
	c.lasting, c.calm = context.WithCancel(ctx)
	c.Logs = cmp.Or(c.Logs, dir)
	self, err := os.Executable()
	err = errors.Join(err, os.Mkdir(c.records(), 0o700), os.Mkdir(c.register(), 0o700), os.MkdirAll(c.Logs, 0o755),
		os.Symlink(self, c.witness())) // a link: one word for any adapter
	if err != nil {
		return nil, fmt.Errorf("cannot prepare records, logs and the witness: %w", err)
	}
	err = c.contend(ctx)
	err = errors.Join(err, c.end(ctx), c.gather())
	lived := func(e history.Event) bool { return e.Kind == history.Life }
	if err == nil && !slices.ContainsFunc(c.history, lived) {
		err = fmt.Errorf("%w. The first client has printed: %s", ErrNothingRan, c.output(fmt.Sprintf("c%d", c.Skip+1)))
	}
	return c.history, err
}

func (c *campaign) records() string { return filepath.Join(c.dir, "records") }

func (c *campaign) register() string { return filepath.Join(c.dir, "register") }

func (c *campaign) witness() string { return filepath.Join(c.dir, witness.Name) }

// contend has clients contend and faults strike, until the time is over and all is calm again.
func (c *campaign) contend(ctx context.Context) error {
	lock := history.Event{Kind: history.Lock, Lock: c.Values[adapter.Lock], Slots: c.Slots}
	for _, f := range c.Faults {
		lock.Faults = append(lock.Faults, f.Name)
	}
	c.note(lock)
	over, pause := time.Now().Add(c.Time), c.Calm+between(c.random, leastPause, mostPause)
	if c.Script != nil {
		pause = 0
	}
	c.next = time.Now().Add(pause)
	err := c.keep(ctx, tick, func() (bool, error) {
		switch {
		case time.Now().After(over):
			return true, nil
		case c.Enough != nil && time.Since(c.asked) > ask:
			err := c.askWhether()
			return c.enough, err
		case !c.hasRun(): // so that a lock whose clients give up at once gets to run something
			c.next = time.Now().Add(pause)
		case len(c.Faults) > 0:
			return false, c.strike(ctx)
		}
		return false, nil
	})
	if err = errors.Join(err, c.heal()); err != nil || c.enough {
		return err
	}
	calm, late := history.Now(), time.Now().Add(c.Progress+c.Progress/4+time.Second) // not all of it may count
	return c.keep(ctx, look, func() (bool, error) {
		taken, err := c.allTaken(calm)
		return taken || time.Now().After(late), err
	})
}

// askWhether asks whether the history is enough as it would be if all ended now.
func (c *campaign) askWhether() error {
	now := *c
	now.history = slices.Clone(c.history)
	for _, b := range c.broken {
		now.note(history.Event{Kind: history.Fault, Fault: b.fault.Name, Target: b.event.Target, Allows: b.event.Allows,
			At: b.event.At, Until: history.Now()})
	}
	for _, one := range c.clients {
		now.note(history.Event{Kind: history.Client, Client: one.name, At: one.At})
	}
	if err := now.gather(); err != nil {
		return err
	}
	c.enough, c.asked = c.Enough(now.history), time.Now()
	return nil
}

// hasRun reports whether any command has.
func (c *campaign) hasRun() bool {
	if c.first.IsZero() && witness.Began(c.records(), 0) > 0 {
		c.first = time.Now()
	}
	return !c.first.IsZero()
}

// allTaken reports whether no slot can have been lost: each has been taken since the moment, or was by a client that is
// still there, by what commands were told, or as many have lived at once as there can be.
func (c *campaign) allTaken(since int64) (bool, error) {
	lives, err := c.lived.Read()
	lives = slices.DeleteFunc(lives, func(l history.Event) bool {
		there := slices.ContainsFunc(c.clients, func(one *client) bool { return one.name == l.Client })
		return l.Kind == history.Update || l.Until < since || l.At < since && !there // what a client has left takes no slot
	})
	slots, most := map[int]bool{}, 0
	for _, one := range lives {
		slots[one.Slot] = true
		runs := map[string]bool{} // alive when this one was first
		for _, other := range lives {
			if at := max(one.At, since); other.At <= at && at <= other.Until {
				runs[other.Run] = true
			}
		}
		most = max(most, len(runs))
	}
	delete(slots, 0) // which is none
	return max(len(slots), most) >= c.Slots, err
}

// keep keeps the number of clients, and calls do again and again, until that reports the end.
func (c *campaign) keep(ctx context.Context, pause time.Duration, do func() (end bool, err error)) error {
	for {
		if err := c.replace(); err != nil {
			return err
		}
		if end, err := do(); end || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}
