package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/urfave/cli/v2"
)

// version is set by the linker for releases: -X berth/internal/cli.version=1.2.3.
var version = "development"

func versionCmd() *cli.Command {
	return &cli.Command{
		Name:         "version",
		HideHelp:     true,
		OnUsageError: usageError,
		Action: action(func(c *cli.Context) error {
			if c.Args().Present() {
				return usagef("takes no arguments; see 'berth --help'")
			}
			return printVersion(c)
		}),
	}
}

func printVersion(c *cli.Context) error {
	_, err := fmt.Fprintf(c.App.Writer, "berth %s%s %s %s/%s\n", version, revision(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}

// revision returns the commit that the binary was built from, as far as the
// build knew it.
func revision() string {
	info, _ := debug.ReadBuildInfo()
	if info == nil {
		return ""
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" && len(setting.Value) >= 12 {
			return " (" + setting.Value[:12] + ")"
		}
	}
	return ""
}
