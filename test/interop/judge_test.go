package interop

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestJudgeNamesWhatMustNotBe(t *testing.T) {
	for want, all := range map[string][]life{
		"":                {{"a", 1, 5, 0, 1}, {"b", 2, 4, 0.5, 3}, {"c", 1, 6, 1.1, 2}},
		"two in one slot": {{"a", 1, 5, 0, 1}, {"b", 1, 6, 1, 2}},
		"3 at once":       {{"a", 1, 1, 0, 3}, {"b", 2, 1, 1, 3}, {"c", 3, 1, 2, 3}},
		"term 4 after 5":  {{"a", 1, 5, 0, 1}, {"b", 1, 4, 2, 3}},
	} {
		problems := judge(all, 2)
		if len(problems) > 1 || strings.Join(problems, "") != "" != (want != "") ||
			!strings.Contains(strings.Join(problems, ""), want) {
			t.Errorf("want %q: %q", want, problems)
		}
	}
}

// The last line of one that was killed may be cut.
func TestLivesAreReadAsTheyWereWritten(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"berth-1":  "2 70\n5.5\n6.5\n7.",
		"berth-2":  "1 71\n",
		"python-1": "1 60\n2.5\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	all, err := lives(dir)
	want := []life{{"python-1", 1, 60, 2.5, 2.5}, {"berth-1", 2, 70, 5.5, 6.5}}
	if err != nil || len(all) != 2 || all[0] != want[0] || all[1] != want[1] {
		t.Errorf("%v, %v", all, err)
	}
}
