// Package observe tells others what a supervisor does: systemd, by its protocol
// for services.
//
//	systemd, err := observe.NewSystemd(observe.SystemdConfig{Lock: id, Ready: observe.Waiting})
//	defer systemd.Close()
//	supervisor.Run(supervisor.Config{Observer: systemd, Beat: systemd.Beats(), ...})
//
// It knows nothing of locks, brokers and processes but what a
// supervisor.Situation says, and it never keeps a supervisor waiting.
package observe

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"berth/lock"
	"berth/supervisor"
)

// Ready is when a service counts as started (READY=1 in sd_notify(3)).
type Ready string

const (
	// Waiting: when it is connected and in line for a slot. It is the default.
	Waiting Ready = "waiting"
	// Holding: when its command runs.
	Holding Ready = "holding"
)

const (
	// beats is how often systemd is told that a start or an end goes on, without a
	// watchdog that wants to know more often.
	beats = 10 * time.Second

	// extension is how much longer than that it may take for the next one to come.
	extension = 30 * time.Second

	// afterKill is what is left to do when the stop sequence has come to KILL: the
	// tree dies, the slot is given back, connections are closed.
	afterKill = 15 * time.Second

	// commandStart is how long a command may take that tells by itself when it is
	// ready.
	commandStart = 5 * time.Minute

	// lastWords bounds how long Close waits for a systemd that does not read.
	lastWords = time.Second
)

// SystemdConfig is what the notifications depend on.
type SystemdConfig struct {
	Lock  lock.ID
	Ready Ready // "" is Waiting

	// Passed: the command has NOTIFY_SOCKET and the watchdog too, and tells by
	// itself that it is ready and, while it runs, that it is there.
	Passed bool
}

// Systemd tells systemd what a supervisor does (sd_notify(3)): whether the service
// is ready, what it does, that it is there, that it ends and how long that may
// take. It implements supervisor.Observer.
type Systemd struct {
	cfg      SystemdConfig
	watchdog time.Duration // 0: none

	// Owned by the supervisor's goroutine.
	now    supervisor.Situation
	status string // what was said last
	ready  bool

	// What has not been sent yet, by the name of the assignment.
	mu      sync.Mutex
	pending map[string]string
	wake    chan struct{} // has room for one
	over    chan struct{} // closed by Close
	done    chan struct{} // closed when nothing is sent any more
}

// NewSystemd reads NOTIFY_SOCKET and WATCHDOG_USEC. It returns nil if this process
// was not started by systemd, or by one that wants no notifications. The error is
// for a watchdog that makes no sense.
func NewSystemd(cfg SystemdConfig) (*Systemd, error) {
	if os.Getenv("NOTIFY_SOCKET") == "" {
		return nil, nil
	}
	watchdog, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		return nil, fmt.Errorf("WATCHDOG_USEC=%q is not a number of microseconds; systemd sets it from WatchdogSec",
			os.Getenv("WATCHDOG_USEC"))
	}
	s := &Systemd{
		cfg: cfg, watchdog: watchdog,
		pending: make(map[string]string),
		wake:    make(chan struct{}, 1), over: make(chan struct{}), done: make(chan struct{}),
	}
	go s.send()
	return s, nil
}

// Beats returns how often the supervisor is to call Beat: at half of what the
// watchdog allows (sd_watchdog_enabled(3)). It is 0, never, for nil.
func (s *Systemd) Beats() time.Duration {
	if s == nil {
		return 0
	}
	if s.watchdog > 0 {
		return min(s.watchdog/2, beats)
	}
	return beats
}

// Observe implements supervisor.Observer. It does nothing for nil.
func (s *Systemd) Observe(now supervisor.Situation) {
	if s == nil {
		return
	}
	started := now.Pid != 0 && s.now.Pid == 0
	first, ends, sequence := s.status == "", now.Ending && !s.now.Ending, now.KillAt != s.now.KillAt
	s.now = now
	if text := status(s.cfg.Lock, now); text != s.status {
		s.status = text
		s.say("STATUS", text)
	}
	if !s.ready && !s.cfg.Passed && s.isReady() {
		s.ready = true
		s.say("READY", "1")
	}
	if ends {
		s.say("STOPPING", "1")
	}
	if first || ends || sequence {
		s.extend()
	}
	if s.cfg.Passed && started {
		s.sayTime(commandStart)
	}
}

// isReady judges a situation. A slot that is held, or has been, was waited for.
func (s *Systemd) isReady() bool { return s.cfg.Ready.At(s.now) }

// At reports whether a service counts as started in a situation.
func (r Ready) At(now supervisor.Situation) bool {
	switch {
	case now.State.Working():
		return true
	case now.State.Keeping(), now.State == supervisor.Waiting:
		return r != Holding
	}
	return false
}

// Beat implements supervisor.Observer. It does nothing for nil.
func (s *Systemd) Beat() {
	if s == nil {
		return
	}
	if s.watchdog > 0 && !(s.cfg.Passed && s.now.Pid != 0 && !s.now.Frozen) {
		s.say("WATCHDOG", "1")
	}
	s.extend()
}

// extend asks for time where systemd counts it: in line until the service is ready,
// because that may take for ever, and while it ends, for what the sequence takes. What
// KILL does not end by then is systemd's: a stop, and a shutdown, must not wait for
// ever. In between it would count for RuntimeMaxSec. Without a broker systemd's own time-out
// counts, because others may wait for this service, the end of the boot for example.
func (s *Systemd) extend() {
	switch {
	case s.now.Ending && !s.now.KillAt.IsZero():
		if left := time.Until(s.now.KillAt.Add(afterKill)); left > 0 {
			s.sayTime(left)
		}
	case s.now.Ending: // what is left takes seconds
	case s.ready, s.now.State.Reaching():
	case !s.cfg.Passed, s.now.Pid == 0:
		s.sayTime(s.Beats() + extension)
	}
}

func (s *Systemd) sayTime(d time.Duration) {
	s.say("EXTEND_TIMEOUT_USEC", fmt.Sprint(d.Microseconds()))
}

// say has an assignment sent, in place of one of that name which waits.
func (s *Systemd) say(name, value string) {
	s.mu.Lock()
	s.pending[name] = value
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// send sends what there is to say until Close. systemd may be slow to read, which
// must not keep the supervisor from its slot.
func (s *Systemd) send() {
	defer close(s.done)
	for {
		select {
		case <-s.wake:
			s.sendPending()
		case <-s.over:
			s.sendPending()
			return
		}
	}
}

// sendPending sends one message. That nobody listens is nothing that a service
// could do anything about.
func (s *Systemd) sendPending() {
	s.mu.Lock()
	var lines []string
	for name, value := range s.pending {
		lines = append(lines, name+"="+value)
	}
	slices.Sort(lines)
	clear(s.pending)
	s.mu.Unlock()
	if len(lines) > 0 {
		_, _ = daemon.SdNotify(false, strings.Join(lines, "\n"))
	}
}

// Close sends what waits, and ends the notifications. It does nothing for nil.
func (s *Systemd) Close() {
	if s == nil {
		return
	}
	close(s.over)
	select {
	case <-s.done:
	case <-time.After(lastWords):
	}
}
