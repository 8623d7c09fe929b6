package pages_test

import (
	"bytes"
	"strings"
	"testing"

	urfave "github.com/urfave/cli/v2"

	"berth/internal/cli"
	"berth/internal/cli/flags"
	"berth/internal/cli/pages"
	"berth/internal/config"
)

// each calls do for berth and every command, with the words that lead to it.
func each(do func(words []string, command *urfave.Command)) *urfave.Command {
	app := cli.NewApp()
	root := &urfave.Command{Name: app.Name, Description: app.Description, CustomHelpTemplate: app.CustomAppHelpTemplate,
		Subcommands: app.Commands}
	var walk func(words []string, command *urfave.Command)
	walk = func(words []string, command *urfave.Command) {
		do(words, command)
		for _, sub := range command.Subcommands {
			walk(append(words[:len(words):len(words)], sub.Name), sub)
		}
	}
	walk(nil, root)
	return root
}

func page(t *testing.T, command *urfave.Command) string {
	t.Helper()
	var out bytes.Buffer
	if err := pages.Help(&out, command); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestPageHasEveryFlagAndWhereElseItIsSet(t *testing.T) {
	each(func(words []string, command *urfave.Command) {
		text := page(t, command)
		for _, o := range flags.Options(command) {
			for _, want := range []string{"\n  " + o.Flag(), o.Env(), o.Key()} {
				if !strings.Contains(text, want) {
					t.Errorf("%q: no %q in the page", words, want)
				}
			}
		}
		if strings.Contains(text, "with --wait") && !strings.Contains(text, "\n  --wait") {
			t.Errorf("%q: the page speaks of --wait, which is no flag of it", words)
		}
	})
}

func TestEveryCommandHasAPageThatFitsATerminal(t *testing.T) {
	root := each(func([]string, *urfave.Command) {})
	each(func(words []string, command *urfave.Command) {
		var out bytes.Buffer
		if err := pages.HelpOn(&out, root, words); err != nil {
			t.Errorf("%q: %v", words, err)
		}
		if len(words) > 0 && !strings.HasPrefix(out.String(), "Usage: berth "+strings.Join(words, " ")) {
			t.Errorf("%q: the page does not begin with the command: %.60s", words, out.String())
		}
		for line := range strings.Lines(out.String()) {
			if len(strings.TrimRight(line, "\n")) > 80 {
				t.Errorf("%q: %d columns: %s", words, len(line), line)
			}
		}
	})
}

func TestFirstPageListsEveryCommand(t *testing.T) {
	root := each(func([]string, *urfave.Command) {})
	text := page(t, root)
	each(func(words []string, command *urfave.Command) {
		if command.Usage == "" && len(words) > 0 {
			t.Errorf("%q does not say what it is for", words)
		}
		if command.Subcommands == nil && !strings.Contains(text, "\n  berth "+strings.Join(words, " ")) {
			t.Errorf("%q is not listed", words)
		}
	})
}

// rendered is what a reader of a manual page sees, without its layout.
func rendered(page string) string {
	return strings.NewReplacer(`\-`, "-", `\e`, `\`, `\fB`, "", `\fR`, "", `\fI`, "", `\&`, "").Replace(page)
}

func TestManualHasEveryCommandFlagVariableAndKey(t *testing.T) {
	text, file := rendered(pages.Manual(cli.NewApp(), "2026-01-01")), rendered(pages.FileManual("2026-01-01"))
	each(func(words []string, command *urfave.Command) {
		if path := strings.Join(append([]string{"berth"}, words...), " "); !strings.Contains(text, path) {
			t.Errorf("berth(1) does not have %q", path)
		}
		for _, o := range flags.Options(command) {
			if !strings.Contains(text, "\n"+strings.TrimSpace(o.Flag()+" "+o.Value)+"\n") {
				t.Errorf("berth(1) does not have %s of %q", o.Flag(), words)
			}
		}
	})
	for _, o := range config.RunOptions() {
		if o.Env() != "" && !strings.Contains(text, "variable: "+o.Env()) {
			t.Errorf("berth(1) does not have %s", o.Env())
		}
		if o.Key() == "" {
			continue
		}
		if !strings.Contains(file, "\n"+strings.TrimSpace(o.Key()+" "+o.Value)+"\n") {
			t.Errorf("berth.hcl(5) does not have %s", o.Key())
		}
		if o.Env() != "" && !strings.Contains(file, "variable: "+o.Env()) {
			t.Errorf("berth.hcl(5) does not have %s", o.Env())
		}
	}
	for _, status := range []string{"64", "69", "70", "75", "76", "77", "78", "126", "127"} {
		if !strings.Contains(text, "\n  "+status+" ") {
			t.Errorf("berth(1) does not have the exit status %s", status)
		}
	}
}
