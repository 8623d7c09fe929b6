package config

import (
	"maps"
	"slices"
	"strings"

	"berth/internal/brokerurl"
)

// reloadable are the options that take effect while a slot is held.
var reloadable = []string{"log-level", "admins", "stop", "stop-to", "loss", "on-acquire", "on-release", "on-lost",
	"hook-timeout"}

// logins are the options that say how to log in where the lock lives. They are reloadable as long as that is the same
// place.
var logins = []string{"broker", "broker-file", "password-file", "login", "tls-ca", "tls-cert", "tls-key",
	"tls-server-name", "tls-min-version"}

// Reload returns the configuration that follows r when it is loaded again as now: what can change while a slot is
// held is as in now, all else as in r. took has the names of the options that differ and have changed, kept of those
// that differ and have not; a file that is named as before differs if the URLs do. Errors: those of timings that are
// not safe together, which wrap lock.ErrUnsafe.
func (r Run) Reload(now Run) (next Run, took, kept []string, err error) {
	next, next.texts = r, maps.Clone(r.texts)
	next.LogLevel, next.Admins = now.LogLevel, now.Admins
	next.Stop, next.StopTo, next.Loss = now.Stop, now.StopTo, now.Loss
	next.Hooks, next.HookTimeout = now.Hooks, now.HookTimeout
	same := brokerurl.Same(r.Place, now.Place)
	if same {
		next.Place = now.Place
	}
	if !next.Local {
		if err := next.Timings().Check(); err != nil {
			return r, nil, nil, err
		}
	}
	for _, option := range table {
		name, isLogin := option.Name, slices.Contains(logins, option.Name)
		switch differs := !slices.Equal(r.texts[name], now.texts[name]) || isLogin && r.readsOther(name, now); {
		case !differs:
		case slices.Contains(reloadable, name), isLogin && same:
			took, next.texts[name] = append(took, name), now.texts[name]
		default:
			kept = append(kept, name)
		}
	}
	return next, took, kept, nil
}

// readsOther reports whether the option is a file from which other URLs have come.
func (r Run) readsOther(name string, now Run) bool {
	return strings.HasSuffix(name, "-file") && now.texts[name] != nil && !slices.Equal(r.Brokers, now.Brokers)
}
