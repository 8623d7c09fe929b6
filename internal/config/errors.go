package config

import (
	"errors"
	"fmt"
)

var (
	// ErrUsage: the command line is wrong (exit status 64).
	ErrUsage = errors.New("wrong usage")

	// ErrInvalid: the file or an environment variable is wrong (exit status
	// 78).
	ErrInvalid = errors.New("invalid configuration")
)

// fault is one line for the user and what sort of mistake it is. The sort is
// for errors.Is and not part of the text.
type fault struct {
	sort  error
	text  string
	cause error // nil if there is none that a caller may look for
}

func (f *fault) Error() string { return f.text }

func (f *fault) Unwrap() []error {
	if f.cause == nil {
		return []error{f.sort}
	}
	return []error{f.sort, f.cause}
}

// Usagef returns a mistake on the command line, one line for the user: what is
// wrong, and what to write instead. It wraps ErrUsage.
func Usagef(format string, args ...any) error {
	return &fault{sort: ErrUsage, text: fmt.Sprintf(format, args...)}
}

// Invalidf returns a mistake in the file, in a variable or in what they refer to,
// as Usagef does. It wraps ErrInvalid.
func Invalidf(format string, args ...any) error {
	return &fault{sort: ErrInvalid, text: fmt.Sprintf(format, args...)}
}
