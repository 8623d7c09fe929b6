package supervisor

import (
	"slices"
	"testing"
)

func TestWhatIsSoInAState(t *testing.T) {
	for name, c := range map[string]struct {
		is    func(State) bool
		where []State
	}{
		"the backend is being reached":        {State.Reaching, []State{Connecting, Pausing}},
		"a slot is waited for":                {State.InLine, []State{Attempting, Waiting}},
		"a slot is wanted, and none held":     {State.Contending, []State{Connecting, Pausing, Attempting, Waiting}},
		"it takes a moment":                   {State.Passing, []State{Connecting, Attempting}},
		"a slot is held without anything":     {State.Idle, []State{Preparing, Resting}},
		"the command runs":                    {State.Working, []State{Running, InDoubt}},
		"what runs is being ended":            {State.Ending, []State{Stopping, Losing}},
		"a hook runs after the command":       {State.Parting, []State{Leaving, Reporting}},
		"berth ends":                          {State.Final, []State{Quitting, Ended}},
		"a slot is held, and is to stay held": {State.Keeping, []State{Preparing, Entering, Starting, Running, InDoubt, Resting}},
		"a slot is held": {State.Holding, []State{Preparing, Entering, Starting, Running, InDoubt, Stopping, Losing, Resting,
			Leaving, Releasing}},
	} {
		for _, s := range States() {
			if got, want := c.is(s), slices.Contains(c.where, s); got != want {
				t.Errorf("%s in %q: %v, want %v", name, s, got, want)
			}
		}
	}
}
