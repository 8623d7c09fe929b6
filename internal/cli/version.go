package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

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
	_, err := fmt.Fprintf(c.App.Writer, "berth %s%s %s %s/%s\n", version, built(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}

// built returns the commit that the binary was built from and the commit's date, as
// far as the build knew them. The time of the build is not in it: two builds of one
// commit are the same.
func built() string {
	info, _ := debug.ReadBuildInfo()
	if info == nil {
		return ""
	}
	var commit, date string
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			commit = setting.Value[:min(len(setting.Value), 12)]
		case "vcs.time":
			date, _, _ = strings.Cut(setting.Value, "T")
		}
	}
	if commit == "" {
		return ""
	}
	return fmt.Sprintf(" (commit %s, %s)", commit, date)
}
