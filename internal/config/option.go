package config

import (
	"slices"
	"strings"
)

// ValueKind is how a value is written.
type ValueKind int

// The kinds of values.
const (
	Text        ValueKind = iota // one string
	List                         // strings; the flag is repeatable
	Duration                     // a number with a unit, such as 1m30s
	Number                       // a whole number
	Switch                       // true or false; the flag alone means true
	CommandLine                  // a program and its arguments: words in one string, in the file also a list
)

// Option describes one setting: everything that help pages, the example file
// and the documentation say about it comes from here.
type Option struct {
	// Name is the flag without dashes, such as "verify-interval".
	Name string

	// Group is the heading under which help pages show it.
	Group string

	// Value is the placeholder for the value in help pages, empty for a
	// Switch.
	Value string

	// Kind is how a value is written.
	Kind ValueKind

	// Default is the default as a user would write it, empty if there is none.
	Default string

	// Usage says what the option does, in plain sentences.
	Usage string

	// FlagOnly: it has neither a variable nor a key, as what an administrator asks
	// for on the command line.
	FlagOnly bool

	fileOnly   bool   // neither flag nor variable
	flagOrEnv  bool   // no key in the file
	connection bool   // read by administration commands too
	exclusive  string // options of one such group replace and contradict each other

	set func(s *settings, texts []string) error
}

// Flag returns the flag with its dashes, empty if there is none.
func (o Option) Flag() string {
	if o.fileOnly {
		return ""
	}
	return "--" + o.Name
}

// Env returns the name of the environment variable, empty if there is none.
func (o Option) Env() string {
	if o.fileOnly || o.FlagOnly {
		return ""
	}
	return "BERTH_" + strings.ToUpper(strings.ReplaceAll(o.Name, "-", "_"))
}

// Key returns the key in the file, empty if there is none.
func (o Option) Key() string {
	if o.flagOrEnv || o.FlagOnly {
		return ""
	}
	return strings.ReplaceAll(o.Name, "-", "_")
}

// RunOptions returns every option of `berth run`, in the order of its help.
func RunOptions() []Option { return slices.Clone(table) }

// ConnectionOptions returns the options that administration commands share with
// `berth run`.
func ConnectionOptions() []Option {
	return slices.DeleteFunc(RunOptions(), func(o Option) bool { return !o.connection })
}

// LockOptions returns the options that name a lock.
func LockOptions() []Option {
	return slices.DeleteFunc(RunOptions(), func(o Option) bool { return o.exclusive != exclusiveLock })
}

// LockFlags lists the flags of LockOptions for messages.
func LockFlags() string {
	var all []string
	for _, o := range LockOptions() {
		all = append(all, o.Flag())
	}
	return alternatives(all)
}
