package judge

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"berth/prover/history"
)

// Bounds is what a history is held to. The zero value of a field will do.
type Bounds struct {
	Slots    int           // default: as the history has it; 1 if it has no lock
	Progress time.Duration // how long a free slot may be left alone; default: 30 s
	Bypass   int           // how many clients that come later may be served before one that waits; default: any
}

// Orphan is how long something may live after its client has ended.
const Orphan = time.Second

// Checker looks for one kind of violation.
type Checker struct {
	Name, About string

	judge func(*matter) Verdict
}

// Checkers is all that there are.
var Checkers = []Checker{
	{"overlap", "no two commands live at once on one slot", overlap},
	{"permits", "no more commands live at once than the lock has slots", permits},
	{"terms", "terms grow with each command on a slot", terms},
	{"progress", "a slot that is free while clients wait is taken within a bound", progress},
	{"fairness", "a client that waits is overtaken no more often than the lock promises, while nothing is broken", fairness},
	{"updates", "no command's writes to what the lock protects are lost, or refused while it alone holds the lock", updates},
	{"orphans", "nothing lives on after its client has ended", orphans},
	{"statuses", "a command works until its end, and its client ends with its status", statuses},
}

// matter is what checkers look at.
type matter struct {
	history history.History
	bounds  Bounds
	runs    []Run
	end     int64 // the last moment of the history
}

// Judge has checkers look at a history: all, or those with these names.
func Judge(h history.History, b Bounds, names ...string) []Verdict {
	m := &matter{history: h, bounds: b.complete(h), runs: Runs(h)}
	for _, e := range h {
		m.end = max(m.end, e.At, e.Until)
	}
	var all []Verdict
	for _, c := range Checkers {
		if len(names) > 0 && !slices.Contains(names, c.Name) {
			continue
		}
		v := c.judge(m)
		v.Checker = c.Name
		v.Violations, v.Limits = m.split(v)
		if len(v.Violations) > 0 {
			v.Outcome = Violated
		}
		all = append(all, v)
	}
	return all
}

// complete puts defaults where nothing is given.
func (b Bounds) complete(h history.History) Bounds {
	for _, e := range h {
		if e.Kind == history.Lock && b.Slots == 0 {
			b.Slots = e.Slots
		}
	}
	b.Slots = max(b.Slots, 1)
	if b.Progress == 0 {
		b.Progress = 30 * time.Second
	}
	return b
}

// unless returns a verdict: kept, or unknown with a reason if there is one. Judge looks for violations by itself.
func unless(reason string, found []Violation) Verdict {
	v := Verdict{Outcome: Kept, Violations: found, Note: reason}
	if reason != "" {
		v.Outcome = Unknown
	}
	return v
}

// slotless is why slots cannot be told apart, "" if they can. Of one slot no command needs to be told.
func (m *matter) slotless() string {
	told := 0
	for _, r := range m.runs {
		if r.Slot > 0 {
			told++
		}
	}
	switch {
	case len(m.runs) == 0:
		return "nothing ran"
	case m.bounds.Slots > 1 && told < len(m.runs):
		return fmt.Sprintf("%d of %d commands were told their slot", told, len(m.runs))
	}
	return ""
}

// few is why two commands cannot have met, "" if they can.
func (m *matter) few() string {
	switch len(m.runs) {
	case 0:
		return "nothing ran"
	case 1:
		return "one command ran in all"
	}
	return ""
}

// slot is what a run is on.
func (m *matter) slot(r Run) int {
	if m.bounds.Slots == 1 {
		return 1
	}
	return r.Slot
}

func overlap(m *matter) Verdict {
	var found []Violation
	m.eachStart(func(r Run, alive []Run) {
		for _, earlier := range alive {
			if slot := m.slot(r); slot > 0 && slot == m.slot(earlier) {
				until := min(earlier.Until, r.Until)
				found = append(found, blame(r.At, until, []Run{earlier, r}, "%s of overlap: %s; %s",
					length(until-r.At), earlier, r))
			}
		}
	})
	return unless(cmp.Or(m.few(), m.slotless()), found)
}

func permits(m *matter) Verdict {
	var found []Violation
	most, blamed := 0, m.bounds.Slots
	m.eachStart(func(r Run, alive []Run) {
		if r.Slot > m.bounds.Slots {
			found = append(found, blame(r.At, r.Until, []Run{r}, "a slot that does not exist: %s", r))
		}
		alive = append(alive, r)
		// Those that a fault excuses are no excuse for the others.
		rest := slices.DeleteFunc(slices.Clone(alive), func(one Run) bool {
			return m.allowed("permits", blame(r.At, 0, []Run{one}, ""))
		})
		if len(rest) > m.bounds.Slots {
			alive = rest
		}
		if len(alive) > blamed {
			ends := slices.Clone(alive)
			slices.SortFunc(ends, func(a, b Run) int { return cmp.Compare(b.Until, a.Until) })
			v := blame(r.At, ends[m.bounds.Slots].Until, alive, "%d alive at once, more than slots (%d): %s", len(alive),
				m.bounds.Slots, r)
			if found = append(found, v); !m.allowed("permits", v) {
				blamed = len(alive)
			}
		}
		most = max(most, len(alive))
	})
	v := unless(m.few(), found)
	if v.Note != "" {
		return v
	}
	v.Note = fmt.Sprintf("%d commands, %d at once at most", len(m.runs), most)
	return v
}

// eachStart calls do for each run in order, with the runs that began before it and live when it begins. Of two that meet
// in one nanosecond both are alive in it. The slice is do's for the call.
func (m *matter) eachStart(do func(r Run, alive []Run)) {
	var alive []Run
	for _, r := range m.runs {
		alive = slices.DeleteFunc(alive, func(earlier Run) bool { return earlier.Until < r.At })
		do(r, alive)
		alive = append(alive, r)
	}
}

func terms(m *matter) Verdict {
	var found []Violation
	told := 0
	last := map[int]Run{} // by slot
	for _, r := range m.runs {
		slot := m.slot(r)
		if r.Term == 0 || slot == 0 {
			continue
		}
		told++
		// What runs on a slot after a command, for the same client, may have its term: a hook.
		if before := last[slot]; r.Term < before.Term || r.Term == before.Term && r.Client != before.Client {
			found = append(found, blame(r.At, 0, []Run{before, r}, "the term did not grow: %s; then %s", before, r))
		}
		last[slot] = r
	}
	if told < len(m.runs) || told == 0 {
		return unless(fmt.Sprintf("%d of %d commands were told slot and term", told, len(m.runs)), found)
	}
	return unless("", found)
}

func orphans(m *matter) Verdict {
	known, ended := map[string]bool{}, map[string]int64{} // clients, and when those ended whose end binds their commands
	for _, e := range m.history {
		if e.Kind == history.Client {
			known[e.Client] = true
			if e.Until != 0 && !m.struck(e.Client, e.At, e.Until, history.Kill) {
				ended[e.Client] = e.Until
			}
		}
	}
	var found []Violation
	reason := "no client with a command ended by itself"
	if slices.ContainsFunc(m.runs, func(r Run) bool { return ended[r.Client] != 0 }) {
		reason = ""
	}
	for _, r := range m.runs {
		if !known[r.Client] {
			reason = fmt.Sprintf("a command is of a client %s that the history does not have", r.Client)
		}
		if until, binds := ended[r.Client]; binds && r.Until > until+int64(Orphan) {
			found = append(found, blame(until, r.Until, []Run{r}, "it lived on for %s after its client had ended: %s",
				length(r.Until-until), r))
		}
	}
	for _, e := range m.history {
		if e.Kind != history.Leftover {
			continue
		}
		if until, binds := ended[e.Client]; binds {
			found = append(found, blame(until, e.At, []Run{{Lives: []history.Event{e}}}, "process %d was left of client %s", e.PID,
				e.Client))
		} else if !known[e.Client] {
			reason = fmt.Sprintf("process %d was left, of a client %s that the history does not have", e.PID, e.Client)
		}
	}
	return unless(reason, found)
}

// struck reports whether a fault, or one of these, struck a client or all in that time.
func (m *matter) struck(client string, at, until int64, names ...string) bool {
	return slices.ContainsFunc(m.history, func(e history.Event) bool {
		return e.Kind == history.Fault && (e.Target == client || !m.client(e.Target)) && e.At <= until && at <= e.Until &&
			(len(names) == 0 || slices.Contains(names, e.Fault))
	})
}

// client reports whether a name is that of a client.
func (m *matter) client(name string) bool {
	return name != "" && slices.ContainsFunc(m.history, func(e history.Event) bool { return e.Client == name })
}
