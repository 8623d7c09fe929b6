package config

import (
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"berth/lock"
	"berth/supervisor"
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
		"on-acquire": {"attach"}, "on-release": {"detach"},
		"stop-to": {"tree"},
	})
	next, took, kept, err := before.Reload(now)
	if want := []string{"admins", "stop", "stop-to", "on-acquire", "on-release", "on-lost", "hook-timeout", "loss", "log-level"}; !slices.Equal(took, want) {
		t.Errorf("took %q, not %q", took, want)
	}
	if err != nil || !slices.Equal(kept, []string{"priority", "verify-interval"}) {
		t.Errorf("kept %q, %v", kept, err)
	}
	if next.HookTimes().OnLost != 9*time.Second {
		t.Errorf("hooks %v, %s", next.Hooks, next.HookTimeout)
	}
	if next.Stop.Duration() != 9*time.Second || next.StopTo != supervisor.StopTree ||
		next.Loss.Duration() != time.Second || next.LogLevel != "debug" ||
		!slices.Equal(next.Admins, []string{"operator"}) || next.Priority != 3 || next.VerifyInterval != time.Second {
		t.Errorf("%+v", next)
	}
}

// What is safe with another heartbeat need not be so with the one that is kept.
func TestReloadRefusesWhatDoesNotFitTheLease(t *testing.T) {
	before := loaded(t, map[string][]string{})
	now := loaded(t, map[string][]string{"heartbeat": {"20s"}, "loss": {"TERM 20s, KILL"}})
	next, _, _, err := before.Reload(now)
	if !errors.Is(err, lock.ErrUnsafe) || next.Loss.Duration() != before.Loss.Duration() {
		t.Errorf("%v, the loss sequence is %s", err, next.Loss)
	}
}

// A lock stays where it is; how to log in there may change.
func TestReloadTakesALoginAndNoOtherPlace(t *testing.T) {
	password := write(t, "old")
	load := func(settings ...string) Run {
		t.Helper()
		run, err := Load(input(append(settings, "--mutex", "m", "--", "x")...))
		if err != nil {
			t.Fatal(err)
		}
		return run
	}
	beside := []string{"--broker", "amqp://u@one", "--password-file", password}
	before := load(beside...)
	if err := os.WriteFile(password, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	next, took, kept, err := before.Reload(load(beside...))
	if err != nil || !slices.Equal(took, []string{"password-file"}) || kept != nil ||
		!slices.Equal(next.Brokers, []string{"amqp://u:new@one"}) {
		t.Errorf("took %q, kept %q, %v", took, kept, err)
	}
	if _, took, kept, err = next.Reload(load(beside...)); err != nil || took != nil || kept != nil {
		t.Errorf("once more it took %q and kept %q, %v", took, kept, err)
	}
	next, took, kept, err = before.Reload(load("--broker", "amqp://v:own@one"))
	if err != nil || !slices.Equal(took, []string{"broker", "password-file"}) || kept != nil ||
		!slices.Equal(next.Brokers, []string{"amqp://v:own@one"}) {
		t.Errorf("took %q, kept %q, %v", took, kept, err)
	}
	next, took, kept, err = before.Reload(load("--broker", "amqp://u@two", "--password-file", password))
	if err != nil || took != nil || !slices.Equal(kept, []string{"broker", "password-file"}) ||
		!slices.Equal(next.Brokers, []string{"amqp://u:old@one"}) {
		t.Errorf("of another place it took %q and kept %q, %v", took, kept, err)
	}
	before = load("--broker", "amqps://u:p@one")
	next, took, kept, err = before.Reload(load("--broker", "amqps://u:p@one", "--tls-min-version", "1.3"))
	if err != nil || !slices.Equal(took, []string{"tls-min-version"}) || kept != nil ||
		!slices.Equal(next.Brokers, []string{"amqps://u:p@one?tls_min_version=1.3"}) {
		t.Errorf("of TLS it took %q and kept %q, %v", took, kept, err)
	}
}
