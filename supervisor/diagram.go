package supervisor

import (
	"fmt"
	"slices"
	"strings"
)

// order is in which the states are shown.
var order = []State{
	Connecting, Pausing, Attempting, Waiting, Quitting, Preparing, Starting,
	Running, InDoubt, Stopping, Losing, Resting, Releasing, Ended,
}

// Diagram returns the transition table as a page of Markdown: a Mermaid state
// diagram, and the table in full. docs/states.md is what it returns.
func Diagram() string {
	var b strings.Builder
	b.WriteString("# The supervisor's states\n\n")
	b.WriteString("Drawn from the table in `supervisor/table.go` by `make docs`; do not edit it by hand.\n")
	b.WriteString("A slot is held in every state from *preparing* to *releasing*; the command can be alive from\n")
	b.WriteString("*starting* to *losing*. What stays in its state is in the table below the picture only.\n\n")
	b.WriteString("```mermaid\nstateDiagram-v2\n")
	for _, s := range order {
		fmt.Fprintf(&b, "    state %q as %s\n", string(s), identifier(s))
	}
	fmt.Fprintf(&b, "    [*] --> %s\n", identifier(Connecting))
	for _, from := range order {
		for _, to := range order {
			if labels := leading(from, to); len(labels) > 0 {
				fmt.Fprintf(&b, "    %s --> %s: %s\n", identifier(from), identifier(to), strings.Join(labels, " / "))
			}
		}
	}
	fmt.Fprintf(&b, "    %s --> [*]\n```\n\n", identifier(Ended))
	b.WriteString("| state | event | may lead to |\n| --- | --- | --- |\n")
	for _, from := range order {
		for _, on := range triggers(from) {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", from, on, targets(from, on))
		}
	}
	return b.String()
}

func identifier(s State) string { return strings.ReplaceAll(string(s), " ", "_") }

func triggers(from State) []string {
	var all []string
	for on := range table[from] {
		all = append(all, string(on))
	}
	slices.Sort(all)
	return all
}

// leading returns what leads from one state to another.
func leading(from, to State) []string {
	var labels []string
	for _, on := range triggers(from) {
		if slices.Contains(table[from][trigger(on)].to, to) && from != to {
			labels = append(labels, on)
		}
	}
	return labels
}

func targets(from State, on string) string {
	to := table[from][trigger(on)].to
	if len(to) == 0 {
		return "stays"
	}
	texts := make([]string, len(to))
	for i, s := range to {
		texts[i] = string(s)
	}
	return strings.Join(texts, ", ")
}
