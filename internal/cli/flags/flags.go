// Package flags reads berth's command line: it makes an option of package config a
// flag of urfave/cli, puts arguments into the order that this library wants, and
// says what is wrong with a command line and what was probably meant.
//
//	command.Flags = flags.For(options)
//	given := flags.Given(c, options) // in the command's action
//
// It keeps what was given as text. What a value means, and where else it could come
// from, package config knows.
package flags

import (
	"errors"
	"flag"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"berth/internal/config"
)

// Flag is one flag of one command, and what was given for it. It implements
// cli.Flag, and flag.Value too.
type Flag struct {
	config.Option
	texts []string // in the order in which they were given
}

// For makes the flags of a command. Options without a flag are left out.
func For(options []config.Option) []cli.Flag {
	var all []cli.Flag
	for _, option := range options {
		if option.Flag() != "" {
			all = append(all, &Flag{Option: option})
		}
	}
	return all
}

// Apply implements cli.Flag.
func (f *Flag) Apply(set *flag.FlagSet) error {
	set.Var(f, f.Name, "")
	return nil
}

// Names implements cli.Flag.
func (f *Flag) Names() []string { return []string{f.Name} }

// IsSet implements cli.Flag.
func (f *Flag) IsSet() bool { return len(f.texts) > 0 }

// String implements cli.Flag and flag.Value.
func (f *Flag) String() string { return strings.Join(f.texts, " ") }

// Set implements flag.Value. It is called once per occurrence of the flag.
func (f *Flag) Set(text string) error {
	f.texts = append(f.texts, text)
	return nil
}

// IsBoolFlag makes the flag package accept a switch without a value.
func (f *Flag) IsBoolFlag() bool { return f.Kind == config.Switch }

// takesValue reports whether the next argument belongs to the flag, if there is one.
func (f *Flag) takesValue() bool { return f != nil && !f.IsBoolFlag() }

// Options returns the options of a command's flags.
func Options(command *cli.Command) []config.Option {
	var all []config.Option
	for _, f := range command.Flags {
		if f, ok := f.(*Flag); ok {
			all = append(all, f.Option)
		}
	}
	return all
}

// Given returns what the command line has for the options, by their names.
func Given(c *cli.Context, options []config.Option) map[string][]string {
	given := map[string][]string{}
	for _, option := range options {
		if f := named(c.Command.Flags, option.Name); f != nil && f.IsSet() {
			given[option.Name] = f.texts
		}
	}
	return given
}

// named returns the flag of that name, nil if there is none.
func named(flags []cli.Flag, name string) *Flag {
	i := slices.IndexFunc(flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), name) })
	if i < 0 {
		return nil
	}
	f, _ := flags[i].(*Flag)
	return f
}

// Reader reads the values of flags that may be given once, from what Given returned.
// Err returns the first mistake, which wraps config.ErrUsage.
type Reader struct {
	given map[string][]string
	err   error
}

// Read returns a reader.
func Read(given map[string][]string) *Reader { return &Reader{given: given} }

// Err returns what was wrong with what has been read.
func (r *Reader) Err() error { return r.err }

func (r *Reader) wrong(format string, args ...any) {
	if r.err == nil {
		r.err = config.Usagef(format, args...)
	}
}

// text returns the value of a flag, "" if it was not given.
func (r *Reader) text(name string) string {
	switch texts := r.given[name]; {
	case len(texts) > 1:
		r.wrong("--%s is given %d times; keep one of them", name, len(texts))
	case len(texts) == 1 && texts[0] == "":
		r.wrong("--%s has an empty value; give it one, or leave the flag out", name)
	case len(texts) == 1:
		return texts[0]
	}
	return ""
}

// Switch reports whether a switch was given, and is not switched off.
func (r *Reader) Switch(name string) bool {
	text := r.text(name)
	on, err := strconv.ParseBool(text)
	if err != nil && text != "" {
		r.wrong("--%s %q: must be true or false; give --%s alone", name, text, name)
	}
	return on
}

// Number returns a number from least to most, or what it is if it was not given.
func (r *Reader) Number(name string, least, most, otherwise int) int {
	text := r.text(name)
	if text == "" {
		return otherwise
	}
	number, err := strconv.Atoi(text)
	if err != nil || number < least || number > most {
		r.wrong("--%s %q: must be a number from %d to %d", name, text, least, most)
	}
	return number
}

// Duration returns a duration above zero, or zero if none was given.
func (r *Reader) Duration(name string) time.Duration {
	text := r.text(name)
	if text == "" {
		return 0
	}
	d, err := config.ParseDuration(text)
	if err == nil && d <= 0 {
		err = errors.New("must be above zero; write one such as 30s")
	}
	if err != nil {
		r.wrong("--%s %q: %v", name, text, err)
	}
	return d
}

// URL returns a URL of one of the schemes, "" if none was given. It can have a
// password, so that no error repeats it.
func (r *Reader) URL(name string, schemes ...string) string {
	text := r.text(name)
	if text == "" {
		return ""
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || !slices.Contains(schemes, u.Scheme) {
		r.wrong("--%s: is not a URL that begins with %s://", name, strings.Join(schemes, ":// or "))
	}
	return text
}
