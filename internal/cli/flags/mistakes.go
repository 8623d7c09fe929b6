package flags

import (
	"fmt"
	"strings"

	"github.com/agext/levenshtein"
	"github.com/urfave/cli/v2"

	"berth/internal/brokerurl"
	"berth/internal/config"
)

// The texts of the flag package's errors, which it has no types for.
const (
	unknownFlag = "flag provided but not defined: -"
	lacksValue  = "flag needs an argument: -"
)

// Mistake says in our words why the flags of a command could not be parsed.
func Mistake(command *cli.Command, err error) error {
	text := err.Error()
	if name, found := strings.CutPrefix(text, unknownFlag); found {
		known := []string{"help"}
		for _, f := range command.Flags {
			known = append(known, f.Names()...)
		}
		text = "there is no flag --" + name + Suggestion("--", name, known)
	} else if name, found := strings.CutPrefix(text, lacksValue); found {
		text = fmt.Sprintf("--%s needs a value", name)
	} else {
		text, _, _ = strings.Cut(text, "=") // behind it could be a password
	}
	return config.Usagef("%s; see '%s --help'", text, command.HelpName)
}

// UnknownCommand is the error for a name that is none of the commands of one.
func UnknownCommand(of *cli.Command, name string) error {
	if brokerurl.BeginsLikeOne(name) {
		return config.Usagef("there is no command %q, is --broker missing in front of it?; see '%s --help'",
			brokerurl.Redact(name), of.HelpName)
	}
	var known []string
	for _, command := range of.Subcommands {
		known = append(known, command.Name)
	}
	return config.Usagef("there is no command %q%s; see '%s --help'", name, Suggestion("", name, known), of.HelpName)
}

// Suggestion returns the rest of a sentence that proposes the nearest of the
// known words, or nothing if none is near.
func Suggestion(prefix, word string, known []string) string {
	best, least := "", max(1, len(word)/3)+1 // one mistake in three letters at most: more is another word
	for _, candidate := range known {
		if d := levenshtein.Distance(word, candidate, nil); d < least {
			best, least = candidate, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(", did you mean %s%s?", prefix, best)
}
