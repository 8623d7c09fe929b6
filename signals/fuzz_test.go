package signals

import (
	"reflect"
	"strings"
	"testing"
)

func FuzzSequenceIsReadAsItIsWritten(f *testing.F) {
	f.Add("TERM 8s, KILL")
	f.Add(" sigint 1ns,RTMIN+3 2562047h47m16.854775807s,64 1.5h , 9")
	f.Add("KILL")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseSequence(text)
		if err != nil {
			return
		}
		again, err := ParseSequence(s.String())
		if err != nil || !reflect.DeepEqual(again, s) {
			t.Errorf("%q is %v, which is read as %v, %v", text, s, again, err)
		}
		if s.Duration() < 0 || s[len(s)-1].Wait != 0 {
			t.Errorf("%q takes %v, and %v after KILL", text, s.Duration(), s[len(s)-1].Wait)
		}
	})
}

func FuzzRewritesAreOfSignalsThatExist(f *testing.F) {
	f.Add("HUP=USR1 USR1=")
	f.Add("RTMAX-14=rtmin+15 1=64")
	f.Fuzz(func(t *testing.T, text string) {
		rewrites, err := ParseRewrites(strings.Fields(text))
		if err != nil {
			return
		}
		for from, to := range rewrites {
			if !exists(from) || to != 0 && !exists(to) {
				t.Errorf("%q rewrites %d to %d", text, from, to)
			}
			if same, err := Parse(Name(from)); same != from || err != nil {
				t.Errorf("%d is called %s, which is %d, %v", from, Name(from), same, err)
			}
		}
	})
}
