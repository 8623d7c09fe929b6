package slotdir

import (
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"berth/lock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestDirectoryOfALockIsReadable(t *testing.T) {
	for name, want := range map[string]string{
		"nightly": "nightly", "a b": "a b", "a.b": "a.b", "Ünï": "Ünï",
		".": "%2E", "..": "%2E.", ".a": "%2Ea", "a/b": "a%2Fb", "a%2Fb": "a%252Fb", "../../etc": "%2E.%2F..%2Fetc",
		"a\nb": "a%0Ab", "a\xff": "a%FF", "\ufffd": "\ufffd",
	} {
		if got := Name(name); got != want {
			t.Errorf("%q becomes %q, want %q", name, got, want)
		}
	}
}

func TestDirectoriesOfLongNamesFitAndDiffer(t *testing.T) {
	seen := map[string]string{}
	for _, char := range []string{"x", "/", "%", "é", "鎖", ".", "\n"} {
		for n := 1; n*len(char) <= 2*lock.MaxName; n++ {
			name := strings.Repeat(char, n)
			dir := Name(name)
			if dir == "" || len(dir) > maxFileName || filepath.Base(dir) != dir || dir[0] == '.' {
				t.Fatalf("%q becomes %q, which is no name of a directory", name, dir)
			}
			if other, ok := seen[dir]; ok {
				t.Fatalf("%q and %q share the directory %q", name, other, dir)
			}
			seen[dir] = name
		}
	}
	long := Name("nightly" + strings.Repeat("/", 200))
	if !strings.HasPrefix(long, "nightly%2F") || !strings.Contains(long, "%sha256-") {
		t.Errorf("a long name becomes %q", long)
	}
}
