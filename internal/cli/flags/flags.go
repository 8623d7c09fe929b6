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
	"flag"
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

// Given returns what the command line has for the options.
func Given(c *cli.Context, options []config.Option) Values {
	given := Values{}
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

// Values are the texts that were given for flags, by their names. Its methods read
// flags that may be given once; their errors wrap config.ErrUsage.
type Values map[string][]string

// Text returns the value of a flag, "" if it was not given.
func (v Values) Text(name string) (string, error) {
	switch texts := v[name]; {
	case len(texts) > 1:
		return "", config.Usagef("--%s is given %d times; keep one of them", name, len(texts))
	case len(texts) == 1 && texts[0] == "":
		return "", config.Usagef("--%s has an empty value; give it one, or leave the flag out", name)
	case len(texts) == 1:
		return texts[0], nil
	}
	return "", nil
}

// Switch reports whether a switch was given, and is not switched off.
func (v Values) Switch(name string) (bool, error) {
	text, err := v.Text(name)
	if err != nil || text == "" {
		return false, err
	}
	on, err := strconv.ParseBool(text)
	if err != nil {
		return false, config.Usagef("--%s %q: must be true or false; give --%s alone", name, text, name)
	}
	return on, nil
}

// Number returns a number from least to most, or what it is if it was not given.
func (v Values) Number(name string, least, most, otherwise int) (int, error) {
	text, err := v.Text(name)
	if err != nil || text == "" {
		return otherwise, err
	}
	number, err := strconv.Atoi(text)
	if err != nil || number < least || number > most {
		return 0, config.Usagef("--%s %q: must be a number from %d to %d", name, text, least, most)
	}
	return number, nil
}

// Duration returns a duration above zero, or zero if none was given.
func (v Values) Duration(name string) (time.Duration, error) {
	text, err := v.Text(name)
	if err != nil || text == "" {
		return 0, err
	}
	d, err := config.ParseDuration(text)
	if err != nil {
		return 0, config.Usagef("--%s %q: %v", name, text, err)
	}
	if d <= 0 {
		return 0, config.Usagef("--%s %q: must be above zero; write one such as 30s", name, text)
	}
	return d, nil
}
