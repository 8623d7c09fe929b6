package runner

import (
	"net"

	"github.com/hashicorp/go-hclog"

	"berth/internal/config"
	"berth/internal/observe"
	"berth/internal/observe/feed"
	"berth/internal/timing"
	"berth/lock"
	"berth/supervisor"
)

// listen has others be told how this berth is, if that is wanted; nil: it is not. It comes before the guards' host,
// which leaves alone the children that are there already.
func listen(cfg config.Run, backend lock.Backend, of lock.Lock, log hclog.Logger) (*feed.Feed, error) {
	if cfg.Listen == "" {
		return nil, nil
	}
	told := feed.Config{
		Self: self(cfg), Lock: cfg.Lock, Arithmetic: arithmetic(cfg), Log: log,
		Ready:     func(now supervisor.Situation) bool { return isReady(cfg.Ready, now) },
		Inspector: func() lock.Inspector { return backend.Inspector(cfg.Lock) }, Alarm: of.Alarm,
	}
	f := feed.New(told)
	address, err := f.Serve(cfg.Listen)
	if err != nil {
		return nil, config.Invalidf("--listen: %v", err)
	}
	log.Info("listening", "on", address.String())
	if tcp, ok := address.(*net.TCPAddr); ok && !tcp.IP.IsLoopback() {
		log.Warn("other hosts can reach this address, and read berth's status", "on", address.String())
	}
	return f, nil
}

// isReady is what a probe is told. Systemd's service stays started; a probe asks for now, and between two looks at the
// lock berth is in line too.
func isReady(when observe.Ready, now supervisor.Situation) bool {
	return when.At(now) || when != observe.Holding && now.State.InLine()
}

// arithmetic are the timings; a local lock is not lost by time.
func arithmetic(cfg config.Run) feed.Arithmetic {
	t := cfg.Timings()
	a := feed.Arithmetic{
		Interval: t.VerifyInterval.Seconds(), VerifyTimeout: t.VerifyTimeout.Seconds(), Loss: t.Loss.Seconds(),
	}
	if !cfg.Local {
		a.Lease, a.Margin, a.Handover = t.Lease().Seconds(), timing.Margin.Seconds(), t.Handover().Seconds()
	}
	return a
}
