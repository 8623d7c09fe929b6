// Package check is what `berth check` says: whether a configuration keeps the
// promise, when what happens, and whether a broker can carry it.
//
//	r := check.New(cfg)
//	r.AskBroker(ctx, log, "")
//	err := r.WriteText(os.Stdout)
//
// It knows configurations, and nothing of the command line. The arithmetic is that
// of package config, what a broker says that of package lock/rabbit, and what its
// management plugin says that of package management.
package check

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/internal/backends"
	"berth/internal/config"
	"berth/internal/management"
	"berth/lock"
	"berth/lock/rabbit"
)

// Timeout is how long a broker may take that is asked: a working one answers all of
// it within a tenth of a second, a node that does not answer costs 5 s.
const Timeout = 30 * time.Second

// Report is everything that `berth check` says.
type Report struct {
	Problems []error  // what keeps the configuration from working, or from being safe
	Warnings []string // what keeps it from working here, where another host may be meant, and who else sees passwords
	Advice   []string // what else is worth knowing

	cfg     config.Run
	broker  *rabbit.Report     // nil: it was not asked, or did not answer
	api     *management.Report // of the management API; nil as that
	unasked bool               // the management API was asked, and told nothing
}

// New judges what the configuration alone says.
func New(cfg config.Run) *Report {
	r := &Report{cfg: cfg}
	if !cfg.Local {
		if err := cfg.Timings().Check(); err != nil {
			r.Problems = append(r.Problems, err)
		}
	}
	if r.plain() {
		r.advisePlain()
	}
	if cfg.Lock.Name == "" {
		r.advise("no lock is named; 'berth run' needs " + config.LockFlags())
	}
	if !cfg.Local && len(cfg.Brokers) == 0 {
		r.advise("no broker is named; 'berth run' needs --broker or BERTH_BROKER")
	}
	return r
}

// plain reports whether nothing but queues A and B says who holds a slot.
func (r *Report) plain() bool { return !r.cfg.Local && r.cfg.Protocol == config.ProtocolPlain }

// advisePlain says what the plain protocol does not give.
func (r *Report) advisePlain() {
	r.advise("with --protocol plain no berth tells that its command is dead: every handover takes the handover delay, " +
		"also a clean one")
	r.advise("with --protocol plain no berth knows another's lease: give all users of the lock the same --heartbeat, and " +
		"have other implementations wait for as long once they have won a slot; one that starts at once may run beside " +
		"a command that is being ended")
	r.advise("with --protocol plain nothing arbitrates where a cluster is split and both sides go on: each gives out the " +
		"slot, and both commands run; use a single node")
	r.advise("with --protocol plain BERTH_TERM is this host's clock, in microseconds, when the command starts: it grows " +
		"as far as the clocks of all holders agree to within the handover delay")
	r.advise("with --protocol plain the end of a slot is noticed by the next verification, waiters look from time to " +
		"time and in no order, and no berth can be asked: no status of a holder, step-down, reload, takeover or priority")
}

// AdviseOnNodes adds what a lock does not survive for whose queues no type is configured, where several brokers are. A
// broker that is asked knows which type the lock has.
func (r *Report) AdviseOnNodes() {
	if !r.cfg.Local && !r.plain() && len(r.cfg.Brokers) > 1 && r.cfg.QueueType == "" {
		r.advise("several brokers are named, and no --queue-type: a new lock depends on single nodes; with --queue-type quorum " +
			"it survives the loss of any one of three")
	}
}

// advise adds something that is worth knowing.
func (r *Report) advise(text string) { r.Advice = append(r.Advice, text) }

// LookAtDirectory adds whether local locks can be kept where they are to be. Its
// error is that of AskBroker.
func (r *Report) LookAtDirectory() error {
	return r.add(backends.InspectDirectory(r.cfg))
}

// AskBroker adds what the broker says; that it does not let us in is a finding too. With the URL of its management API it
// adds what only that knows, where it may be asked.
// The context is to end after Timeout at the latest. An error wraps
// config.ErrInvalid, and means that there was nobody to be asked.
func (r *Report) AskBroker(ctx context.Context, log hclog.Logger, api string) error {
	found, err := backends.InspectBroker(ctx, r.cfg, log)
	if found.Broker != "" {
		r.broker = &found
	}
	r.Problems = append(r.Problems, found.Problems...)
	r.Advice = append(r.Advice, found.Advice...)
	if err := r.add(inTime(err, "the broker")); err != nil {
		return err
	}
	if api != "" && ctx.Err() == nil {
		r.askManagement(ctx, api)
	}
	r.adviseUnseen(found.Unseen, api)
	return nil
}

// inTime says of an error that it is one of Timeout.
func inTime(err error, who string) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return lock.Errorf(lock.ErrUnreachable,
			"%s did not answer everything within %s (%s); see whether it is well", who, Timeout, err.Error())
	}
	return err
}

// add makes an error of an inspection a problem, unless it says that there was none.
func (r *Report) add(err error) error {
	if err != nil && !errors.Is(err, config.ErrInvalid) {
		r.Problems, err = append(r.Problems, err), nil
	}
	return err
}
