package check

import (
	"fmt"
	"strings"
)

// writeHealth says what ends a command that neither ends by itself nor loses its slot.
func (r *Report) writeHealth(b *strings.Builder) {
	h, stop := r.cfg.Health, r.cfg.Stop.Duration()
	if r.cfg.MaxRun > 0 {
		writeItem(b, "", fmt.Sprintf("\nThe command is ended after max-run %s, and dead %s later.", r.cfg.MaxRun, stop))
	}
	if h.Command == nil {
		return
	}
	b.WriteString("\nA command that hangs once it was healthy:\n\n")
	writeRow(b, upTo(h.Noticed()), fmt.Sprintf("until it is unhealthy: health-timeout %s, in which a check may "+
		"still succeed that was under way, + health-retries %d x (health-interval %s + health-timeout)", h.Timeout, h.Retries,
		h.Interval))
	writeRow(b, upTo(h.Noticed()+stop), fmt.Sprintf("until it is dead and the slot given back: stop %s", stop))
}
