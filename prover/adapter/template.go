// Package adapter starts what is looked at: any program that runs a command under a lock.
//
//	template, err := adapter.Parse("berth run --mutex {lock} --broker {broker} -- {witness}", adapter.Lock, ...)
//	client, err := template.With(adapter.Values{adapter.Lock: "p17", ...}).Start(env, log)
//
// It knows processes, and no lock.
package adapter

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Placeholders of a command line.
const (
	Lock    = "{lock}"    // a name that was never used
	Broker  = "{broker}"  // the URL of a broker, or of a relay before it
	Slots   = "{slots}"   // how many may hold at once
	Witness = "{witness}" // the command that is to be run: one word
)

// Template is the words of a command line.
type Template []string

// Values is what placeholders stand for.
type Values map[string]string

var placeholder = regexp.MustCompile(`\{\w+\}`)

// Parse splits a command line into words, at blanks. There are no quotes and no variables: what needs a shell is a script
// of its own. A placeholder may be a part of a word, and what it stands for is never split. Those that are known are
// allowed, and others not.
func Parse(line string, known ...string) (Template, error) {
	for _, found := range placeholder.FindAllString(line, -1) {
		if !slices.Contains(known, found) {
			return nil, fmt.Errorf("unknown placeholder %s in %q; known here: %s", found, line, strings.Join(known, ", "))
		}
	}
	if strings.ContainsAny(line, `"'`) {
		return nil, fmt.Errorf("quotes in %q; words are split at blanks alone: make a script of it, and name that", line)
	}
	words := Template(strings.Fields(line))
	if len(words) == 0 {
		return nil, fmt.Errorf("an empty command line")
	}
	return words, nil
}

// Has reports whether a placeholder is used.
func (t Template) Has(name string) bool {
	return slices.ContainsFunc(t, func(word string) bool { return strings.Contains(word, name) })
}

// With returns the words with what placeholders stand for.
func (t Template) With(v Values) Template {
	words := make(Template, len(t))
	for i, word := range t {
		words[i] = placeholder.ReplaceAllStringFunc(word, func(name string) string { return v[name] })
	}
	return words
}
