// Package entry has a process that was executed as a guard, or as what becomes the command, do its work before the rest
// of the program is initialised: [process.Main] or [process.Stage]. And each process of berth, whichever it is, keeps
// to itself what it knows ([parent.KeepToItself]). Package main imports it:
//
//	if will := entry.Will(); will != nil {
//		will.Execute(backends.ExecuteWill)
//		return
//	}
//
// A guard's process comes before each start of a command. Go initialises packages in the order of their import paths,
// each as soon as what it imports is ready (go.dev/ref/spec, "Program initialization"; cmd/link since Go 1.21): this
// one imports little, and its path sorts before nearly all others. It decides nothing.
package entry

import (
	"os"

	"berth/internal/guard/launch"
	"berth/internal/guard/parent"
	"berth/internal/guard/process"
	"berth/internal/guard/wire"
)

var will *process.Will

func init() {
	parent.KeepToItself()
	switch os.Args[0] {
	case wire.Name:
		status, left := process.Main(os.Args)
		if left == nil {
			os.Exit(status)
		}
		will = left // whose execution needs the rest of the program
	case process.StageName:
		os.Exit(process.Stage(os.Args))
	default:
		if len(os.Args) > 1 && os.Args[1] == "run" {
			launch.Ahead()
		}
	}
}

// Will returns what a guard's process has to execute in place of its supervisor. It is
// nil in every process that is no guard.
func Will() *process.Will { return will }
