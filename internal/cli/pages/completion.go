package pages

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"berth/internal/config"
)

// shells are those that Completion knows.
var shells = []string{"bash", "zsh", "fish"}

// Completion returns the script that completes the command line in a shell, one of
// shells.
//
// urfave/cli's own scripts are not used: those of bash and zsh start the program for
// each completion and take the last argument of a command that berth runs for
// theirs, and none completes values, files, or the command.
func Completion(app *cli.App, shell string) (string, error) {
	all := commands(app)
	switch shell {
	case "bash":
		return bashCompletion(all), nil
	case "zsh":
		return zshCompletion(all), nil
	case "fish":
		return fishCompletion(all), nil
	}
	return "", fmt.Errorf("unknown shell %q", shell)
}

// below returns the words that can follow a command, one of all: "create" follows
// "berth semaphore".
func below(all []command, c command) []string {
	switch c.path {
	case "berth completion":
		return shells
	case "berth help":
		c = all[0]
	}
	return names(c.Command)
}

// runsCommand reports whether a command is followed by the user's own.
func (c command) runsCommand() bool { return c.path == "berth run" || c.path == "berth check" }

// choices are the words that the value of an option can be, nil where it is not one
// of a few.
func choices(o config.Option) []string {
	if o.Kind == config.Switch || !strings.Contains(o.Value, "|") {
		return nil
	}
	return strings.Split(o.Value, "|")
}

// namesFile reports whether the value of an option is the path of a file or directory.
func namesFile(o config.Option) bool { return o.Value == "FILE" || o.Value == "DIRECTORY" }

// firstSentence is what a list of completions says of an option.
func firstSentence(o config.Option) string {
	text, _, _ := strings.Cut(o.Usage, ". ")
	return strings.TrimSuffix(text, ".")
}
