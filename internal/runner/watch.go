package runner

import (
	"time"

	"berth/internal/config"
	"berth/internal/observe"
	"berth/internal/observe/feed"
	"berth/supervisor"
)

// watched hears what the supervisor does.
type watched struct {
	systemd *observe.Systemd // nil: not started by it
	feed    *feed.Feed       // nil: nobody listens
}

func watch(cfg config.Run, told *feed.Feed) (watched, error) {
	systemd, err := observe.NewSystemd(observe.SystemdConfig{Lock: cfg.Lock, Ready: cfg.Ready, Passed: cfg.PassNotify})
	return watched{systemd, told}, err
}

// Observe implements supervisor.Observer.
func (w watched) Observe(now supervisor.Situation) {
	w.systemd.Observe(now)
	w.feed.Observe(now)
}

// Beat implements supervisor.Observer.
func (w watched) Beat() {
	w.systemd.Beat()
	w.feed.Beat()
}

// beats returns how often Beat is to be called, 0: never.
func (w watched) beats() time.Duration {
	switch beats := w.systemd.Beats(); {
	case w.feed == nil:
		return beats
	case beats == 0:
		return feed.Beat
	default:
		return min(beats, feed.Beat)
	}
}

// tally returns who counts, nil: nobody.
func (w watched) tally() supervisor.Tally {
	if w.feed == nil {
		return nil
	}
	return w.feed
}

func (w watched) close() { w.systemd.Close() }
