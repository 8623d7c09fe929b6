//go:build simulation

package rabbit

import (
	"slices"
	"strings"
)

// versions are those that are simulated, the oldest first.
var versions = []Version{V3_10, V4_0, V4_3}

func (v Version) short() string {
	return map[Version]string{V3_10: "3.10", V4_0: "4.0", V4_3: "4.3"}[v]
}

// transcript is what brokers have said in a scenario: one step after the other, of each version. As a text it is:
//
//	> what is done
//	  what all say
//	  [3.10] what some say
//	  [4.0 4.3] what others say
type transcript map[Version][][]string

func (t transcript) of(v Version) [][]string { return t[v] }

func (t transcript) set(v Version, steps [][]string) { t[v] = steps }

func parse(text string) transcript {
	t := transcript{}
	said := map[Version]bool{} // there are steps of these
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		of, rest := versions, line
		if list, after, ok := strings.Cut(strings.TrimLeft(line, " "), "] "); ok && strings.HasPrefix(list, "[") {
			of, rest = nil, after
			for _, name := range strings.Fields(list[1:]) {
				i := slices.IndexFunc(versions, func(v Version) bool { return v.short() == name })
				of = append(of, versions[i])
			}
			if !strings.HasPrefix(rest, "> ") {
				rest = "  " + rest
			}
		}
		for _, v := range of {
			said[v] = true
			if strings.HasPrefix(rest, "> ") {
				t[v] = append(t[v], nil)
			}
			if n := len(t[v]); n > 0 {
				t[v][n-1] = append(t[v][n-1], rest)
			}
		}
	}
	return t
}

func (t transcript) String() string {
	var b strings.Builder
	longest := 0
	for _, steps := range t {
		longest = max(longest, len(steps))
	}
	for i := range longest {
		t.step(&b, i)
	}
	return b.String()
}

// step writes one step: what is done is the same for all that have it.
func (t transcript) step(b *strings.Builder, i int) {
	var answers []string
	of := map[string][]string{}
	for _, v := range versions {
		if i < len(t[v]) {
			answer := strings.Join(t[v][i], "\n")
			if of[answer] == nil {
				answers = append(answers, answer)
			}
			of[answer] = append(of[answer], v.short())
		}
	}
	do, same, having := "", true, 0
	for n, answer := range answers {
		first, _, _ := strings.Cut(answer, "\n")
		same = same && (n == 0 || first == do)
		do = first
	}
	for _, who := range of {
		having += len(who)
	}
	all := same && having == len(versions)
	for n, answer := range answers {
		lines := strings.Split(answer, "\n")
		mark := "[" + strings.Join(of[answer], " ") + "] "
		switch {
		case all && len(answers) == 1:
			b.WriteString(answer + "\n")
			continue
		case all && n == 0:
			b.WriteString(lines[0] + "\n")
			lines = lines[1:]
		case all:
			lines = lines[1:]
		}
		for _, line := range lines {
			if strings.HasPrefix(line, "  ") {
				b.WriteString("  " + mark + line[2:] + "\n")
			} else {
				b.WriteString(mark + line + "\n")
			}
		}
	}
}
