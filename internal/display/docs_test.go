package display

import (
	"errors"
	"io"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"berth/lock"
)

const documentation = "../../docs/status.md"

func TestPageHasEveryKeyAroundTheSlots(t *testing.T) {
	text, err := os.ReadFile(documentation)
	if err != nil {
		t.Fatal(err)
	}
	v := view(held(1, nil))
	v.Seen.Err = errors.New("cannot reach the broker")
	for _, write := range []func(io.Writer) error{v.WriteJSON, func(w io.Writer) error {
		return WriteJSONList(w, []View{{ID: workers}})
	}} {
		var b strings.Builder
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		for _, key := range regexp.MustCompile(`"(\w+)":`).FindAllStringSubmatch(b.String(), -1) {
			if !strings.Contains(string(text), "`"+key[1]+"`") {
				t.Errorf("the page does not have the key %q of %s", key[1], b.String())
			}
		}
	}
}

// The fields of a report are on the page about --listen, which has them all.
func TestPageHasEveryKeyOfTheStatus(t *testing.T) {
	text, err := os.ReadFile(documentation)
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range []any{lock.Status{}, lock.SlotStatus{}, lock.Decision{}} {
		for i := range reflect.TypeOf(of).NumField() {
			key, _, _ := strings.Cut(reflect.TypeOf(of).Field(i).Tag.Get("json"), ",")
			if key == "" || !strings.Contains(string(text), "`"+key+"`") {
				t.Errorf("the page does not have the key %q of %T", key, of)
			}
		}
	}
}
