package machine

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"berth/supervisor"
)

// intro is the beginning of the page.
const intro = `# The supervisor's states

Generated from ` + "`supervisor/machine/table.go` and `supervisor/state.go` by `make docs`" + `.
The command can be alive from *starting* to *losing*, a hook in *entering*, *stopping*, *losing*, *leaving* and
*reporting*. The picture lacks what stays in its state, the [table](states.tsv) what changes no state and no ending,
such as a signal for the command or the kill of a hook that takes too long: package ` + "`loop`" + ` does it. What an
action results in at once is the next event: to agree results in *agreed to step down*, to launch a guard in *ready and
verified* or *no guard*. A sequence that begins lets a frozen command go on once it has sent its first signal.

`

// answers is what package supervisor answers about a state.
var answers = []struct {
	what string
	of   func(supervisor.State) bool
}{
	{"a slot is wanted, and none is held", supervisor.State.Contending},
	{"a slot is held", supervisor.State.Holding},
	{"and is not about to be given back", supervisor.State.Keeping},
	{"nothing runs in it, and something is to", supervisor.State.Idle},
	{"the command runs, and is not being ended", supervisor.State.Working},
	{"what runs is being ended", supervisor.State.Ending},
	{"a hook runs after the command's end", supervisor.State.Parting},
	{"berth ends, whatever happens", supervisor.State.Final},
}

// Diagram returns a page of Markdown with a Mermaid state diagram: docs/states.md.
func Diagram() string {
	var b strings.Builder
	states := supervisor.States()
	b.WriteString(intro + "```mermaid\nstateDiagram-v2\n")
	for _, s := range states {
		if id := identifier(s); id != string(s) { // others are shown by their identifiers
			fmt.Fprintf(&b, "    state %q as %s\n", string(s), id)
		}
	}
	fmt.Fprintf(&b, "    [*] --> %s\n", identifier(states[0]))
	for _, from := range states {
		for _, to := range states {
			if labels := leading(from, to); len(labels) > 0 {
				fmt.Fprintf(&b, "    %s --> %s: %s\n", identifier(from), identifier(to), strings.Join(labels, " / "))
			}
		}
	}
	fmt.Fprintf(&b, "    %s --> [*]\n```\n\n", identifier(supervisor.Ended))
	b.WriteString("| what is so | in these states |\n| --- | --- |\n")
	for _, a := range answers {
		var in []string
		for _, s := range states {
			if a.of(s) {
				in = append(in, string(s))
			}
		}
		fmt.Fprintf(&b, "| %s | %s |\n", a.what, strings.Join(in, ", "))
	}
	b.WriteString("\n[states.tsv](states.tsv) has every event that can come in a state. Of several rows for one event in a " +
		"state the\nfirst whose condition holds counts.\n")
	return b.String()
}

// Table returns the table in full, its cells separated by tabs: docs/states.tsv.
func Table() string {
	var b strings.Builder
	b.WriteString("state\tevent\tif\twhat is done\tnext state\n")
	for _, from := range supervisor.States() {
		for _, alike := range grouped(from) {
			var events []string
			for _, row := range alike {
				events = append(events, string(row.On))
			}
			row := alike[0]
			fmt.Fprintf(&b, "%s\t%s\t%s\t%s\t%s\n", from, strings.Join(events, ", "), row.If.Text, row.Do, row.To)
		}
	}
	return b.String()
}

func identifier(s supervisor.State) string { return strings.ReplaceAll(string(s), " ", "_") }

// listed returns what can happen in a state, by event, without what can never hold because a
// row before it always does.
func listed(from supervisor.State) []Row {
	var all []Row
	certain := map[Event]bool{}
	for _, row := range table[from] {
		if !certain[row.On] {
			all = append(all, row)
		}
		certain[row.On] = certain[row.On] || row.If.test == nil
	}
	slices.SortStableFunc(all, func(a, b Row) int { return strings.Compare(string(a.On), string(b.On)) })
	return all
}

// grouped returns what can happen in a state, rows together that differ in the event
// alone. Those with a condition come first, so that the order of an event's rows stays.
func grouped(from supervisor.State) (groups [][]Row) {
	rows := listed(from)
	slices.SortStableFunc(rows, func(a, b Row) int {
		return cmp.Compare(len(b.If.Text), 0) - cmp.Compare(len(a.If.Text), 0)
	})
	for _, row := range rows {
		i := slices.IndexFunc(groups, func(g []Row) bool {
			return g[0].If.Text == row.If.Text && g[0].Do == row.Do && g[0].To == row.To
		})
		if i < 0 {
			groups = append(groups, nil)
			i = len(groups) - 1
		}
		groups[i] = append(groups[i], row)
	}
	return groups
}

// leading returns what leads from one state to another.
func leading(from, to supervisor.State) []string {
	var labels []string
	for _, row := range listed(from) {
		if row.To == to && !slices.Contains(labels, string(row.On)) {
			labels = append(labels, string(row.On))
		}
	}
	return labels
}
