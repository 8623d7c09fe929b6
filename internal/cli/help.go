package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"berth/internal/config"

	"github.com/mitchellh/go-wordwrap"
	"github.com/urfave/cli/v2"
)

func helpCmd() *cli.Command {
	return &cli.Command{
		Name:         "help",
		HideHelp:     true,
		OnUsageError: usageError,
		Action: action(func(c *cli.Context) error {
			return showHelp(c.App, strings.Join(append([]string{"berth"}, c.Args().Slice()...), " "))
		}),
	}
}

// showHelp prints the page of a command, such as "berth run", on stdout.
func showHelp(app *cli.App, path string) error {
	page, found := pages[path]
	if !found {
		known := slices.Sorted(maps.Keys(pages))
		return usagef("there is no page for %q%s; see 'berth --help'", path, suggestion("", path, known))
	}
	return page.print(app.Writer)
}

// page is the help of one command.
type page struct {
	text    string          // what it does, how it is written, examples
	options []config.Option // shown by group, in this order
	end     string          // what comes after the flags
}

const (
	helpWidth  = 80
	helpIndent = "        "
)

func (p page) print(w io.Writer) error {
	var b strings.Builder
	b.WriteString(p.text)
	group := ""
	for _, option := range p.options {
		if option.Group != group {
			group = option.Group
			fmt.Fprintf(&b, "\n%s:\n", group)
		}
		writeOption(&b, option)
	}
	b.WriteString(p.end)
	_, err := io.WriteString(w, b.String())
	return err
}

func writeOption(b *strings.Builder, option config.Option) {
	fmt.Fprintf(b, "  %s\n", strings.TrimSpace(option.Flag()+" "+option.Value))
	for _, line := range wrap(option.Usage, helpWidth-uint(len(helpIndent))) {
		fmt.Fprintf(b, "%s%s\n", helpIndent, line)
	}
	if also := elsewhere(option); also != "" {
		fmt.Fprintf(b, "%s[%s]\n", helpIndent, also)
	}
}

// elsewhere says where else the option can be set, and its default.
func elsewhere(option config.Option) string {
	var parts []string
	if option.Default != "" && option.Kind != config.Switch {
		parts = append(parts, "default: "+option.Default)
	}
	if option.Group != groupAction {
		if env := option.Env(); env != "" {
			parts = append(parts, "variable: "+env)
		}
		if key := option.Key(); key != "" {
			parts = append(parts, "file: "+key)
		}
	}
	return strings.Join(parts, ", ")
}

// wrap returns the text in lines of at most width characters, where words allow it.
func wrap(text string, width uint) []string {
	return strings.Split(wordwrap.WrapString(text, width), "\n")
}
