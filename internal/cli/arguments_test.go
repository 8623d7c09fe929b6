package cli

import (
	"slices"
	"strings"
	"testing"

	"berth/internal/cli/flags"
)

func TestNameMayStandBeforeOrAfterFlags(t *testing.T) {
	for words, want := range map[string]string{
		"berth semaphore create s --slots 3":             "berth semaphore create --slots 3 -- s",
		"berth semaphore create --slots 3 s":             "berth semaphore create --slots 3 -- s",
		"berth semaphore resize s --wait --add=1":        "berth semaphore resize --wait --add=1 -- s",
		"berth semaphore resize --wait s --add 1":        "berth semaphore resize --wait --add 1 -- s",
		"berth semaphore create --slots 3 -- -odd":       "berth semaphore create --slots 3 -- -odd",
		"berth semaphore create s --slots":               "berth semaphore create --slots",
		"berth persistent-mutex enable s --broker local": "berth persistent-mutex enable --broker local -- s",
		"berth run --mutex m sleep --help":               "berth run --mutex m sleep --help",
		"berth semaphore":                                "berth semaphore",
		"berth semaphore creat s --slots 3":              "berth semaphore creat s --slots 3",
		"berth semaphore destroy --unknown s --sweep":    "berth semaphore destroy --unknown --sweep",
	} {
		if got := flags.Arrange(NewApp(), strings.Fields(words)); !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%s: got %v", words, got)
		}
	}
}

func TestNextFlagIsNotTakenForAValue(t *testing.T) {
	for words, want := range map[string]string{ // how the message begins
		"berth run --mutex -- true":                      `berth run: --mutex needs a value; "--" ends the flags (write`,
		"berth run --mutex --try -- true":                `berth run: --mutex needs a value; "--try" is the next flag`,
		"berth run -mutex --try -- true":                 `berth run: --mutex needs a value; "--try" is the next flag`,
		"berth check --user --broker=amqp://u:secret@h":  `berth check: --user needs a value; "--broker" is the next flag`,
		"berth semaphore create s --broker --slots 3":    `berth semaphore create: --broker needs a value; "--slots" is`,
		"berth semaphore create s --slots --":            `berth semaphore create: --slots needs a value; "--" ends the`,
		"berth run --try true -- cmd":                    `berth run: --try takes no separate value and "true" would be`,
		"berth run --mutex m --try true echo hello":      `berth run: --try takes no separate value and "true" would be`,
		"berth run --pid-namespace false --mutex m -- x": `berth run: --pid-namespace takes no separate value and "false"`,
		"berth run --mutex=--try -- true":                "",
		"berth run --mutex=-- -- true":                   "",
		"berth run --timeout -1s -- true":                "",
		"berth run --mutex m --try true":                 "",
		"berth run --mutex m --try -- true --help":       "",
		"berth run --mutex m true --mutex -- x":          "",
		"berth run --unknown -- --mutex --":              "",
		"berth semaphore create --wait true":             "",
		"berth":                                          "",
		"berth nonsense --mutex --":                      "",
	} {
		app := NewApp()
		got := ""
		if command, err := flags.Check(app, flags.Arrange(app, strings.Fields(words))); err != nil {
			got = command + ": " + err.Error()
		}
		if !strings.HasPrefix(got, want) || (got == "") != (want == "") || strings.Contains(got, "secret") {
			t.Errorf("%s: got %q", words, got)
		}
	}
}
