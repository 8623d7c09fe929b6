package runner

import (
	"berth/internal/activation"
	"berth/internal/config"
	"berth/internal/observe"
	"berth/supervisor"
)

// watched hears what the supervisor does.
type watched struct {
	systemd *observe.Systemd // nil: not started by it
	sockets *activation.Sockets
}

func watch(cfg config.Run) (watched, error) {
	systemd, err := observe.NewSystemd(observe.SystemdConfig{Lock: cfg.Lock, Ready: cfg.Ready, Passed: cfg.PassNotify})
	return watched{systemd, activation.Inherited()}, err
}

// Observe implements supervisor.Observer.
func (w watched) Observe(now supervisor.Situation) {
	switch now.State {
	case supervisor.Waiting, supervisor.Pausing:
		w.sockets.TurnAway()
	case supervisor.Connecting, supervisor.Attempting: // as before: it takes a moment
	default:
		w.sockets.Leave()
	}
	w.systemd.Observe(now)
}

// Beat implements supervisor.Observer.
func (w watched) Beat() { w.systemd.Beat() }

func (w watched) close() { w.systemd.Close() }
