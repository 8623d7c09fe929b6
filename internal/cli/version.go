package cli

import (
	"fmt"
	"runtime"

	"github.com/urfave/cli/v2"

	"berth/internal/config"
)

// version and commit, with its date, are set by the linker: `make build` does it. The
// time of the build is not among them: two builds of one commit are the same bytes.
var (
	version = "development"
	commit  = ""
)

func versionCommand() *cli.Command {
	return command(cli.Command{
		Name:        "version",
		Usage:       "print the version",
		UsageText:   "berth version",
		Description: "Prints berth's version, and what it was built with and for.\n",
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return config.Usagef("takes no arguments; see 'berth --help'")
			}
			return printVersion(c)
		},
	}, "")
}

func printVersion(c *cli.Context) error {
	from := ""
	if commit != "" {
		from = " (commit " + commit + ")"
	}
	_, err := fmt.Fprintf(c.App.Writer, "berth %s%s %s %s/%s\n",
		version, from, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}
