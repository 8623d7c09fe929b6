package main

import "testing"

func TestWhoOvertakesMoreThanCameAtOnceIsOutOfTurn(t *testing.T) {
	l := newLine(2)
	for _, nr := range []int{1, 0, 2, 9, 3, 5, 4, 6} {
		l.served(nr)
	}
	if l.outOfTurn != 1 || l.next != 7 {
		t.Errorf("%d out of turn, next is %d; want 1 and 7", l.outOfTurn, l.next)
	}
}
