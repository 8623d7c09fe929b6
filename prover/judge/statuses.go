package judge

import (
	"fmt"

	"berth/prover/history"
)

// statuses blames a lock that ends commands, or changes their status, and had no reason: no fault struck.
func statuses(m *matter) Verdict {
	clients, commands := map[string]history.Event{}, map[string]int{} // by name
	for _, e := range m.history {
		if e.Kind == history.Client {
			clients[e.Client] = e
		}
	}
	for _, r := range m.runs {
		commands[r.Client]++
	}
	var found []Violation
	passed := 0
	for _, r := range m.runs {
		client, ended := clients[r.Client]
		ended = ended && client.Until != 0
		for _, l := range r.Lives {
			switch {
			// Of several commands a client can pass on the status of one.
			case l.Worked && ended && commands[r.Client] == 1 && !m.struck(r.Client, client.At, client.Until):
				passed++
				if client.Status != l.Status {
					found = append(found, blame(l.Until, client.Until, []Run{r}, "its client ended with status %d, and not with %d: %s",
						client.Status, l.Status, r))
				}
			// A lease may run out, or a broker come back, long after the fault. A command may be dead later than it shows, or
			// not at all when the history ends.
			case !l.Worked && l.Status != 0 && (ended || l.Until+int64(Orphan) < m.end) &&
				!m.struck(r.Client, l.At-int64(m.bounds.Progress), l.Until+int64(Orphan)):
				found = append(found, blame(l.Until, 0, []Run{r}, "it was ended before its work was done, and no fault had struck: %s",
					r))
			}
		}
	}
	if passed == 0 {
		return unless("no client ran one command to its end without a fault", found)
	}
	v := unless("", found)
	v.Note = fmt.Sprintf("%d clients that no fault had struck ran a command until its end", passed)
	return v
}
