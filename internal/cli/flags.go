package cli

import (
	"errors"
	"flag"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"berth/internal/config"

	"github.com/urfave/cli/v2"
)

// recorder is the value of every flag: it keeps what was given, in order, and
// leaves reading it to whoever knows what it means and where else it could have
// come from.
type recorder struct {
	kind  config.ValueKind
	texts []string
}

// Set is called once per occurrence of the flag.
func (r *recorder) Set(text string) error {
	r.texts = append(r.texts, text)
	return nil
}

func (r *recorder) String() string { return strings.Join(r.texts, " ") }

// IsBoolFlag makes the flag package accept the flag without a value.
func (r *recorder) IsBoolFlag() bool { return r.kind == config.Switch }

// flagsFor makes the flags of a command.
func flagsFor(options []config.Option) []cli.Flag {
	var flags []cli.Flag
	for _, option := range options {
		if option.Flag() != "" {
			flags = append(flags, &cli.GenericFlag{Name: option.Name, Value: &recorder{kind: option.Kind}})
		}
	}
	return flags
}

// recorded returns what was given for the options, by name.
func recorded(c *cli.Context, options []config.Option) map[string][]string {
	given := map[string][]string{}
	for _, option := range options {
		if r, ok := c.Generic(option.Name).(*recorder); ok && len(r.texts) > 0 {
			given[option.Name] = r.texts
		}
	}
	return given
}

// takesValue reports whether the next argument belongs to the flag.
func takesValue(flags []cli.Flag, name string) bool {
	r := recorderOf(flags, name)
	return r != nil && !r.IsBoolFlag()
}

func isSwitch(flags []cli.Flag, name string) bool {
	r := recorderOf(flags, name)
	return r != nil && r.IsBoolFlag()
}

// recorderOf returns the value of a flag, nil if there is no such flag.
func recorderOf(flags []cli.Flag, name string) *recorder {
	for _, f := range flags {
		if generic, ok := f.(*cli.GenericFlag); ok && generic.Name == name {
			return generic.Value.(*recorder)
		}
	}
	return nil
}

// The texts of the flag package's errors, which it has no types for.
var (
	unknownFlag = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^flag provided but not defined: -(.*)$`) })
	lacksValue  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^flag needs an argument: -(.*)$`) })
)

// usageError is what urfave/cli calls when flags cannot be parsed, which
// includes -h and --help, because berth does not define them as flags.
func usageError(c *cli.Context, err error, _ bool) error {
	path := c.Command.HelpName
	if path == "" {
		path = c.App.HelpName
	}
	if errors.Is(err, flag.ErrHelp) {
		return showHelp(c.App, path)
	}
	return failed(path, usagef("%s; see '%s --help'", flagMistake(err.Error(), c.Command.Flags), path))
}

func flagMistake(text string, flags []cli.Flag) string {
	if match := unknownFlag().FindStringSubmatch(text); match != nil {
		return "there is no flag --" + match[1] + suggestion("--", match[1], flagNames(flags))
	}
	if match := lacksValue().FindStringSubmatch(text); match != nil {
		return fmt.Sprintf("--%s needs a value", match[1])
	}
	text, _, _ = strings.Cut(text, "=") // behind it could be a password
	return text
}

func flagNames(flags []cli.Flag) []string {
	names := []string{"help"}
	for _, f := range flags {
		names = append(names, f.Names()...)
	}
	return names
}

// nameLast puts the NAME of an administration command behind its flags, because
// the flag package stops at the first argument that is no flag and people write
// `berth semaphore create workers --slots 3`.
func nameLast(app *cli.App, args []string) []string {
	const words = 3 // berth semaphore create
	if len(args) <= words {
		return args
	}
	group := app.Command(args[1])
	if group == nil || group.Command(args[2]) == nil {
		return args
	}
	flags, names, complete := split(args[words:], group.Command(args[2]).Flags)
	if !complete {
		return slices.Concat(args[:words], flags) // the flag package will say what is missing
	}
	return slices.Concat(args[:words], flags, []string{"--"}, names)
}

// split divides arguments into flags, with their values, and the rest. complete
// is false if the last flag lacks its value.
func split(args []string, known []cli.Flag) (flags, names []string, complete bool) {
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		switch {
		case arg == "--":
			return flags, append(names, args...), true
		case len(arg) < 2 || arg[0] != '-':
			names = append(names, arg)
			continue
		}
		flags = append(flags, arg)
		if takesValue(known, strings.TrimLeft(arg, "-")) {
			if len(args) == 0 {
				return flags, names, false
			}
			flags = append(flags, args[0])
			args = args[1:]
		}
	}
	return flags, names, true
}
