package cli

import (
	"slices"
	"strings"
	"testing"

	"berth/internal/cli/flags"
)

func TestNameMayStandBeforeOrAfterFlags(t *testing.T) {
	for words, want := range map[string]string{
		"berth semaphore create s --slots 3":              "berth semaphore create --slots 3 -- s",
		"berth semaphore create --slots 3 s":              "berth semaphore create --slots 3 -- s",
		"berth semaphore resize s --wait --add=1":         "berth semaphore resize --wait --add=1 -- s",
		"berth semaphore resize --wait s --add 1":         "berth semaphore resize --wait --add 1 -- s",
		"berth semaphore create --slots 3 -- -odd":        "berth semaphore create --slots 3 -- -odd",
		"berth semaphore create s --slots":                "berth semaphore create --slots",
		"berth persistent-mutex enable s --broker local":  "berth persistent-mutex enable --broker local -- s",
		"berth run --mutex m sleep --help":                "berth run --mutex m sleep --help",
		"berth semaphore":                                 "berth semaphore",
		"berth semaphore creat s --slots 3":               "berth semaphore creat s --slots 3",
		"berth semaphore destroy --unknown s --overshoot": "berth semaphore destroy --unknown --overshoot",
	} {
		if got := flags.Arrange(NewApp(), strings.Fields(words)); !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%s: got %v", words, got)
		}
	}
}

func TestNextFlagIsNotTakenForAValue(t *testing.T) {
	for _, c := range [][2]string{
		{"berth run --mutex -- true",
			`berth run: --mutex needs a value; "--" ends the flags (write --mutex=-- if it is meant)`},
		{"berth run --mutex --try -- true",
			`berth run: --mutex needs a value; "--try" is the next flag (write --mutex=--try if it is meant)`},
		{"berth run -mutex --try -- true",
			`berth run: --mutex needs a value; "--try" is the next flag (write --mutex=--try if it is meant)`},
		{"berth check --user --broker=amqp://u:secret@h",
			`berth check: --user needs a value; "--broker" is the next flag (write --user=--broker if it is meant)`},
		{"berth semaphore create s --broker --slots 3",
			`berth semaphore create: --broker needs a value; "--slots" is the next flag ` +
				`(write --broker=--slots if it is meant)`},
		{"berth semaphore create s --slots --",
			`berth semaphore create: --slots needs a value; "--" ends the flags (write --slots=-- if it is meant)`},
		{"berth run --try true -- cmd",
			`berth run: --try takes no separate value and "true" would be the command; ` +
				`write --try=true, or -- in front of a command called "true"`},
		{"berth run --mutex m --try true echo hello",
			`berth run: --try takes no separate value and "true" would be the command; ` +
				`write --try=true, or -- in front of a command called "true"`},
		{"berth run --pid-namespace false --mutex m -- x",
			`berth run: --pid-namespace takes no separate value and "false" would be the command; ` +
				`write --pid-namespace=false, or -- in front of a command called "false"`},
		{"berth run --mutex=--try -- true", ""},
		{"berth run --mutex=-- -- true", ""},
		{"berth run --timeout -1s -- true", ""},
		{"berth run --mutex m --try true", ""},
		{"berth run --mutex m --try -- true --help", ""},
		{"berth run --mutex m true --mutex -- x", ""},
		{"berth run --unknown -- --mutex --", ""},
		{"berth semaphore create --wait true", ""},
		{"berth", ""},
		{"berth nonsense --mutex --", ""},
	} {
		words, want := c[0], c[1]
		app := NewApp()
		got := ""
		command, err := flags.Check(app, flags.Arrange(app, strings.Fields(words)))
		if err != nil {
			got = command + ": " + err.Error()
		}
		if got != want {
			t.Errorf("%s: got %q", words, got)
		}
	}
}
