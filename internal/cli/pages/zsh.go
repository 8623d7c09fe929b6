package pages

import (
	"fmt"
	"strings"

	"berth/internal/config"
)

func zshCompletion(all []command) string {
	var b strings.Builder
	b.WriteString("#compdef berth\n# zsh completion for berth; made by: berth completion zsh\n\n")
	for _, c := range all {
		name := "_" + strings.NewReplacer(" ", "_", "-", "_").Replace(c.path)
		fmt.Fprintf(&b, "%s() {\n", name)
		next := below(all, c)
		if len(next) > 0 && len(c.options()) == 0 {
			fmt.Fprintf(&b, "\tlocal -a commands=(\n")
			for _, word := range next {
				fmt.Fprintf(&b, "\t\t%s\n", zshQuoted(word+":"+find(all, c.path+" "+word).Usage))
			}
			b.WriteString(`	)
	if ((CURRENT == 2)); then
		_describe command commands
	else
		local function="` + name + `_${words[2]//-/_}"
		shift words; ((CURRENT--))
		((${+functions[$function]})) && $function
	fi
}

`)
			continue
		}
		b.WriteString("\t_arguments -S '--help[print the help page]'")
		for _, o := range c.options() {
			b.WriteString(" \\\n\t\t" + zshQuoted(zshOption(o)))
		}
		if c.runsCommand() {
			b.WriteString(" \\\n\t\t'(-)1:command: _command_names -e' \\\n\t\t'*::arguments: _normal'")
		} else if c.ArgsUsage == "NAME" {
			b.WriteString(" \\\n\t\t'1:name:'")
		}
		b.WriteString("\n}\n\n")
	}
	b.WriteString("_berth \"$@\"\n")
	return b.String()
}

// zshOption is an option as _arguments wants it.
func zshOption(o config.Option) string {
	text := strings.NewReplacer("[", "(", "]", ")", ":", " -").Replace(firstSentence(o))
	flag := o.Flag()
	if o.Kind == config.List {
		flag = "*" + flag
	}
	spec := flag + "[" + text + "]"
	switch {
	case o.Kind == config.Switch:
		return spec
	case choices(o) != nil:
		return spec + ":" + o.Name + ":(" + strings.Join(choices(o), " ") + ")"
	case namesFile(o):
		return spec + ":file:_files"
	}
	return spec + ":" + strings.ToLower(strings.NewReplacer(":", " ", "=", " ").Replace(o.Value)) + ":"
}

func zshQuoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
