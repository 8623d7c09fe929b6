package cli

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"berth/internal/cli/pages"
	"berth/internal/config"
)

const aboutCompletion = `Prints the script that completes berth's command line in a shell. Packages
install it; otherwise:

  berth completion bash >/usr/share/bash-completion/completions/berth
  berth completion zsh >/usr/share/zsh/vendor-completions/_berth
  berth completion fish >/usr/share/fish/vendor_completions.d/berth.fish
`

func completionCommand() *cli.Command {
	return command(cli.Command{
		Name:        "completion",
		Usage:       "print completions for bash, zsh, fish",
		UsageText:   "berth completion bash|zsh|fish",
		ArgsUsage:   "SHELL",
		Description: aboutCompletion,
		Action: func(c *cli.Context) error {
			script, err := pages.Completion(c.App, c.Args().First())
			if err != nil || c.Args().Len() > 1 {
				return config.Usagef("give one of bash, zsh and fish; see 'berth completion --help'")
			}
			_, err = fmt.Fprint(c.App.Writer, script)
			return err
		},
	}, "")
}
