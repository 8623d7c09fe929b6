// Command diagram writes machine.Diagram and machine.Table to states.md and states.tsv in
// the directory that its argument names. `make docs` runs it.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"berth/supervisor/machine"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: diagram DIRECTORY")
		os.Exit(64)
	}
	for name, text := range map[string]string{"states.md": machine.Diagram(), "states.tsv": machine.Table()} {
		if err := os.WriteFile(filepath.Join(os.Args[1], name), []byte(text), 0o644); err != nil {
			fmt.Fprintf(os.Stderr, "diagram: cannot write: %v\n", err)
			os.Exit(1)
		}
	}
}
