package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth/internal/config"

	"github.com/urfave/cli/v2"
)

func completionCmd() *cli.Command {
	return &cli.Command{
		Name:         "completion",
		HideHelp:     true,
		OnUsageError: usageError,
		Action: action(func(c *cli.Context) error {
			script, err := Completion(c.Args().First())
			if err != nil || c.Args().Len() > 1 {
				return usagef("give one of bash, zsh and fish; see 'berth completion --help'")
			}
			_, err = fmt.Fprint(c.App.Writer, script)
			return err
		}),
	}
}

// Completion returns the script that completes berth's command line in a shell:
// bash, zsh or fish. The error is for any other name.
func Completion(shell string) (string, error) {
	switch shell {
	case "bash":
		return bashCompletion(), nil
	case "zsh":
		return zshCompletion(), nil
	case "fish":
		return fishCompletion(), nil
	}
	return "", fmt.Errorf("unknown shell %q", shell)
}

// commandPaths returns "berth", "berth run" and so on, in order.
func commandPaths() []string { return slices.Sorted(maps.Keys(pages)) }

// below returns the words that can follow a command: "create" follows "berth
// semaphore".
func below(path string) (words []string) {
	for _, other := range commandPaths() {
		if rest, found := strings.CutPrefix(other, path+" "); found && !strings.Contains(rest, " ") {
			words = append(words, rest)
		}
	}
	switch path {
	case "berth completion":
		words = []string{"bash", "zsh", "fish"}
	case "berth help":
		words = below("berth")
	}
	return words
}

// summary says in a few words what a command is for.
func summary(path string) string {
	switch path {
	case "berth semaphore":
		return "make a semaphore, change or remove it"
	case "berth persistent-mutex":
		return "make a mutex that can be switched off, and switch it off"
	}
	for line := range strings.Lines(commandList) {
		name, text, found := strings.Cut(strings.TrimSpace(line), "  ")
		name, _, _ = strings.Cut(name, " [")
		if found && strings.TrimSuffix(name, " SHELL") == path {
			return strings.TrimSpace(text)
		}
	}
	return ""
}

// choices are the words that the value of an option can be, nil where it is not one
// of a few.
func choices(o config.Option) []string {
	if o.Kind == config.Switch || !strings.Contains(o.Value, "|") {
		return nil
	}
	return strings.Split(o.Value, "|")
}

// namesFile reports whether the value of an option is the path of a file.
func namesFile(o config.Option) bool { return o.Value == "FILE" }

// runsCommand reports whether a command is followed by the user's own.
func runsCommand(path string) bool { return path == "berth run" || path == "berth check" }

func bashCompletion() string {
	var flags, words, values, files strings.Builder
	for _, path := range commandPaths() {
		var names []string
		for _, o := range pages[path].options {
			names = append(names, o.Flag())
		}
		fmt.Fprintf(&flags, "\t%q) flags=%q ;;\n", path, strings.Join(append(names, "--help"), " "))
		if next := below(path); len(next) > 0 {
			fmt.Fprintf(&words, "\t%q) words=%q ;;\n", path, strings.Join(next, " "))
		}
	}
	for _, o := range allOptions() {
		switch {
		case o.Kind == config.Switch:
		case choices(o) != nil:
			fmt.Fprintf(&values, "\t%s) COMPREPLY=($(compgen -W %q -- \"$current\")); return ;;\n", o.Flag(), strings.Join(choices(o), " "))
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
		-*) [[ ` + switches() + ` == *" $word "* || $word == *=* ]] || skip=1 ;;
		*)
			case "$path $word" in
			` + alternativesOf(commandPaths(), `"`, " | ") + `) path="$path $word" ;;
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

// allOptions returns the options of all commands, each name once.
func allOptions() []config.Option {
	seen := map[string]bool{}
	var all []config.Option
	for _, path := range commandPaths() {
		for _, o := range pages[path].options {
			if !seen[o.Name] {
				seen[o.Name] = true
				all = append(all, o)
			}
		}
	}
	return all
}

// switches returns, in quotes, the flags without a value, each with a space on
// either side.
func switches() string {
	text := " --help --version "
	for _, o := range allOptions() {
		if o.Kind == config.Switch {
			text += o.Flag() + " "
		}
	}
	return `"` + text + `"`
}

func alternativesOf(words []string, quote, between string) string {
	var quoted []string
	for _, word := range words {
		quoted = append(quoted, quote+word+quote)
	}
	return strings.Join(quoted, between)
}

func zshCompletion() string {
	var b strings.Builder
	b.WriteString("#compdef berth\n# zsh completion for berth; made by: berth completion zsh\n\n")
	for _, path := range commandPaths() {
		name := "_" + strings.ReplaceAll(strings.ReplaceAll(path, " ", "_"), "-", "_")
		fmt.Fprintf(&b, "%s() {\n", name)
		next := below(path)
		if len(next) > 0 && len(pages[path].options) == 0 {
			fmt.Fprintf(&b, "\tlocal -a commands=(\n")
			for _, word := range next {
				fmt.Fprintf(&b, "\t\t%s\n", zshQuoted(word+":"+summary(path+" "+word)))
			}
			b.WriteString("\t)\n\tif ((CURRENT == 2)); then\n\t\t_describe command commands\n\telse\n\t\tlocal function=\"" + name + "_${words[2]//-/_}\"\n\t\tshift words; ((CURRENT--))\n" +
				"\t\t((${+functions[$function]})) && $function\n\tfi\n}\n\n")
			continue
		}
		b.WriteString("\t_arguments -S '--help[print the help page]'")
		for _, o := range pages[path].options {
			b.WriteString(" \\\n\t\t" + zshQuoted(zshOption(o)))
		}
		if runsCommand(path) {
			b.WriteString(" \\\n\t\t'(-)1:command: _command_names -e' \\\n\t\t'*::arguments: _normal'")
		} else if strings.Count(path, " ") == 2 {
			b.WriteString(" \\\n\t\t'1:name:'")
		}
		b.WriteString("\n}\n\n")
	}
	b.WriteString("_berth \"$@\"\n")
	return b.String()
}

// zshOption is an option as _arguments wants it.
func zshOption(o config.Option) string {
	text, _, _ := strings.Cut(o.Usage, ". ")
	text = strings.NewReplacer("[", "(", "]", ")", ":", " -").Replace(strings.TrimSuffix(text, "."))
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

func fishCompletion() string {
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
	for _, path := range commandPaths() {
		for _, word := range below(path) {
			fmt.Fprintf(&b, "complete -c berth -n '__berth_is %s' -a %s -d %s\n", path, word, fishQuoted(summary(path+" "+word)))
		}
		for _, o := range pages[path].options {
			text, _, _ := strings.Cut(o.Usage, ". ")
			fmt.Fprintf(&b, "complete -c berth -n '__berth_at %s' -l %s -d %s%s\n", path, o.Name, fishQuoted(strings.TrimSuffix(text, ".")), fishValue(o))
		}
		if runsCommand(path) {
			fmt.Fprintf(&b, "complete -c berth -n '__berth_at %s' -a '(__fish_complete_subcommand --fcs-skip=2)'\n", path)
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
