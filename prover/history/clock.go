package history

import "golang.org/x/sys/unix"

// Now returns the present moment on CLOCK_BOOTTIME, in nanoseconds since the host was booted. All processes of the host
// share it, and no user can set it.
func Now() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic(err) // every Linux that Go supports has the clock
	}
	return t.Nano()
}
