// Command berth runs a command only while it holds a lock in RabbitMQ, or on
// this host, and has the command's whole process tree dead before anyone else
// may start theirs. Its own help and README.md say how it is used.
//
// This binary is four programs: the command line, the guard that it starts, what
// becomes a command that has to know its process number, and the server of
// --listen. Which one a process is, its name says. Guard and command do their
// work before main; see package entry.
package main

import (
	"os"

	"berth/internal/backends"
	"berth/internal/cli"
	"berth/internal/guard/entry"
	"berth/internal/observe/feed"
	"berth/internal/observe/web"
)

func main() {
	if will := entry.Will(); will != nil {
		will.Execute(backends.ExecuteWill)
		return
	}
	if os.Args[0] == feed.Name {
		os.Exit(web.Main())
	}
	os.Exit(cli.Main(os.Args))
}
