package boottime

import "time"

// Clock is where a process reads the time, and what wakes it. The zero value is the kernel's clock. A simulation of
// several processes gives each its own, which it can have stand still: what must not look at another clock gets one, and
// calls neither Now nor an Instant's methods.
type Clock struct{ of Source }

// Source is a clock that is not the kernel's.
type Source interface {
	// Now returns the present moment, which is none before the last one.
	Now() Instant
	// NewTimer returns a timer that is not set.
	NewTimer() *Timer
}

// From returns a clock that is not the kernel's.
func From(source Source) Clock { return Clock{source} }

// Now returns the present moment.
func (c Clock) Now() Instant {
	if c.of == nil {
		return Now()
	}
	return c.of.Now()
}

// Until returns the time from now to i, negative if i has passed.
func (c Clock) Until(i Instant) time.Duration { return time.Duration(i - c.Now()) }

// Passed reports whether i is a deadline and has come.
func (c Clock) Passed(i Instant) bool { return i != 0 && c.Now() >= i }

// NewTimer returns a timer that is not set.
func (c Clock) NewTimer() (*Timer, error) {
	if c.of == nil {
		return NewTimer()
	}
	return c.of.NewTimer(), nil
}
