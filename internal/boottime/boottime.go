// Package boottime tells time on CLOCK_BOOTTIME, which no user can set and
// which goes on while the host is suspended (clock_gettime(2)). Deadlines
// between processes are counted on it; Go's own timers are not, because they
// stand still during a suspend.
package boottime

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Instant is a moment in nanoseconds since the host was booted. The zero value
// means "none": no deadline.
type Instant int64

// Now returns the present moment of the kernel's clock.
func Now() Instant {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		// Cannot fail on any kernel that Go supports (Linux 2.6.39 has the clock).
		panic(fmt.Sprintf("cannot read CLOCK_BOOTTIME: %v", err))
	}
	return Instant(ts.Nano())
}

// Add returns the moment d later.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d) }

// Until returns the time from now to i, negative if i has passed.
func (i Instant) Until() time.Duration { return time.Duration(i - Now()) }

// Passed reports whether i is a deadline and has come.
func (i Instant) Passed() bool { return i != 0 && Now() >= i }

// Timer tells once that an Instant has come, at once after a suspend in which
// it came. One goroutine owns it, from NewTimer to Close.
type Timer struct {
	// C receives when the set moment has come.
	C <-chan struct{}

	set   func(Instant) error
	close func()
}

// TimerOf returns the timer of a clock that is not the kernel's: c receives when the moment has come that was set last,
// 0 being none.
func TimerOf(c <-chan struct{}, set func(Instant), end func()) *Timer {
	return &Timer{C: c, set: func(i Instant) error { set(i); return nil }, close: end}
}

// kernelTimer is a timerfd, and the goroutine that reads it.
type kernelTimer struct {
	file *os.File
	done chan struct{}
}

// NewTimer returns a timer of the kernel's clock that is not set.
func NewTimer() (*Timer, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("cannot make a timer on CLOCK_BOOTTIME: %w", err)
	}
	c := make(chan struct{}, 1)
	t := kernelTimer{file: os.NewFile(uintptr(fd), "timerfd"), done: make(chan struct{})}
	go t.run(c)
	return &Timer{C: c, set: t.set, close: t.end}, nil
}

// run passes expirations on until the timer is closed.
func (t kernelTimer) run(c chan<- struct{}) {
	defer close(t.done)
	var count [8]byte
	for {
		_, err := t.file.Read(count[:])
		if errors.Is(err, unix.EAGAIN) {
			continue
		}
		if err != nil {
			return
		}
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// Set makes the timer tell of i, and of nothing else from now on; 0 unsets it.
// A moment that has passed already is told at once. A receive from C that was
// due before Set may still happen: compare with Passed.
func (t *Timer) Set(i Instant) error { return t.set(i) }

func (t kernelTimer) set(i Instant) error {
	var spec unix.ItimerSpec
	if i != 0 {
		spec.Value = unix.NsecToTimespec(max(int64(i), 1)) // before the boot is in the past, too
	}
	conn, err := t.file.SyscallConn()
	if err != nil {
		return fmt.Errorf("cannot set a timer: %w", err)
	}
	var setErr error
	err = conn.Control(func(fd uintptr) {
		setErr = unix.TimerfdSettime(int(fd), unix.TFD_TIMER_ABSTIME, &spec, nil)
	})
	if err = errors.Join(err, setErr); err != nil {
		return fmt.Errorf("cannot set a timer: %w", err)
	}
	return nil
}

// Close ends the timer and its goroutine.
func (t *Timer) Close() { t.close() }

func (t kernelTimer) end() {
	t.file.Close()
	<-t.done
}
