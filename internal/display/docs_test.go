package display

import (
	"errors"
	"flag"
	"io"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"berth/lock"
)

//go:generate go test -run TestPageShowsTheScreen -args -update

var update = flag.Bool("update", false, "draw the screen into docs/status.md")

const documentation = "../../docs/status.md"

func TestPageShowsTheScreen(t *testing.T) {
	page, err := os.ReadFile(documentation)
	if err != nil {
		t.Fatal(err)
	}
	v := many(100)
	v.changed = map[int]time.Time{}
	picture := "\n"
	for _, line := range v.Screen(80, 24) {
		picture += strings.TrimRight("    "+line, " ") + "\n"
	}
	marked := regexp.MustCompile(`(?s)(<!-- picture: [^\n]* -->\n)(.*)(\n<!-- end of picture -->\n)`)
	found := marked.FindSubmatch(page)
	switch {
	case found == nil:
		t.Fatalf("%s has no place for the picture", documentation)
	case string(found[2]) == picture:
		return
	case !*update:
		t.Fatalf("the picture in %s is out of date; run: go generate ./internal/display", documentation)
	}
	text := strings.Replace(string(page), string(found[0]), string(found[1])+picture+string(found[3]), 1)
	if err := os.WriteFile(documentation, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestPageHasEveryKeyAroundTheSlots(t *testing.T) {
	page, err := os.ReadFile(documentation)
	if err != nil {
		t.Fatal(err)
	}
	v := view(held(1, nil))
	v.Seen.Err = errors.New("cannot reach the broker")
	for _, write := range []func(io.Writer) error{v.WriteJSON, func(w io.Writer) error {
		return WriteJSONList(w, []lock.ID{workers})
	}} {
		var b strings.Builder
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		for _, key := range regexp.MustCompile(`"(\w+)":`).FindAllStringSubmatch(b.String(), -1) {
			if !strings.Contains(string(page), "`"+key[1]+"`") {
				t.Errorf("the page does not have the key %q of %s", key[1], b.String())
			}
		}
	}
}

func TestPageHasEveryKeyOfTheStatus(t *testing.T) {
	page, err := os.ReadFile(documentation)
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range []any{lock.Status{}, lock.SlotStatus{}, lock.Report{}, lock.Decision{}} {
		for i := range reflect.TypeOf(of).NumField() {
			key, _, _ := strings.Cut(reflect.TypeOf(of).Field(i).Tag.Get("json"), ",")
			if key == "" || !strings.Contains(string(page), "`"+key+"`") {
				t.Errorf("the page does not have the key %q of %T", key, of)
			}
		}
	}
}
