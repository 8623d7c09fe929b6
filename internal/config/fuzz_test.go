package config

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"berth/lock"
)

// placed is an error that says where in the file the mistake is.
var placed = regexp.MustCompile(`^berth\.hcl:[1-9][0-9]*,[1-9][0-9]*: [^\n]+$`)

func FuzzMistakeInAFileIsToldInOneLineWithItsPlace(f *testing.F) {
	f.Add("mutex = \"a\"\nheartbeat = 5")
	f.Add("command = [\"${x}\", <<E\nE\n]")
	f.Add("a = {b = [for x in y : z]}")
	f.Add("mutex = 1 / 0\nslots = 1e1000000")
	f.Add("semaphore \"a\" {\n}")
	f.Fuzz(func(t *testing.T, text string) {
		_, err := decodeFile([]byte(text), "berth.hcl", table)
		if err != nil && (!errors.Is(err, ErrInvalid) || !placed.MatchString(err.Error())) {
			t.Errorf("%q: %v", text, err)
		}
	})
}

// A command line that berth tells a user to paste names the lock, whatever that is called.
func FuzzNameOfALockIsOneWordForAShell(f *testing.F) {
	f.Add("importer")
	f.Add("-v it's \"$(x)\" `y` \\")
	f.Fuzz(func(t *testing.T, name string) {
		id := lock.ID{Kind: lock.Mutex, Name: name}
		if id.Check() != nil {
			return
		}
		words, err := splitWords(id.CommandLine("berth x", "--wait"))
		if err != nil || !slices.Contains(words, name) || len(words) != 4 && len(words) != 5 {
			t.Errorf("%q becomes %q, %v", name, words, err)
		}
	})
}

func FuzzWordsAreSplitAsTheyWereQuoted(f *testing.F) {
	f.Add("/usr/bin/myhook\n--flag\n\nit's")
	f.Add("\"\\$`\n\\\n'")
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) {
			return
		}
		want := strings.Split(text, "\n")
		var quoted []string
		for _, word := range want {
			quoted = append(quoted, "'"+strings.ReplaceAll(word, "'", `'\''`)+"'")
		}
		if got, err := splitWords(strings.Join(quoted, " \t")); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q is split into %q, %v", want, got, err)
		}
		_, _ = splitWords(text)
	})
}
