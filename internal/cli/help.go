package cli

import (
	"github.com/urfave/cli/v2"

	"berth/internal/cli/pages"
)

func helpCommand() *cli.Command {
	return command(cli.Command{
		Name:        "help",
		Usage:       "print a help page, as --help does",
		UsageText:   "berth help [COMMAND...]",
		ArgsUsage:   "[COMMAND...]",
		Description: "Prints the help page of a command.\n",
		Action: func(c *cli.Context) error {
			root := c.Lineage()[1].Command
			return pages.HelpOn(c.App.Writer, root, c.Args().Slice())
		},
	}, "")
}
