package cli

import (
	"os"
	"os/signal"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"berth/signals"
)

// signalsReceived are the signals that concern the command. What ends berth comes
// apart from the rest: a channel takes no more when it is full, and a user who
// makes a window larger sends many a WINCH.
type signalsReceived struct{ endings, rest chan os.Signal }

// receiveSignals takes every signal that concerns the command. HUP and INT stay
// ignored, for the command too, if they were when berth was started: that is how
// nohup(1) works, and how shells start background jobs. Of other signals Go does
// not know it, and they are at their default for the command.
func receiveSignals() signalsReceived {
	// Room for one of each, several times: none may be dropped while the
	// configuration is read.
	received := signalsReceived{endings: make(chan os.Signal, 128), rest: make(chan os.Signal, 128)}
	for _, sig := range signals.Forwarded() {
		switch {
		case signals.RealTime(sig): // see inOrder
		case signal.Ignored(sig):
		case signals.Ends(sig) || sig == unix.SIGHUP:
			signal.Notify(received.endings, sig)
		default:
			signal.Notify(received.rest, sig)
		}
	}
	// Received and dropped. To ignore them would have the command ignore them.
	dropped := make(chan os.Signal, 1)
	for _, sig := range signals.Own() {
		signal.Notify(dropped, sig)
	}
	return received
}

// endBefore has an ending signal end this process at once, until the function
// that it returns is called: the configuration may come from a FIFO that nobody
// writes to, and nothing has been started.
func (s signalsReceived) endBefore() (configured func()) {
	over, ended := make(chan struct{}), make(chan struct{})
	var hup os.Signal
	go func() {
		defer close(ended)
		for {
			select {
			case sig := <-s.endings:
				if number, ok := sig.(syscall.Signal); ok && signals.Ends(number) {
					os.Exit(ExitSignal + int(number))
				}
				hup = sig
			case <-over:
				return
			}
		}
	}()
	return func() {
		close(over)
		<-ended
		if hup != nil { // of a terminal that has gone, maybe
			s.endings <- hup
		}
	}
}

// receiveRealTime takes the real-time signals too, which nobody sends in the first
// moment: to ask for 30 signals takes time that the start is better off without.
func (s signalsReceived) receiveRealTime() {
	for _, sig := range signals.Forwarded() {
		if signals.RealTime(sig) {
			signal.Notify(s.rest, sig)
		}
	}
}

// longQueue is how many signals wait for the supervisor before one that waits
// already is dropped when it comes again, as the kernel does from the first on.
const longQueue = 1000

// inOrder passes the signals on in the order in which they come, until end is
// called. The supervisor may be busy for a moment: meanwhile they queue up, and
// neither do they overtake each other nor is one lost.
func (s signalsReceived) inOrder() (queue <-chan os.Signal, end func()) {
	out, over, ended := make(chan os.Signal), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		s.receiveRealTime()
		var waiting []os.Signal
		add := func(sig os.Signal) {
			if len(waiting) < longQueue || !slices.Contains(waiting, sig) {
				waiting = append(waiting, sig)
			}
		}
		for {
			var next os.Signal
			var ready chan<- os.Signal // nil, which takes nothing, while none waits
			if len(waiting) > 0 {
				next, ready = waiting[0], out
			}
			select {
			case sig := <-s.endings:
				add(sig)
			case sig := <-s.rest:
				add(sig)
			case ready <- next:
				waiting = waiting[1:]
			case <-over:
				return
			}
		}
	}()
	return out, func() {
		close(over)
		<-ended
	}
}
