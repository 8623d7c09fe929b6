package simulation

import (
	"context"
	"runtime/pprof"
	"time"
)

// task is a process of a host, a berth or a guard, as far as it can be killed and stopped. world.mu guards it.
type task struct {
	host    *host
	name    string
	killed  bool
	gone    chan struct{}  // closed when it is killed
	stopped chan struct{}  // closed when it goes on; nil: it is not stopped
	stops   int            // how many keep it stopped: each has to end
	late    []func()       // what it has done while it was stopped, which takes effect when it goes on
	links   map[*link]bool // its connections
	inFirst bool           // what has come is read before it is seen how late it is
	owner   uintptr        // of its timers; 0: they do not wait while it is stopped
}

func newTask(h *host, name string) *task {
	return &task{host: h, name: name, gone: make(chan struct{}), links: map[*link]bool{}}
}

// await returns when the process is not stopped, and reports whether it lives.
func (t *task) await() bool {
	w := t.host.w
	for {
		w.mu.Lock()
		stopped, killed := t.stopped, t.killed
		w.mu.Unlock()
		if killed || stopped == nil {
			return !killed
		}
		select {
		case <-stopped:
		case <-t.gone:
		}
	}
}

// does has something that the process does to others take effect: now, when it goes on, or never. The caller has
// world.mu.
func (t *task) does(what func()) {
	switch {
	case t.killed:
	case t.stopped != nil:
		t.late = append(t.late, what)
	default:
		what()
	}
}

// run runs the process.
func (t *task) run(process func()) {
	pprof.Do(context.Background(), pprof.Labels("process", t.name), func(context.Context) {
		t.host.w.mu.Lock()
		t.owner = self()
		wallClock(t.owner, t.host.cfg.Clock)
		t.host.w.mu.Unlock()
		process()
	})
}

// What a runtime does that was built for it: see package overlay. Without it the timers of a process that is stopped go
// on.
var (
	self      = func() uintptr { return 0 }                 // the process of the goroutine
	unowned   = func(bool) {}                               // has timers that are set belong to no process
	wallClock = func(owner uintptr, ahead time.Duration) {} // says how far a process's wall clock is ahead
	hold      = func(owner uintptr, until time.Duration) {} // has the timers of a process wait
)

// later has f happen, whatever becomes of the process that says so.
func (w *world) later(d time.Duration, f func()) *time.Timer {
	unowned(true)
	defer unowned(false)
	return time.AfterFunc(d, f)
}

// stop has nothing of the process run for that long, until goOn. The caller has world.mu.
func (t *task) stop(d time.Duration) {
	if t.stops++; t.stopped == nil && !t.killed {
		t.stopped = make(chan struct{})
		t.inFirst = t.host.w.random.IntN(2) == 0
		if t.owner != 0 {
			moment := -time.Nanosecond
			if t.inFirst {
				moment = time.Nanosecond
			}
			hold(t.owner, d+moment)
		}
		t.host.w.note(t.name, "--- stopped")
	}
}

// goOn ends a stop. The caller has world.mu.
func (t *task) goOn() {
	t.stops--
	if t.stops > 0 || t.stopped == nil || t.killed {
		return
	}
	close(t.stopped)
	t.stopped = nil
	t.host.w.note(t.name, "--- goes on")
	late := t.late
	t.late = nil
	for _, what := range late {
		what()
	}
	t.host.clock.rouse()
	for _, l := range ordered(t.links, func(l *link) int { return l.number }) {
		l.up.pump()
		l.client.ring()
	}
}

// kill ends the process. Its sockets are closed by the kernel. The caller has world.mu.
func (t *task) kill(how string) {
	if t.killed {
		return
	}
	t.host.w.note(t.name, "--- %s", how)
	t.host.w.history.Windows.Strike(t.name, true)
	t.end()
}

// end is for a process that is over. The caller has world.mu.
func (t *task) end() {
	if t.killed {
		return
	}
	t.killed, t.late, t.stopped = true, nil, nil
	if t.owner != 0 {
		hold(t.owner, 0)
	}
	close(t.gone)
	for _, l := range ordered(t.links, func(l *link) int { return l.number }) {
		l.up.forget()
		l.client.abandon()
	}
}
