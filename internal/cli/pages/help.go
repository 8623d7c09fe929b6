// Package pages makes what people read about berth's command line from urfave/cli's
// description of it: help pages, manual pages, and what completes it in a shell.
//
//	command.CustomHelpTemplate = pages.Page(exitStatuses)
//	err := pages.Help(os.Stdout, command)
//
// A command says what it is for in Usage, how it is written in UsageText, and the
// rest in Description. Its flags say of themselves what package config says of their
// options. Nothing here knows what a command does.
package pages

import (
	"bytes"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"berth/internal/cli/flags"
	"berth/internal/config"
)

const (
	width = 80

	// Root is the template of the page that lists all commands.
	Root = `{{.Description}}
Commands:
{{range $group := .Subcommands}}{{range .Subcommands}}  berth {{$group.Name}} {{.Name}}	 {{.Usage}}
{{else}}  berth {{.Name}}{{with .ArgsUsage}} {{.}}{{end}}	 {{.Usage}}
{{end}}{{end}}`

	page = `Usage: {{wrap .UsageText 7}}

{{.Description}}{{$group := ""}}{{range .Flags}}{{if ne .Group $group}}{{$group = .Group}}
{{.Group}}:
{{end}}  {{.Flag}}{{with .Value}} {{.}}{{end}}
        {{wrap .Usage 8}}
{{with elsewhere .Option}}        [{{.}}]
{{end}}{{end}}`
)

// Page returns the template for the page of a command, with what follows its flags.
func Page(end string) string { return page + end }

// Help prints the page of a command.
func Help(w io.Writer, command *cli.Command) error {
	var b bytes.Buffer
	cli.HelpPrinterCustom(&b, command.CustomHelpTemplate, command, map[string]any{
		"elsewhere": elsewhere,
		"wrapAt":    func() int { return width },
	})
	_, err := w.Write(b.Bytes())
	return err
}

// HelpOn prints the page that words such as "semaphore", "create" lead to.
func HelpOn(w io.Writer, root *cli.Command, words []string) error {
	command := root
	for _, word := range words {
		if command = command.Command(word); command == nil {
			var known []string
			for _, c := range commandsOf(root) {
				known = append(known, c.path)
			}
			path := strings.Join(slices.Concat([]string{root.Name}, words), " ")
			return config.Usagef("there is no page for %q%s; see 'berth --help'", path,
				flags.Suggestion("", path, known))
		}
	}
	return Help(w, command)
}

// elsewhere says where else than on the command line the option can be set, and its
// default.
func elsewhere(o config.Option) string {
	if o.Kind == config.Switch {
		o.Default = ""
	}
	return listed("default", o.Default, "variable", o.Env(), "file", o.Key())
}

// listed returns "default: 5s, variable: BERTH_HEARTBEAT" for names and values,
// without those that are empty.
func listed(namesAndValues ...string) string {
	var parts []string
	for i := 0; i < len(namesAndValues); i += 2 {
		if value := namesAndValues[i+1]; value != "" {
			parts = append(parts, namesAndValues[i]+": "+value)
		}
	}
	return strings.Join(parts, ", ")
}

// command is a command and how it is called, such as "berth semaphore create".
type command struct {
	path string
	*cli.Command
}

// commandsOf returns a command and all below it, in the order of their paths.
func commandsOf(root *cli.Command) []command {
	all := []command{{root.Name, root}}
	for _, name := range names(root) {
		for _, c := range commandsOf(root.Command(name)) {
			all = append(all, command{root.Name + " " + c.path, c.Command})
		}
	}
	return all
}

// names are those of the commands below one, in order.
func names(root *cli.Command) (all []string) {
	for _, c := range root.Subcommands {
		all = append(all, c.Name)
	}
	slices.Sort(all)
	return all
}

// commands returns all commands of an application, itself among them.
func commands(app *cli.App) []command {
	return commandsOf(&cli.Command{
		Name: app.Name, Usage: app.Usage, Description: app.Description,
		Subcommands: app.Commands, CustomHelpTemplate: app.CustomAppHelpTemplate,
	})
}

// find returns the command with a path, an empty one if there is none.
func find(all []command, path string) command {
	i := slices.IndexFunc(all, func(c command) bool { return c.path == path })
	if i < 0 {
		return command{path, &cli.Command{}}
	}
	return all[i]
}

func (c command) options() []config.Option { return flags.Options(c.Command) }

// end is what follows the flags on the command's page.
func (c command) end() string { return strings.TrimPrefix(c.CustomHelpTemplate, page) }
