package pages

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"berth/internal/config"
)

// Manual returns the page berth(1) in the form that man(1) reads (man(7)). date is
// shown at its foot. urfave/cli's own has neither examples that keep their lines, nor
// exit statuses, keys of the file and headings of options.
func Manual(app *cli.App, date string) string {
	all := commands(app)
	m := &manual{}
	m.title("BERTH", 1, date, "User Commands")
	m.section("NAME")
	m.line("berth \\- run a command only while holding a lock in RabbitMQ, or on this host")
	m.section("SYNOPSIS")
	for _, c := range all {
		if len(c.Subcommands) > 0 {
			continue // each of its subcommands says more
		}
		for line := range strings.SplitSeq(c.UsageText, "\n") {
			m.line(roff(line))
			m.line(".br")
		}
	}
	m.section("DESCRIPTION")
	intro, examples, _ := strings.Cut(app.Description, "\n\n")
	m.body(intro)
	m.section("COMMANDS")
	for _, c := range all[1:] {
		m.subsection(c.path)
		m.body(c.Description)
		for _, o := range c.options() {
			if o.FlagOnly {
				m.option(o, o.Flag(), elsewhere(o))
			}
		}
	}
	m.section("OPTIONS")
	m.text("These are the options of berth run and berth check. The administration commands have those of the " +
		"connection and the log too, and berth status, step-down and reload also those of the lock. Flags override " +
		"variables, and variables override the file.")
	m.options(find(all, "berth run").options(), config.Option.Flag, elsewhere)
	m.section("EXIT STATUS")
	m.exitStatuses(find(all, "berth run"))
	for _, others := range [][2]string{
		{"The administration commands:", "berth semaphore create"}, {"berth check:", "berth check"},
		{"berth status:", "berth status"}, {"berth step-down and reload:", "berth step-down"},
	} {
		m.text(others[0])
		m.exitStatuses(find(all, others[1]))
	}
	m.section("ENVIRONMENT")
	m.text("Each option of berth run has a variable, which is named beside it. The command is told about its slot:")
	for _, v := range [][2]string{
		{"BERTH_NAME", "the name of the lock"},
		{"BERTH_KIND", "its kind: mutex, semaphore, persistent-mutex or token-semaphore"},
		{"BERTH_SLOT", "the number of the slot, from 1 on"},
		{"BERTH_TERM",
			"a number that only grows from holder to holder of a slot: what the command writes to can refuse " +
				"a lower one"},
		{"BERTH_HOLDER", "host and process number of this berth"},
		{"BERTH_REASON", "why a hook or health check runs, which alone have it: acquired (on_acquire); ended, signal, " +
			"step-down, unhealthy, max-run or not-started (on_release); lost, not-verified or deadline (on_lost); running or " +
			"waiting (a health check)"},
	} {
		m.item(v[0], v[1]+".")
	}
	m.text("It does not have BERTH_BROKER, BERTH_BROKER_FILE, BERTH_PASSWORD_FILE, nor NOTIFY_SOCKET and the " +
		"watchdog's variables unless --pass-notify is given.")
	m.section("EXAMPLES")
	m.body(strings.TrimSuffix(examples,
		"\nSee 'berth --help' for all commands and 'berth run --help' for all flags.\n"))
	m.section("SEE ALSO")
	m.text("berth.hcl(5), flock(1), systemd.service(5)")
	return m.String()
}

// FileManual returns the page berth.hcl(5).
func FileManual(date string) string {
	m := &manual{}
	m.title("BERTH.HCL", 5, date, "File Formats")
	m.section("NAME")
	m.line("berth.hcl \\- configuration of berth")
	m.section("DESCRIPTION")
	m.text("The file that berth run --config FILE reads. It is written in HCL: a key, an equals sign, and a value. " +
		"Text and durations stand in quotes, numbers and true and false without; a list stands in brackets. A # " +
		"begins a " +
		"comment. " +
		`A literal "${" in text is written "$${". A key that berth does not know is an error. ` +
		`Environment variables override the file, flags override both.`)
	m.text("With the packages' unit, berth@NAME.service reads /etc/berth/NAME.hcl. The file may hold the broker's " +
		"password: let only the user who starts berth read it (with that unit: chgrp berth, chmod 640).")
	m.section("KEYS")
	var keys []config.Option
	for _, o := range config.RunOptions() {
		if o.Key() != "" {
			keys = append(keys, o)
		}
	}
	m.options(keys, config.Option.Key, outsideOfTheFile)
	m.section("EXAMPLE")
	m.body("  mutex   = \"importer\"\n  broker  = [\"amqp://berth@rabbit1/locks\", \"amqp://berth@rabbit2/locks\"]\n  " +
		"password_file = \"/etc/berth/password\"\n" +
		"  command = [\"/usr/bin/importer\", \"--all\"]\n  stop    = \"TERM 30s, KILL\"\n")
	m.section("SEE ALSO")
	m.text("berth(1)")
	return m.String()
}

// outsideOfTheFile says how else a key can be given, and its default.
func outsideOfTheFile(o config.Option) string {
	return listed("default", o.Default, "flag", o.Flag(), "variable", o.Env())
}

// manual is a page in the making.
type manual struct{ strings.Builder }

func (m *manual) line(text string) { m.WriteString(text + "\n") }

func (m *manual) title(name string, section int, date, kind string) {
	m.line(fmt.Sprintf(".TH %s %d %q berth %q", name, section, date, kind))
}

func (m *manual) section(name string)    { m.line(".SH " + name) }
func (m *manual) subsection(name string) { m.line(".SS " + roff(name)) }

// text writes a paragraph.
func (m *manual) text(paragraph string) {
	m.line(".PP")
	m.line(roff(paragraph))
}

// item writes what a term means.
func (m *manual) item(term, meaning string) {
	m.line(".TP")
	m.line(`\fB` + roff(term) + `\fR`)
	m.line(roff(meaning))
}

// exitStatuses writes those that a command's page ends with.
func (m *manual) exitStatuses(c command) {
	m.body(strings.TrimPrefix(c.end(), "\nExit status:\n"))
}

// options writes options by their headings, each under the name that it has here,
// and with what else is to be said of it.
func (m *manual) options(options []config.Option, name, also func(config.Option) string) {
	group := ""
	for _, o := range options {
		if o.Group != group {
			group = o.Group
			m.subsection(group)
		}
		m.option(o, name(o), also(o))
	}
}

func (m *manual) option(o config.Option, name, also string) {
	m.line(".TP")
	if o.Value != "" {
		m.line(`\fB` + roff(name) + `\fR \fI` + roff(o.Value) + `\fR`)
	} else {
		m.line(`\fB` + roff(name) + `\fR`)
	}
	m.line(roff(o.Usage))
	if also != "" {
		m.line(".br")
		m.line(roff("[" + also + "]"))
	}
}

// body writes text of a help page: paragraphs, and lines as they are where they
// are indented.
func (m *manual) body(text string) {
	m.line(".PP")
	verbatim := false
	for line := range strings.Lines(strings.Trim(text, "\n") + "\n") {
		line = strings.TrimRight(line, "\n")
		indented := strings.HasPrefix(line, "  ") || verbatim && line == ""
		switch {
		case indented && !verbatim:
			m.line(".nf")
		case !indented && verbatim:
			m.line(".fi")
		}
		verbatim = indented
		if line == "" {
			m.line(".PP")
		} else {
			m.line(roff(line))
		}
	}
	if verbatim {
		m.line(".fi")
	}
}

// roff escapes what groff(7) would take for something else.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	return text
}
