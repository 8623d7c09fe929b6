// Command diagram writes machine.Diagram to the file that its argument
// names. `make docs` runs it.
package main

import (
	"fmt"
	"os"

	"berth/supervisor/machine"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: diagram FILE")
		os.Exit(64)
	}
	if err := os.WriteFile(os.Args[1], []byte(machine.Diagram()), 0o644); err != nil {
		fmt.Fprintf(os.Stderr, "diagram: cannot write: %v\n", err)
		os.Exit(1)
	}
}
