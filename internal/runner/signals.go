package runner

import (
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"

	"berth/signals"
)

// longQueue is how many signals wait for the supervisor before one that waits
// already is dropped when it comes again, as the kernel does from the first on.
const longQueue = 1000

// SignalQueue takes every signal that concerns the command, and passes them on in
// the order in which they come. The supervisor may be busy for a moment: meanwhile
// they wait here, and neither do they overtake each other nor is one lost.
//
// They come over one channel, because to select from two would mix them up. It has
// room for what comes while Go's scheduler lets the queue wait: a window that is
// made larger brings many a WINCH, and what finds no room is dropped.
type SignalQueue struct {
	in, out    chan os.Signal
	configured chan struct{}
	over       chan struct{}
	running    sync.WaitGroup
	exit       func(syscall.Signal)
}

// QueueSignals begins to take signals. HUP and INT stay ignored, for the command
// too, if they were when berth was started: that is how nohup(1) works, and how
// shells start background jobs. Of other signals Go does not know it, and they are
// at their default for the command.
//
// Until Run has its configuration, one that ends berth does so at once, by exit: the
// configuration may come from a FIFO that nobody writes to, and nothing has been
// started.
func QueueSignals(exit func(syscall.Signal)) *SignalQueue {
	q := newQueue(exit)
	for _, sig := range signals.Forwarded() {
		if early(sig) && !signal.Ignored(sig) {
			signal.Notify(q.in, sig)
		}
	}
	// Received and dropped. To ignore them would have the command ignore them.
	dropped := make(chan os.Signal, 1)
	for _, sig := range signals.Own() {
		signal.Notify(dropped, sig)
	}
	q.running.Go(q.run)
	return q
}

func newQueue(exit func(syscall.Signal)) *SignalQueue {
	return &SignalQueue{
		exit: exit,
		in:   make(chan os.Signal, longQueue), out: make(chan os.Signal),
		configured: make(chan struct{}), over: make(chan struct{}),
	}
}

// early reports whether a signal is about berth itself while there is no command.
func early(sig syscall.Signal) bool { return sig == syscall.SIGHUP || signals.Ends(sig) }

// ready reports whether an ending signal waits for the supervisor.
func (q *SignalQueue) ready() bool {
	select {
	case <-q.configured:
		return true
	default:
		return false
	}
}

// queueAll has ending signals wait in the queue like all others.
func (q *SignalQueue) queueAll() { close(q.configured) }

// takeLate takes all others too: nobody sends them before there is a command. To ask for one wakes a thread and waits for
// it, so that all take 2 ms, in which nothing else is done but at a pause.
func (q *SignalQueue) takeLate(pause func()) {
	late := slices.DeleteFunc(signals.Forwarded(), early)
	for some := range slices.Chunk(late, 16) {
		for _, sig := range some {
			signal.Notify(q.in, sig)
		}
		pause()
	}
}

// End ends the queue; nothing is delivered any more.
func (q *SignalQueue) End() {
	close(q.over)
	q.running.Wait()
}

func (q *SignalQueue) run() {
	var waiting []os.Signal
	for {
		var next os.Signal
		var ready chan<- os.Signal // nil, which takes nothing, while none waits
		if len(waiting) > 0 {
			next, ready = waiting[0], q.out
		}
		select {
		case sig := <-q.in:
			if number, ok := sig.(syscall.Signal); ok && signals.Ends(number) && !q.ready() {
				q.exit(number)
			}
			if len(waiting) < longQueue || !slices.Contains(waiting, sig) {
				waiting = append(waiting, sig)
			}
		case ready <- next:
			waiting = waiting[1:]
		case <-q.over:
			return
		}
	}
}
