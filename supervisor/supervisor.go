// Package supervisor has what a supervisor is told and what it tells: how it is configured ([Config]), what it wants of
// a guard ([Guard]), in which states it can be ([State]), what its observer hears ([Observer], [Tally]), how a run ends
// ([Exit], and the exit statuses of berth). It is the vocabulary of packages that know of each other in one
// direction only:
//
//   - supervisor has values and interfaces, and does nothing.
//   - [berth/supervisor/machine] decides: the table of states, and why it all ends and what then.
//   - [berth/supervisor/calls] asks the lock, one call at a time.
//   - [berth/supervisor/checks] has health checks run, one at a time.
//   - [berth/supervisor/answers] sends what requests are answered.
//   - [berth/supervisor/loop] waits, does what was decided, and tells the guard.
//
// It knows no backend and no process: the words for what a guard is told and tells are those of package
// [berth/internal/guard/wire]. The example puts a backend and a guard together, and has
// [berth/supervisor/loop.Run] run a command.
package supervisor

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/internal/boottime"
	"berth/internal/guard/wire"
	"berth/lock"
	"berth/signals"
)

// OnLoss is what happens after the slot was lost.
type OnLoss string

const (
	// Retry queues up for the next slot. It is the default.
	Retry OnLoss = "retry"
	// NoRetry ends berth.
	NoRetry OnLoss = "exit"
)

// Restart is when a command that ended by itself is started again, in the same
// slot.
type Restart string

const (
	// Never gives the slot back and ends as the command did. It is the default.
	Never Restart = "never"
	// OnFailure starts it again unless it ended with status 0.
	OnFailure Restart = "on-failure"
	// Always starts it again however it ended.
	Always Restart = "always"
)

// OnDoubt is what happens to the command while verification is overdue and
// nothing proves a loss.
type OnDoubt string

const (
	// GoOn lets the command run until the loss sequence just fits before the
	// deadline. It is the default.
	GoOn OnDoubt = "run"
	// Freeze stops the whole tree, and continues it if a verification succeeds.
	Freeze OnDoubt = "freeze"
)

// StopTo is whom the stop sequence is for. The loss sequence is for every process.
type StopTo string

const (
	// StopFirst tells the first process, which looks after its own workers, and what that has left once it has ended.
	// It is the default.
	StopFirst StopTo = "first"
	// StopTree tells every process of the command.
	StopTree StopTo = "tree"
)

// Scope is whom a signal is for while the first process lives.
func (s StopTo) Scope() wire.Scope {
	if s == StopTree {
		return wire.Tree
	}
	return wire.Head
}

// Hook is a program of the user's that runs at a turn in the life of a slot, with the command's environment.
type Hook string

// The hooks. None delays the end of a command, or outlives HookTimeout.
const (
	// OnAcquire runs in the slot before the command is started there for the first time. If it fails, the command
	// is not started and the slot given back.
	OnAcquire Hook = "on_acquire"
	// OnRelease runs in the slot when the command's tree is dead and nothing more is to run there. A slot that is
	// lost meanwhile ends it as it would end the command.
	OnRelease Hook = "on_release"
	// OnLost runs when a slot was lost in which the command was to run, its tree is dead and the slot was given up.
	OnLost Hook = "on_lost"
)

// Config is everything that loop.Run needs. Fields without a stated default are
// required.
type Config struct {
	ID     lock.ID
	Lock   lock.Lock             // closed when the supervisor has ended
	Launch func() (Guard, error) // a guard for the command, not started yet

	// Signals is what this process receives: everything in signals.Forwarded
	// that it should act on, in the order in which it came.
	Signals <-chan os.Signal
	// Terminal reports whether berth's controlling terminal is still there. With
	// one, HUP ends berth while no command is there to receive it, and together
	// with the command once the terminal is gone. Default nil: there never was
	// one, and HUP is for the command, or noted.
	Terminal func() bool
	Rewrites signals.Rewrites

	Stop   signals.Sequence // an orderly end, the slot still held
	StopTo StopTo           // "" is StopFirst
	Loss   signals.Sequence // the slot lost or in doubt

	VerifyInterval time.Duration // from one verification's start to the next's
	VerifyTimeout  time.Duration // for one verification
	Margin         time.Duration // kept free before the lease ends

	Try     bool          // one attempt, then end
	Timeout time.Duration // give up waiting after it; 0: never
	OnLoss  OnLoss
	OnDoubt OnDoubt // "" is GoOn
	Restart Restart

	// Hooks launch a guard for each hook that there is. Default nil: there is none.
	Hooks map[Hook]func() (Guard, error)
	// HookTimeout is after which time a hook is killed.
	HookTimeout time.Duration

	// Health judges the command while it runs. Default: nobody does.
	Health Health
	// MaxRun is after which time the command is ended cleanly. 0: never.
	MaxRun time.Duration

	// CreateCommand is the command line that makes the lock, told to a user who
	// waits for one that does not exist. Default "": none.
	CreateCommand string

	// Takeover asks the holder of a slot, or of any that is held for 0, to step down, and
	// returns when ctx ends. It runs while this berth waits for that slot, and no more once it has had one. It tells
	// what it waits for itself: a few words that go on after "waiting for". Default nil: nobody is asked.
	Takeover func(ctx context.Context, slot int, tell func(what string)) error

	// Asked is what is asked of this process itself, not of who contends for a lock. Default nil: nothing is.
	Asked <-chan lock.Request

	// Reload reads again what can change while a slot is held. Default nil: nothing can.
	Reload func() (Reloaded, error)

	// Clock is what the slot's deadline is counted on, by the guard as well. Default: the kernel's.
	Clock boottime.Clock

	// Observer is told what happens. Default nil: nobody is.
	Observer Observer
	// Tally is told what can be counted. Default nil: nobody is.
	Tally Tally
	// Beat is how often the observer is told that the supervisor is there. Default
	// 0: never.
	Beat time.Duration

	Holder string // what the command gets as BERTH_HOLDER
	// Self is what others are told of this berth (lock.AskStatus) beside what changes: who it is, and its command.
	Self lock.Report
	Log  hclog.Logger // names the lock in every line
}

// Reloaded is what has changed in the middle of a run.
type Reloaded struct {
	Stop, Loss  signals.Sequence // from now on; one that is under way goes on
	StopTo      StopTo
	Hooks       map[Hook]func() (Guard, error)
	HookTimeout time.Duration
	Took        []string // what was different and has changed
	Kept        []string // what is different and cannot change before berth is started again
}

// ErrNotExecuted: the slot was won and the command could not be executed. What
// wraps it wraps a syscall.Errno too.
var ErrNotExecuted = errors.New("cannot execute the command")

// ErrUnhealthy: the command was ended because so many of its health checks in a row have failed.
var ErrUnhealthy = errors.New("the command was ended because its health checks failed")

// ErrOverran: the command was ended because it had run for Config.MaxRun.
var ErrOverran = errors.New("the command was ended because it has run for too long")

// ErrRefused: the slot was won, and on_acquire did not let the command start there.
var ErrRefused = errors.New("on_acquire has refused the slot")
