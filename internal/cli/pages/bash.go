package pages

import (
	"fmt"
	"strings"

	"berth/internal/config"
)

func bashCompletion(all []command) string {
	var paths []string
	var flags, words strings.Builder
	for _, c := range all {
		paths = append(paths, `"`+c.path+`"`)
		var names []string
		for _, o := range c.options() {
			names = append(names, o.Flag())
		}
		fmt.Fprintf(&flags, "\t%q) flags=%q ;;\n", c.path, strings.Join(append(names, "--help"), " "))
		if next := below(all, c); len(next) > 0 {
			fmt.Fprintf(&words, "\t%q) words=%q ;;\n", c.path, strings.Join(next, " "))
		}
	}
	switches := " --help --version "
	var values, files strings.Builder
	for _, o := range optionsOf(all) {
		switch {
		case o.Kind == config.Switch:
			switches += o.Flag() + " "
		case choices(o) != nil:
			fmt.Fprintf(&values, "\t%s) COMPREPLY=($(compgen -W %q -- \"$current\")); return ;;\n", o.Flag(),
				strings.Join(choices(o), " "))
		case namesFile(o):
			fmt.Fprintf(&files, "\t%s) COMPREPLY=($(compgen -f -- \"$current\")); return ;;\n", o.Flag())
		default:
			fmt.Fprintf(&values, "\t%s) return ;;\n", o.Flag())
		}
	}
	return `# bash completion for berth; made by: berth completion bash
_berth() {
	local current="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" path=berth flags= words= i word skip=
	COMPREPLY=()
	for ((i = 1; i < COMP_CWORD; i++)); do
		word="${COMP_WORDS[i]}"
		if [[ $skip ]]; then skip=; continue; fi
		case $word in
		--) [[ $path == "berth run" || $path == "berth check" ]] && _berth_command $((i + 1)); return ;;
		-*) [[ "` + switches + `" == *" $word "* || $word == *=* ]] || skip=1 ;;
		*)
			case "$path $word" in
			` + strings.Join(paths, " | ") + `) path="$path $word" ;;
			*) if [[ $path == "berth run" ]]; then _berth_command $i; return; fi ;;
			esac ;;
		esac
	done
	case $before in
` + values.String() + files.String() + `	esac
	case $path in
` + flags.String() + `	esac
	case $path in
` + words.String() + `	esac
	if [[ $current == -* ]]; then
		COMPREPLY=($(compgen -W "$flags" -- "$current"))
	elif [[ $words ]]; then
		COMPREPLY=($(compgen -W "$words" -- "$current"))
	elif [[ $path == "berth run" ]]; then
		COMPREPLY=($(compgen -c -- "$current"))
	fi
}
_berth_command() {
	if declare -F _command_offset >/dev/null; then
		_command_offset "$1"
	elif ((COMP_CWORD == $1)); then
		COMPREPLY=($(compgen -c -- "${COMP_WORDS[COMP_CWORD]}"))
	else
		COMPREPLY=($(compgen -f -- "${COMP_WORDS[COMP_CWORD]}"))
	fi
}
complete -o filenames -F _berth berth
`
}

// optionsOf returns the options of all commands, each name once.
func optionsOf(all []command) []config.Option {
	seen := map[string]bool{}
	var options []config.Option
	for _, c := range all {
		for _, o := range c.options() {
			if !seen[o.Name] {
				seen[o.Name] = true
				options = append(options, o)
			}
		}
	}
	return options
}
