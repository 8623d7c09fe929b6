package pages

import (
	"fmt"
	"strings"

	"berth/internal/config"
)

func fishCompletion(all []command) string {
	var b strings.Builder
	b.WriteString(`# fish completion for berth; made by: berth completion fish
function __berth_at
	set -l words (commandline -opc)
	test (count $words) -ge (count $argv); or return 1
	for i in (seq (count $argv))
		test $words[$i] = $argv[$i]; or return 1
	end
end
function __berth_is
	set -l words (commandline -opc)
	test (count $words) -eq (count $argv); and __berth_at $argv
end
complete -c berth -f
`)
	for _, c := range all {
		for _, word := range below(all, c) {
			fmt.Fprintf(&b, "complete -c berth -n '__berth_is %s' -a %s -d %s\n", c.path, word, fishQuoted(find(all,
				c.path+" "+word).Usage))
		}
		for _, o := range c.options() {
			fmt.Fprintf(&b, "complete -c berth -n '__berth_at %s' -l %s -d %s%s\n", c.path, o.Name,
				fishQuoted(firstSentence(o)), fishValue(o))
		}
		if c.runsCommand() {
			fmt.Fprintf(&b, "complete -c berth -n '__berth_at %s' -a '(__fish_complete_subcommand --fcs-skip=2)'\n",
				c.path)
		}
	}
	return b.String()
}

func fishValue(o config.Option) string {
	switch {
	case o.Kind == config.Switch:
		return ""
	case choices(o) != nil:
		return " -x -a " + fishQuoted(strings.Join(choices(o), " "))
	case namesFile(o):
		return " -r -F"
	}
	return " -x"
}

func fishQuoted(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(text) + "'"
}
