package cli

import (
	"os"
	"reflect"
	"strings"
	"testing"
)

func TestPageHasEveryKeyOfARequest(t *testing.T) {
	page, err := os.ReadFile("../../docs/status.md")
	if err != nil {
		t.Fatal(err)
	}
	for i := range reflect.TypeFor[result]().NumField() {
		key, _, _ := strings.Cut(reflect.TypeFor[result]().Field(i).Tag.Get("json"), ",")
		if key == "" || !strings.Contains(string(page), "`"+key+"`") {
			t.Errorf("docs/status.md does not have the key %q of step-down and reload", key)
		}
	}
}
