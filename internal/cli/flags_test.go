package cli

import (
	"slices"
	"strings"
	"testing"
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
		if got := nameLast(newApp(), strings.Fields(words)); !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%s: got %v", words, got)
		}
	}
}

func TestOnlyNearWordsAreSuggested(t *testing.T) {
	known := []string{"run", "semaphore", "persistent-mutex", "version"}
	for word, want := range map[string]string{
		"runn": ", did you mean run?", "semafore": ", did you mean semaphore?", "persistant-mutex": ", did you mean persistent-mutex?",
		"frobnicate": "", "": "",
	} {
		if got := suggestion("", word, known); got != want {
			t.Errorf("%q: got %q", word, got)
		}
	}
}
