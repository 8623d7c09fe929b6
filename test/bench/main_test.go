package main

import (
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestFlagsThatAreRefused(t *testing.T) {
	for _, args := range [][]string{
		{"-n", "0"},
		{"-only", "start,nothing"},
		{"-only", "start", "-markdown", "page.md"},
		{"more"},
	} {
		if o, err := parse(args, t.Output()); err == nil {
			t.Errorf("%q is taken as %+v", args, o)
		}
	}
}

func TestPageDoesNotTellWhereFilesWere(t *testing.T) {
	got := given([]string{"-berth", "/somewhere/berth", "-n", "3", "-svg=/somewhere/x.svg", "--json", "x", "-kills=2"})
	if want := "-n 3 -kills=2"; strings.Join(got, " ") != want {
		t.Errorf("the flags are %q, not %q", strings.Join(got, " "), want)
	}
}
