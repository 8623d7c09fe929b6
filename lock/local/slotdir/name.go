package slotdir

import (
	"crypto/sha256"
	"fmt"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// maxFileName is the length of a file name in bytes (NAME_MAX, limits.h).
	maxFileName = 255

	// readable is how much of a name that is too long stays readable before
	// its hash: enough to recognise it.
	readable = 120
)

// Name returns the name of the directory that belongs to a lock: the lock's
// name, with what a file name cannot have written as %XX. No two names share
// one. A name that would become too long ends in its hash instead, after
// "%sha256-", which no escape looks like.
func Name(name string) string {
	var all strings.Builder
	cut := 0 // where the readable part ends, between two characters
	for i := 0; i < len(name); {
		r, size := utf8.DecodeRuneInString(name[i:])
		if plain(r, size, i) {
			all.WriteString(name[i : i+size])
		} else {
			for _, c := range []byte(name[i : i+size]) {
				fmt.Fprintf(&all, "%%%02X", c)
			}
		}
		i += size
		if all.Len() <= readable {
			cut = all.Len()
		}
	}
	if all.Len() <= maxFileName {
		return all.String()
	}
	return fmt.Sprintf("%s%%sha256-%x", all.String()[:cut], sha256.Sum256([]byte(name)))
}

// LockName returns the lock's name for that of its directory. There is none for a directory that is not
// berth's, nor for one that has only the hash of a name.
func LockName(dir string) (name string, ok bool) {
	name, err := url.PathUnescape(dir) // %XX, too
	return name, err == nil && Name(name) == dir
}

// plain reports whether a character stands for itself. A dot in front does not:
// it would hide the directory, or be "." or "..".
func plain(r rune, size, at int) bool {
	switch {
	case r == utf8.RuneError && size == 1, r == '/', r == '%', !unicode.IsPrint(r):
		return false
	}
	return r != '.' || at > 0
}
