package cli

import (
	"regexp"
	"strings"
	"sync"
)

var plainWord = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`) })

// shellQuote quotes a name for a command line that a user may paste.
func shellQuote(name string) string {
	if plainWord().MatchString(name) {
		return name
	}
	return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
}
