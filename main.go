// Command berth runs a command only while it holds a lock in RabbitMQ, or on
// this host, and has the command's whole process tree dead before anyone else
// may start theirs. Its own help and README.md say how it is used.
//
// This binary is three programs: the command line, the guard that it starts, and
// what becomes a command that has to know its process number. Which one a process
// is, its name says. The other two do their work before main; see package entry.
package main

import (
	"os"

	"berth/internal/backends"
	"berth/internal/cli"
	"berth/internal/guard/entry"
)

func main() {
	if will := entry.Will(); will != nil {
		will.Execute(backends.ExecuteWill)
		return
	}
	os.Exit(cli.Main(os.Args))
}
