// Command berth runs a command only while it holds a lock in RabbitMQ, or on
// this host, and has the command's whole process tree dead before anyone else
// may start theirs. Its own help and README.md say how it is used.
//
// This binary is two programs: the command line, and the guard that it starts
// (see package guard). Which one a process is, its name says.
package main

import (
	"os"

	"berth/internal/cli"
	"berth/internal/guard"
)

func main() {
	if os.Args[0] == guard.Name {
		os.Exit(guard.Main(os.Args, cli.ExecuteWill))
	}
	os.Exit(cli.Main(os.Args))
}
