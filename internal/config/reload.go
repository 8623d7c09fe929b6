package config

import "slices"

// reloadable are the options that take effect while a slot is held.
var reloadable = []string{"log-level", "admins", "stop", "loss", "on-acquire", "on-release", "on-lost", "hook-timeout"}

// Reload returns the configuration that follows r when it is loaded again as now: what can change while a slot is
// held is as in now, all else as in r. kept has the names of the options that differ and were kept. Errors: those of
// timings that are not safe together, which wrap lock.ErrUnsafe.
func (r Run) Reload(now Run) (next Run, kept []string, err error) {
	next = r
	next.LogLevel, next.Admins, next.Stop, next.Loss = now.LogLevel, now.Admins, now.Stop, now.Loss
	next.Hooks, next.HookTimeout = now.Hooks, now.HookTimeout
	if !next.Local {
		if err := next.Timings().Check(); err != nil {
			return r, nil, err
		}
	}
	for _, option := range table {
		differs := !slices.Equal(r.texts[option.Name], now.texts[option.Name])
		if differs && !slices.Contains(reloadable, option.Name) {
			kept = append(kept, option.Name)
		}
	}
	return next, kept, nil
}
