package guard

import (
	"errors"
	"os"
	"testing"
	"time"

	"berth/internal/guard/wire"
)

func TestSilenceOfAGuardIsBoundedWhereItHasToSaySomething(t *testing.T) {
	for name, c := range map[string]struct {
		before func(*silence)
		ends   bool
	}{
		"told nothing":                         {func(*silence) {}, false},
		"told to start":                        {func(s *silence) { s.ordered(false) }, true},
		"told to start, and says that it does": {func(s *silence) { s.ordered(false); s.broken() }, false},
		"told to kill":                         {func(s *silence) { s.broken(); s.ordered(true) }, true},
		"told to kill, and says that it does":  {func(s *silence) { s.ordered(true); s.broken() }, true},
		"told to kill, and its tree is dead":   {func(s *silence) { s.last(time.Hour); s.ordered(true) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ours, fd, err := wire.Pair()
			if err != nil {
				t.Fatal(err)
			}
			defer ours.Close()
			theirs, err := wire.Open(fd)
			if err != nil {
				t.Fatal(err)
			}
			defer theirs.Close()
			c.before(&silence{conn: ours})
			if !c.ends {
				time.AfterFunc(patience+patience/4, theirs.Close)
			}
			var e wire.Event
			if _, err := ours.Receive(&e); errors.Is(err, os.ErrDeadlineExceeded) != c.ends {
				t.Errorf("its silence ends with %v", err)
			}
		})
	}
}
