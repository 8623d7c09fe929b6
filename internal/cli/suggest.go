package cli

import (
	"fmt"

	"berth/internal/config"

	"github.com/agext/levenshtein"
	"github.com/urfave/cli/v2"
)

// mistake is what a user has to correct: config.ErrUsage or config.ErrInvalid.
type mistake struct {
	text string
	sort error
}

func (m *mistake) Error() string { return m.text }
func (m *mistake) Unwrap() error { return m.sort }

func usagef(format string, args ...any) error {
	return &mistake{fmt.Sprintf(format, args...), config.ErrUsage}
}

// unknownCommand is the error for a name that is none of the commands.
func unknownCommand(path, name string, commands []*cli.Command) error {
	if config.BeginsLikeBroker(name) {
		return usagef("there is no command %q, is --broker missing in front of it?; see '%s --help'", config.Redact(name), path)
	}
	var names []string
	for _, command := range commands {
		names = append(names, command.Name)
	}
	return usagef("there is no command %q%s; see '%s --help'", name, suggestion("", name, names), path)
}

// suggestion returns the rest of a sentence that proposes the nearest of the
// known words, or nothing if none is near.
func suggestion(prefix, word string, known []string) string {
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
