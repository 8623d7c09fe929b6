package config

import (
	"slices"
	"testing"
)

func TestCommandLineIsSplitLikeAShellDoes(t *testing.T) {
	for line, want := range map[string][]string{
		"":                           {},
		"  \t ":                      {},
		"/bin/hook":                  {"/bin/hook"},
		" hook  --flag\tx\n":         {"hook", "--flag", "x"},
		`hook 'a b' "c d" e\ f`:      {"hook", "a b", "c d", "e f"},
		`hook '' ""`:                 {"hook", "", ""},
		`a'b'"c"d`:                   {"abcd"},
		`'\n' "\n" "\"\\\$" \n`:      {`\n`, `\n`, `"\$`, "n"},
		`sh -c 'echo "$BERTH_NAME"'`: {"sh", "-c", `echo "$BERTH_NAME"`},
		"päth ü":                     {"päth", "ü"},
	} {
		if got, err := splitWords(line); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v", line, got, err)
		}
	}
	for _, line := range []string{`a "b`, `a 'b`, `a \`, `"a\"`} {
		if got, err := splitWords(line); err == nil {
			t.Errorf("%q: %q, and no error", line, got)
		}
	}
}
