package cli

import (
	"bytes"
	"strings"
	"testing"

	"berth/internal/config"
)

func TestHelpOfRunShowsEveryOption(t *testing.T) {
	var out bytes.Buffer
	if err := pages["berth run"].print(&out); err != nil {
		t.Fatal(err)
	}
	for _, option := range config.RunOptions() {
		if option.Flag() == "" {
			continue
		}
		for _, want := range []string{"  " + option.Flag(), option.Env(), "file: " + option.Key()} {
			if option.Key() == "" && strings.HasPrefix(want, "file:") {
				continue
			}
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: no %q in the page", option.Name, want)
			}
		}
	}
}

func TestEveryCommandHasAPage(t *testing.T) {
	app := newApp()
	for _, command := range app.Commands {
		path := "berth " + command.Name
		if _, found := pages[path]; !found {
			t.Errorf("%s has no page", path)
		}
		for _, sub := range command.Subcommands {
			if _, found := pages[path+" "+sub.Name]; !found {
				t.Errorf("%s %s has no page", path, sub.Name)
			}
		}
	}
}

func TestHelpFitsATerminal(t *testing.T) {
	for path, page := range pages {
		var out bytes.Buffer
		if err := page.print(&out); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if len(line) > 90 {
				t.Errorf("%s: %d columns: %s", path, len(line), line)
			}
		}
	}
}

func TestEveryActionFlagIsOnItsPage(t *testing.T) {
	app := newApp()
	for _, group := range []string{"semaphore", "persistent-mutex"} {
		for _, command := range app.Command(group).Subcommands {
			var out bytes.Buffer
			if err := pages["berth "+group+" "+command.Name].print(&out); err != nil {
				t.Fatal(err)
			}
			if text := out.String(); strings.Contains(text, "with --wait") && !strings.Contains(text, "  --wait") {
				t.Errorf("%s %s: the page speaks of --wait, which is no flag of it", group, command.Name)
			}
			for _, flag := range command.Flags {
				if !strings.Contains(out.String(), "  --"+flag.Names()[0]) {
					t.Errorf("%s %s: no --%s in the page", group, command.Name, flag.Names()[0])
				}
			}
		}
	}
}
