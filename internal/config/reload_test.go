package config

import (
	"errors"
	"slices"
	"testing"
	"time"

	"berth/lock"
)

func loaded(t *testing.T, flags map[string][]string) Run {
	t.Helper()
	flags["mutex"], flags["broker"] = []string{"m"}, []string{"amqp://rabbit"}
	run, err := Load(Input{Flags: flags, Command: []string{"true"}})
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func TestReloadTakesWhatCanChange(t *testing.T) {
	before := loaded(t, map[string][]string{"priority": {"3"}})
	now := loaded(t, map[string][]string{
		"stop": {"TERM 9s, KILL"}, "loss": {"TERM 1s, KILL"}, "log-level": {"debug"}, "admins": {"operator"},
		"priority": {"4"}, "verify-interval": {"2s"}, "on-lost": {"alarm"}, "hook-timeout": {"9s"},
	})
	next, kept, err := before.Reload(now)
	if err != nil || !slices.Equal(kept, []string{"priority", "verify-interval"}) {
		t.Errorf("kept %q, %v", kept, err)
	}
	if next.HookTimes().OnLost != 9*time.Second {
		t.Errorf("hooks %v, %s", next.Hooks, next.HookTimeout)
	}
	if next.Stop.Duration() != 9*time.Second || next.Loss.Duration() != time.Second || next.LogLevel != "debug" ||
		!slices.Equal(next.Admins, []string{"operator"}) || next.Priority != 3 || next.VerifyInterval != time.Second {
		t.Errorf("%+v", next)
	}
}

// What is safe with another heartbeat need not be so with the one that is kept.
func TestReloadRefusesWhatDoesNotFitTheLease(t *testing.T) {
	before := loaded(t, map[string][]string{})
	now := loaded(t, map[string][]string{"heartbeat": {"20s"}, "loss": {"TERM 20s, KILL"}})
	next, _, err := before.Reload(now)
	if !errors.Is(err, lock.ErrUnsafe) || next.Loss.Duration() != before.Loss.Duration() {
		t.Errorf("%v, the loss sequence is %s", err, next.Loss)
	}
}
