package check

import (
	"bytes"
	"errors"
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/internal/config"
)

func reportOn(t *testing.T, flags map[string][]string) *Report {
	t.Helper()
	cfg, err := config.LoadCheck(config.Input{Flags: flags})
	if err != nil {
		t.Fatal(err)
	}
	return New(cfg)
}

// As in a unit with NoNewPrivileges=, or in a container.
func TestReportShowsWhatTheCommandInheritsOfBerth(t *testing.T) {
	var text bytes.Buffer
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with what it cannot get rid of
		err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
		cfg, wrong := config.LoadCheck(config.Input{Flags: map[string][]string{"broker": {"local"}, "umask": {"27"},
			"no-new-privileges": {"false"}}})
		done <- errors.Join(err, wrong, New(cfg).WriteText(&text))
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text.String(), "privileges     no new ones") {
		t.Error(text.String())
	}
}

func TestReportTellsCapabilitiesOfRootFromThoseOfOthers(t *testing.T) {
	for _, c := range []struct{ user, set, text string }{
		{"0", "bounding", "all of berth's bounding set"}, {"54321", "none", "none"},
	} {
		r := reportOn(t, map[string][]string{"broker": {"local"}, "user": {c.user}, "group": {"54321"}})
		var text bytes.Buffer
		if err := r.WriteText(&text); err != nil {
			t.Fatal(err)
		}
		if got := r.command().Capabilities; got != c.set || !strings.Contains(text.String(), "capabilities   "+c.text) {
			t.Errorf("user %s: %q, %s", c.user, got, text.String())
		}
	}
}

func TestPageHasEveryKeyOfTheReport(t *testing.T) {
	page, err := os.ReadFile("../../docs/messages.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## `berth check --json`")
	section, _, _ = strings.Cut(section, "\n## ")
	var look func(of reflect.Type)
	look = func(of reflect.Type) {
		for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
			of = of.Elem()
		}
		for i := 0; of.Kind() == reflect.Struct && i < of.NumField(); i++ {
			key, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
			if !strings.Contains(section, "`"+key+"`") {
				t.Errorf("the page does not have the key %q of %s", key, of)
			}
			look(of.Field(i).Type)
		}
	}
	look(reflect.TypeFor[jsonReport]())
}
