package hearing

import (
	"errors"
	"testing"
)

func TestSocketIsMadeOnceAndTakenAway(t *testing.T) {
	made, ended := 0, 0
	s := Soon{Listen: func() (func(), error) {
		made++
		return func() { ended++ }, nil
	}}
	for round := 1; round <= 2; round++ {
		s.Begin()
		s.listen()
		s.listen()
		s.End()
		if made != round || ended != round {
			t.Errorf("in round %d it is made %d times and ended %d times", round, made, ended)
		}
	}
}

func TestSocketOfWhoEndsAtOnceIsNeverMade(t *testing.T) {
	s := Soon{Listen: func() (func(), error) {
		t.Error("it is made")
		return func() {}, nil
	}}
	s.Begin()
	s.End()
	s.listen() // the timer may have been too late to stop
}

func TestSocketThatCannotBeMadeIsTold(t *testing.T) {
	var told error
	s := Soon{Listen: func() (func(), error) { return nil, errors.New("no") }, Failed: func(err error) { told = err }}
	s.Begin()
	s.listen()
	s.End()
	if told == nil {
		t.Error("it is not told")
	}
}
