// Package fault is what the prover breaks, and how that is healed again.
package fault

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"berth/test/brokertest"
	"berth/test/process"
)

// Needs is what has to be there for a fault.
type Needs int

// What faults need.
const (
	Client Needs = iota // a client that runs
	Link                // and a relay between it and its broker
	Broker              // a broker that the prover has started; all clients are struck
)

// Target is what a fault strikes.
type Target struct {
	Client interface { // nil for a fault that needs a broker
		PID() int
		Signal(syscall.Signal)
	}
	Link   *Relay
	Broker *brokertest.Broker
}

// Fault is one way to break something.
type Fault struct {
	Name, About string
	Needs       Needs

	// Lasts: it stays broken until it is healed. Others are over in a moment.
	Lasts bool

	strike func(Target) (heal func(context.Context) error, err error)
}

// ErrNothing is returned when there was nothing to strike.
var ErrNothing = errors.New("there is nothing to strike")

// Strike breaks something, and returns what heals it.
func (f Fault) Strike(t Target) (heal func(context.Context) error, err error) {
	if heal, err = f.strike(t); heal == nil {
		heal = func(context.Context) error { return nil }
	}
	return heal, err
}

// All is all faults that there are.
var All = []Fault{
	{Name: "kill", About: "KILL to a client, and not to what it has started", strike: signal(syscall.SIGKILL)},
	{Name: "term", About: "TERM to a client, and not to what it has started", strike: signal(syscall.SIGTERM)},
	{Name: "stop", About: "STOP to a client, and CONT a while later", Lasts: true,
		strike: func(t Target) (func(context.Context) error, error) {
			t.Client.Signal(syscall.SIGSTOP)
			return func(context.Context) error {
				t.Client.Signal(syscall.SIGCONT)
				return nil
			}, nil
		}},
	{Name: "stop-command", About: "STOP to a client and to its command, and CONT a while later", Lasts: true, strike: stopCommand},
	{Name: "kill-child", About: "KILL to the first child of a client", strike: killChild},
	{Name: "reset", About: "the connections of a client are reset", Needs: Link,
		strike: func(t Target) (func(context.Context) error, error) {
			if t.Link.Reset() == 0 {
				return nil, ErrNothing
			}
			return nil, nil
		}},
	{Name: "cut", About: "nothing gets through between a client and its broker, for a while", Needs: Link, Lasts: true,
		strike: func(t Target) (func(context.Context) error, error) {
			t.Link.Cut()
			return func(context.Context) error {
				t.Link.Heal()
				return nil
			}, nil
		}},
	{Name: "broker-stop", About: "STOP to the broker, and CONT a while later", Needs: Broker, Lasts: true,
		strike: func(t Target) (func(context.Context) error, error) {
			return func(context.Context) error { return t.Broker.Continue() }, t.Broker.Pause()
		}},
	{Name: "broker-kill", About: "KILL to the broker, which is started again a while later", Needs: Broker, Lasts: true,
		strike: func(t Target) (func(context.Context) error, error) { return t.Broker.Restart, t.Broker.Kill9() }},
}

func signal(sig syscall.Signal) func(Target) (func(context.Context) error, error) {
	return func(t Target) (func(context.Context) error, error) {
		t.Client.Signal(sig)
		return nil, nil
	}
}

func killChild(t Target) (func(context.Context) error, error) {
	children := process.Descendants(t.Client.PID())
	if len(children) == 0 || syscall.Kill(children[0], syscall.SIGKILL) != nil {
		return nil, ErrNothing
	}
	return nil, nil
}

// stopCommand has a client and its command stand still together, as a long pause of their program or their host does. What
// else the client has started goes on.
func stopCommand(t Target) (func(context.Context) error, error) {
	self := process.Executable(os.Getpid()) // which is the command as well: package witness
	pids := append([]int{t.Client.PID()}, process.Descendants(t.Client.PID())...)
	i := slices.IndexFunc(pids, func(pid int) bool { return process.Executable(pid) == self })
	if i < 0 {
		return nil, ErrNothing
	}
	both := func(sig syscall.Signal) {
		_ = syscall.Kill(pids[i], sig) // unless it has ended
		t.Client.Signal(sig)
	}
	both(syscall.SIGSTOP)
	return func(context.Context) error { both(syscall.SIGCONT); return nil }, nil
}

// Named returns the faults of a list such as "kill,cut", or with "all" those that need no more than that.
func Named(list string, most Needs) ([]Fault, error) {
	var faults []Fault
	for name := range strings.SplitSeq(list, ",") {
		i := slices.IndexFunc(All, func(f Fault) bool { return f.Name == name })
		switch {
		case name == "": // none
		case name == "all":
			faults = append(faults, slices.DeleteFunc(slices.Clone(All), func(f Fault) bool { return f.Needs > most })...)
		case i < 0:
			return nil, fmt.Errorf("there is no fault %q; berth-prove list prints all", name)
		case All[i].Needs == Link && most < Link:
			return nil, fmt.Errorf("fault %s needs a proxy before the broker: give --broker start, or a URL with a port "+
				"and without TLS, such as http://127.0.0.1:2379", name)
		case All[i].Needs > most:
			return nil, fmt.Errorf("fault %s needs a broker of the prover's own: start one with --broker start", name)
		default:
			faults = append(faults, All[i])
		}
	}
	return faults, nil
}
