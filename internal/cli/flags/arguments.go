package flags

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"berth/internal/config"
)

// Arrange puts the NAME of an administration command behind its flags, because the
// flag package stops at the first argument that is no flag and people write
// `berth semaphore create workers --slots 3`.
func Arrange(app *cli.App, args []string) []string {
	path, known, rest := commandOf(app, args)
	if strings.Count(path, " ") < 2 { // berth semaphore create
		return args
	}
	words := args[:len(args)-len(rest)]
	flags, names, complete := split(rest, known)
	if !complete {
		return slices.Concat(words, flags) // the flag package will say what is missing
	}
	return slices.Concat(words, flags, []string{"--"}, names)
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
		if named(known, strings.TrimLeft(arg, "-")).takesValue() {
			if len(args) == 0 {
				return flags, names, false
			}
			flags = append(flags, args[0])
			args = args[1:]
		}
	}
	return flags, names, true
}

// Check refuses arguments that the flag package would take for something that
// nobody means: the next flag, or the end of the flags, for the value of a flag that
// lacks one; and the word behind a switch for the command. With an error it returns
// the command that is meant, such as "berth run".
func Check(app *cli.App, args []string) (command string, err error) {
	command, known, args := commandOf(app, args)
	for len(args) > 1 {
		arg, next := args[0], args[1]
		if arg == "--" || len(arg) < 2 || arg[0] != '-' {
			return "", nil // what follows is the command's
		}
		name := strings.TrimLeft(arg, "-")
		f := named(known, name)
		args = args[1:]
		switch {
		case f.takesValue():
			if strings.HasPrefix(next, "--") {
				return command, valueMissing(name, next)
			}
			args = args[1:]
		case f != nil && (next == "true" || next == "false") && len(args) > 1:
			return command, config.Usagef("--%s takes no separate value and %q would be the command; write "+
				"--%s=%s, or -- "+
				"in front of a command called %q",
				name, next, name, next, next)
		}
	}
	return "", nil
}

// valueMissing is for a flag whose value would begin with two dashes. What
// follows an = is not repeated: it could be a password.
func valueMissing(name, next string) error {
	if next == "--" {
		return config.Usagef("--%s needs a value; \"--\" ends the flags (write --%s=-- if it is meant)", name, name)
	}
	next, _, _ = strings.Cut(next, "=")
	return config.Usagef("--%s needs a value; %q is the next flag (write --%s=%s if it is meant)", name, next, name,
		next)
}

// commandOf returns the command that the arguments are for, its flags, and the
// arguments that follow its name.
func commandOf(app *cli.App, args []string) (path string, flags []cli.Flag, rest []string) {
	if len(args) < 2 {
		return "", nil, nil
	}
	command, rest := app.Command(args[1]), args[2:]
	if command == nil {
		return "", nil, nil
	}
	path = "berth " + command.Name
	if len(rest) > 0 {
		if sub := command.Command(rest[0]); sub != nil {
			return path + " " + sub.Name, sub.Flags, rest[1:]
		}
	}
	return path, command.Flags, rest
}
