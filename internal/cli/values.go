package cli

import (
	"strings"

	"github.com/urfave/cli/v2"
)

// checkValues refuses arguments that the flag package would take for something
// that nobody means: the next flag, or the end of the flags, for the value of a
// flag that lacks one; and the word behind a switch for the command.
func checkValues(app *cli.App, args []string) error {
	path, known, args := commandOf(app, args)
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		if arg == "--" || len(arg) < 2 || arg[0] != '-' {
			return nil // what follows is the command's
		}
		name := strings.TrimLeft(arg, "-")
		if len(args) == 0 {
			return nil
		}
		switch next := args[0]; {
		case takesValue(known, name):
			if strings.HasPrefix(next, "--") {
				return failed(path, valueMissing(name, next))
			}
			args = args[1:]
		case isSwitch(known, name) && (next == "true" || next == "false"):
			if len(args) > 1 {
				return failed(path, usagef("--%s takes no separate value and %q would be the command; write --%s=%s, or -- in front of a command called %q",
					name, next, name, next, next))
			}
		}
	}
	return nil
}

// valueMissing is for a flag whose value would begin with two dashes. What
// follows an = is not repeated: it could be a password.
func valueMissing(name, next string) error {
	if next == "--" {
		return usagef("--%s needs a value; \"--\" ends the flags (write --%s=-- if it is meant)", name, name)
	}
	next, _, _ = strings.Cut(next, "=")
	return usagef("--%s needs a value; %q is the next flag (write --%s=%s if it is meant)", name, next, name, next)
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
