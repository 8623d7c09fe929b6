package holding

import (
	"context"
	"time"
)

// seek looks whether another slot is free of which nobody was told: its holder, and its successor, may have
// died without a word, and all waiters may be successors for other slots. It returns when to look again at the latest.
// One that is free twice in a row is the line's hint: a holder whose connection was reset has its slot back by then.
func (w *wait) seek(ctx context.Context) time.Duration {
	interval := w.lease / 4
	if w.Session.Apart() { // a look costs a connection
		interval *= looksApart
	}
	switch now := time.Now(); {
	case w.seekAt.IsZero(): // one that was made, or became free, before it stood where it is told of that
		if !w.Session.Apart() {
			interval = lookAgain
		}
		w.seekAt = now.Add(interval)
		return interval
	case now.Before(w.seekAt):
		return time.Until(w.seekAt)
	}
	w.seekAt = time.Now().Add(interval)
	if before := w.beside; before != 0 {
		if w.beside = 0; w.Finder.Free(ctx, before) {
			w.Finder.Sent(before)
			w.Waiter.Send(before)
		}
		return interval
	}
	if w.beside = w.Finder.Beside(ctx, w.slot); w.beside == 0 {
		return interval
	}
	w.seekAt = time.Now().Add(lookAgain)
	return lookAgain
}
