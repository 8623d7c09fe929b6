package signals

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
)

// Rewrites says which signal is handed on in place of one that berth received.
// 0 in place of a signal means that it is dropped. The zero value rewrites
// nothing.
type Rewrites map[syscall.Signal]syscall.Signal

// ParseRewrites reads "HUP=USR1" and, to drop a signal, "HUP=".
func ParseRewrites(texts []string) (Rewrites, error) {
	rewrites := Rewrites{}
	for _, text := range texts {
		from, to, found := strings.Cut(text, "=")
		if !found {
			return nil, fmt.Errorf("%q is not a rewrite; write one like HUP=USR1, or HUP= to drop the signal", text)
		}
		source, err := Parse(strings.TrimSpace(from))
		if err != nil {
			return nil, err
		}
		if !slices.Contains(Forwarded(), source) {
			return nil, fmt.Errorf("%q rewrites %s, which berth cannot receive or keeps for itself", text, Name(source))
		}
		if _, twice := rewrites[source]; twice {
			return nil, fmt.Errorf("%q rewrites %s a second time; keep one", text, Name(source))
		}
		var target syscall.Signal
		if to = strings.TrimSpace(to); to != "" {
			if target, err = Parse(to); err != nil {
				return nil, err
			}
		}
		rewrites[source] = target
	}
	return rewrites, nil
}

// Apply returns what is handed on for a signal that was received, 0 for nothing.
func (r Rewrites) Apply(sig syscall.Signal) syscall.Signal {
	if target, found := r[sig]; found {
		return target
	}
	return sig
}
