// Command manual writes berth's manual pages and shell completions below the
// directory that its argument names, where packages install them. `make packages`
// runs it.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"berth/internal/cli"
	"berth/internal/cli/pages"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: manual DIRECTORY DATE")
		os.Exit(64)
	}
	if err := write(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintf(os.Stderr, "manual: cannot write: %v\n", err)
		os.Exit(1)
	}
}

func write(directory, date string) error {
	app := cli.NewApp()
	files := map[string]string{
		"berth.1":     pages.Manual(app, date),
		"berth.hcl.5": pages.FileManual(date),
	}
	for shell, name := range map[string]string{"bash": "berth.bash", "zsh": "_berth", "fish": "berth.fish"} {
		script, err := pages.Completion(app, shell)
		if err != nil {
			return err
		}
		files[name] = script
	}
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(directory, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
