package display

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"berth/internal/inquire"
)

// Live keeps a screen of the terminal up to date with what is seen, until ctx ends, and then leaves the terminal as it
// was. It returns an error only if the terminal cannot be written to.
func (v View) Live(ctx context.Context, terminal *Terminal, looks <-chan inquire.Seen) error {
	resized, suspended := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	defer signal.Stop(resized)
	signal.Notify(suspended, syscall.SIGTSTP)
	defer signal.Stop(suspended)
	if err := terminal.say(enter); err != nil {
		return err
	}
	seconds := time.NewTicker(time.Second) // ages, and what does not stand out any more
	defer seconds.Stop()
	v.changed = map[int]time.Time{}
	known := false
	for {
		select {
		case <-ctx.Done():
			return terminal.say(leave)
		case v.Seen = <-looks:
			known = true
			v.note()
		case <-seconds.C:
		case <-resized:
		case <-suspended:
			if err := terminal.suspend(ctx); err != nil {
				return err
			}
		}
		if !known {
			continue
		}
		v.Now = time.Now()
		if err := terminal.draw(v); err != nil {
			return err
		}
	}
}

// note keeps when slots have changed, and forgets those that do not stand out any more.
func (v View) note() {
	now := time.Now()
	for slot, at := range v.changed {
		if now.Sub(at) >= highlighted {
			delete(v.changed, slot)
		}
	}
	for _, slot := range v.Seen.Changed {
		v.changed[slot] = now
	}
}

// suspend stops this process, as Ctrl-Z means it, with the terminal as the shell wants it.
func (t *Terminal) suspend(ctx context.Context) error {
	if err := t.say(leave); err != nil {
		return err
	}
	continued := make(chan os.Signal, 1) // this goroutine may run on for a moment after the signal was sent
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
		return err
	}
	select {
	case <-continued:
	case <-ctx.Done():
	}
	return t.say(enter)
}
