package flags

import "testing"

func TestOnlyNearWordsAreSuggested(t *testing.T) {
	known := []string{"run", "semaphore", "persistent-mutex", "version"}
	for word, want := range map[string]string{
		"runn": ", did you mean run?", "semafore": ", did you mean semaphore?",
		"persistant-mutex": ", did you mean persistent-mutex?",
		"frobnicate":       "", "": "", "token-semaphore": "", "rum": ", did you mean run?", "prove": "",
	} {
		if got := Suggestion("", word, known); got != want {
			t.Errorf("%q: got %q", word, got)
		}
	}
}
