package config

import (
	"errors"
	"strings"
)

// splitWords splits a command line where a shell would: at white space, but not within quotes. A backslash takes the
// next character as it is, in double quotes only in front of ", \, $ and `. Nothing is replaced and no shell runs.
func splitWords(line string) ([]string, error) {
	words := []string{}
	var word strings.Builder
	var quote rune // 0: outside
	begun, escaped := false, false
	for _, r := range line {
		switch {
		case escaped:
			if quote == '"' && !strings.ContainsRune("\"\\$`", r) {
				word.WriteRune('\\')
			}
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			begun, escaped = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			begun, quote = true, r
		case strings.ContainsRune(" \t\n\r", r):
			if begun {
				words = append(words, word.String())
				word.Reset()
				begun = false
			}
		default:
			begun = true
			word.WriteRune(r)
		}
	}
	switch {
	case quote != 0:
		return nil, errors.New("has a quote that is not closed; close it, or write a backslash in front of it")
	case escaped:
		return nil, errors.New("ends in a backslash; take it out, or double it")
	case begun:
		words = append(words, word.String())
	}
	return words, nil
}
