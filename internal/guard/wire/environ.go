package wire

import (
	"slices"
	"strings"
)

// runtimeSettings are what Go's runtime is told in a guard's process. To tell it later
// stops all threads, and needs a package that is initialised late; see package entry.
//
// Go's fork keeps the processor that its thread has (syscall.forkAndExecInChild blocks in
// vfork(2)) until the command is executed: there has to be another, and no more, which
// would only be woken for nothing; and nothing may want all threads to stop, as a
// garbage collection does. The guard says itself when garbage is to be collected.
var runtimeSettings = []string{"GOMAXPROCS=2", "GOGC=off", "GOMEMLIMIT=off"}

// kept is in front of a variable of the command that is not for the guard. No shell sets
// a name that has a space.
const kept = "berth keeps "

// GuardEnv returns the environment that a guard is started with: the command's, of which
// Go's runtime in the guard reads nothing.
func GuardEnv(command []string) []string {
	guard := slices.Clone(runtimeSettings)
	for _, variable := range command {
		if strings.HasPrefix(variable, kept) ||
			slices.ContainsFunc(runtimeSettings, func(s string) bool { return name(s) == name(variable) }) {
			variable = kept + variable
		}
		guard = append(guard, variable)
	}
	return guard
}

// CommandEnv returns what GuardEnv was given.
func CommandEnv(guard []string) []string {
	var command []string
	for _, variable := range guard {
		if !slices.Contains(runtimeSettings, variable) {
			command = append(command, strings.TrimPrefix(variable, kept))
		}
	}
	return command
}

func name(variable string) string {
	name, _, _ := strings.Cut(variable, "=")
	return name
}
