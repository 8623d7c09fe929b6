package cli

import (
	"strings"
	"testing"
	"time"

	"berth/internal/administer"
	"berth/internal/cli/flags"
	"berth/lock"
	"berth/supervisor"
)

func TestOnlyAnActionThatWaitsHasNoTimeLimit(t *testing.T) {
	for _, c := range []struct {
		request administer.Request
		want    time.Duration
	}{
		{administer.Request{}, actionTimeout},
		{administer.Request{Wait: true}, 0},
		{administer.Request{Wait: true, Timeout: time.Hour}, time.Hour},
	} {
		if got := limit(c.request.Timeout, c.request.Wait); got != c.want {
			t.Errorf("%+v: got %s", c.request, got)
		}
	}
}

// As with --timeout "$T" where T is empty: it must not mean no limit.
func TestEmptyValueOfAFlagIsAMistake(t *testing.T) {
	for _, name := range []string{"wait", "timeout", "slots", "sweep"} {
		if _, err := readRequest(lock.Semaphore, map[string][]string{name: {""}}); Status(err) != supervisor.ExitUsage ||
			!strings.Contains(err.Error(),
				"--"+name) {
			t.Errorf("--%s with an empty value: %v", name, err)
		}
	}
	read := flags.Read(map[string][]string{"connect": {""}})
	if read.Switch("connect"); Status(read.Err()) != supervisor.ExitUsage {
		t.Errorf("--connect with an empty value: %v", read.Err())
	}
}
