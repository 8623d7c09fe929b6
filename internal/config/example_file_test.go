package config

import (
	"errors"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const exampleFile = "../../config.example.hcl"

var setting = regexp.MustCompile(`(?m)^#([a-z_]+) = .*$`)

func readExample(t *testing.T) string {
	t.Helper()
	source, err := os.ReadFile(exampleFile)
	if err != nil {
		t.Fatal(err)
	}
	return string(source)
}

func TestExampleFileIsAcceptedAsItIs(t *testing.T) {
	l, err := decodeFile([]byte(readExample(t)), exampleFile, table)
	if err != nil || len(l) != 0 {
		t.Fatalf("got %v, %v; want no values and no error", l, err)
	}
}

func TestExampleFileShowsEveryKeyOnceWithItsDefault(t *testing.T) {
	var shown []string
	for _, match := range setting.FindAllStringSubmatch(readExample(t), -1) {
		shown = append(shown, match[1])
		l, err := decodeFile([]byte(strings.TrimPrefix(match[0], "#")), match[0], table)
		if err != nil {
			t.Errorf("%s: %v", match[0], err)
		}
		for _, value := range l {
			if err := value.option.set(&settings{}, value.texts); err != nil && !errors.Is(err,
				fs.ErrNotExist) { // a file that is an example, too
				t.Errorf("%s: %v", match[0], err)
			}
			if d := value.option.Default; d != "" && value.texts[0] != d {
				t.Errorf("%s: the default is %q", match[0], d)
			}
		}
	}
	var keys []string
	for _, option := range RunOptions() {
		if option.Key() != "" {
			keys = append(keys, option.Key())
		}
	}
	slices.Sort(keys)
	slices.Sort(shown)
	if !slices.Equal(shown, keys) {
		t.Errorf("the file shows\n%v, there are\n%v", shown, keys)
	}
}
