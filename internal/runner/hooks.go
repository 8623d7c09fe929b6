package runner

import (
	"maps"
	"slices"

	"berth/internal/config"
	"berth/internal/guard"
	"berth/supervisor"
)

// program is a program of the user's, found, and its arguments.
type program struct {
	path string
	args []string
}

// findHooks finds the hooks' programs. Its error wraps config.ErrInvalid.
func findHooks(cfg config.Run) (map[supervisor.Hook]program, error) {
	found := map[supervisor.Hook]program{}
	for _, hook := range slices.Sorted(maps.Keys(cfg.Hooks)) {
		path, err := findFor(cfg, cfg.Hooks[hook][0])
		if err != nil {
			return nil, config.Invalidf("%s: %v", hook, err)
		}
		found[hook] = program{path, cfg.Hooks[hook]}
	}
	return found, nil
}

// beside returns how the program is run beside the command: like that, but for what it reads and writes, and for what
// is told to one process by its number.
func (p program) beside(command guard.Spec) guard.Spec {
	command.Path, command.Args, command.Numbered, command.Aside = p.path, p.args, nil, true
	return command
}

// launchers returns what launches a guard for each hook.
func launchers(guards *guard.Host, command guard.Spec, programs map[supervisor.Hook]program,
) map[supervisor.Hook]func() (supervisor.Guard, error) {
	all := map[supervisor.Hook]func() (supervisor.Guard, error){}
	for hook, program := range programs {
		spec := program.beside(command)
		all[hook] = func() (supervisor.Guard, error) { return guards.Launch(spec) }
	}
	return all
}
