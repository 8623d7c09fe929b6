package guard

import (
	"syscall"
	"testing"

	"berth/internal/guard/wire"
)

func TestCommandThatChangesItsUserIsToldOf(t *testing.T) {
	const becomes = `sleep 0.3; exec setpriv --reuid=65534 --regid=65534 --clear-groups sleep 1000`
	tr := prepare(t, becomes)
	first := tr.run()
	if loosened := tr.next(wire.UserChanged); loosened.Pid != first {
		t.Errorf("it is told as %+v", loosened)
	}
	_ = tr.guard.Kill()
	tr.next(wire.Exited) // and not again
	tr.next(wire.Dead)
}

func TestCommandThatKeepsItsUserIsNotToldOf(t *testing.T) {
	for name, spec := range map[string]Spec{
		"as who started berth": {},
		"as somebody else":     {Credential: &syscall.Credential{Uid: 65534, Gid: 65534}},
		"in a namespace":       {Namespace: true},
	} {
		t.Run(name, func(t *testing.T) {
			script := `sleep 0.7; exit 7`
			if spec.Namespace {
				script = `exec setpriv --reuid=65534 --regid=65534 --clear-groups sh -c "` + script + `"`
			}
			spec.Path, spec.Args = "/bin/sh", []string{"sh", "-c", script}
			tr := prepareSpec(t, spec)
			tr.run()
			if exited := tr.next(wire.Exited); exited.Status.ExitStatus() != 7 {
				t.Errorf("it ended as %+v", exited)
			}
			tr.next(wire.Dead)
		})
	}
}
