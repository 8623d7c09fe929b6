package rights

import (
	"errors"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Two requests of ioctl(2) put input into the caller's own terminal: TIOCSTI(2const) as if
// somebody had typed it, TIOCLINUX(2const) by pasting what is selected on a console. With
// a terminal in common, a command of another user could so type into the shell that berth
// was started from. A session of its own would keep it from that, but from job control and
// from /dev/tty as well. So a filter refuses both requests, in it and in all that it
// starts.

// abi is one way to call the kernel of a machine.
type abi struct {
	arch   uint32   // of linux/audit.h
	ioctls []uint32 // its numbers of ioctl(2)
}

// x32 is set in the numbers of system calls of another kind of 64-bit programs. Older
// kernels took the numbers of either kind with and without it.
const x32 = 0x40000000

// abis returns those of this machine, 32-bit programs included.
func abis() []abi {
	switch runtime.GOARCH {
	case "amd64":
		return []abi{{unix.AUDIT_ARCH_X86_64, []uint32{16, 514}}, {unix.AUDIT_ARCH_I386, []uint32{54}}}
	case "arm64":
		return []abi{{unix.AUDIT_ARCH_AARCH64, []uint32{29}}, {unix.AUDIT_ARCH_ARM, []uint32{54}}}
	}
	return nil
}

// Offsets in struct seccomp_data (seccomp(2)). Of an argument this is the lower half, which
// is all of a request that the kernel looks at.
const (
	offsetNumber  = 0
	offsetArch    = 4
	offsetRequest = 24
)

// filter returns the program that refuses both requests, on any of the ways, and every
// call on another way.
func filter(ways []abi) []unix.SockFilter {
	const (
		load   = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal  = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		and    = unix.BPF_ALU | unix.BPF_AND | unix.BPF_K
		result = unix.BPF_RET | unix.BPF_K
	)
	allow := unix.SockFilter{Code: result, K: unix.SECCOMP_RET_ALLOW}
	refuse := unix.SockFilter{Code: result, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)}
	program := []unix.SockFilter{{Code: load, K: offsetArch}}
	for _, way := range ways {
		body := []unix.SockFilter{{Code: load, K: offsetNumber}, {Code: and, K: ^uint32(x32)}}
		for i, number := range way.ioctls {
			left := uint8(len(way.ioctls) - 1 - i) // comparisons to pass, and then what allows
			body = append(body, unix.SockFilter{Code: equal, K: number, Jt: left + 1})
		}
		body = append(body, allow,
			unix.SockFilter{Code: load, K: offsetRequest},
			unix.SockFilter{Code: equal, K: unix.TIOCSTI, Jt: 2},
			unix.SockFilter{Code: equal, K: unix.TIOCLINUX, Jt: 1},
			allow, refuse)
		program = append(program, unix.SockFilter{Code: equal, K: way.arch, Jf: uint8(len(body))})
		program = append(program, body...)
	}
	return append(program, refuse)
}

// errMachine: nobody has written down how programs call this kernel.
var errMachine = errors.New("berth knows no filter for " + runtime.GOARCH)

// CanKeepFromTyping returns why Restrict cannot do what NoTyping asks for, nil if it can.
// privileged: this process has CAP_SYS_ADMIN, or NoNewPrivileges is asked for too.
func CanKeepFromTyping(privileged bool) error {
	if abis() == nil {
		return errMachine
	}
	if !privileged && !NoNewPrivileges() {
		return unix.EACCES
	}
	action := uint32(unix.SECCOMP_RET_ERRNO)
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action)))
	if errno != 0 {
		return errno
	}
	return nil
}

// keepFromTyping installs the filter. It is no reason to slow the command down, as kernels
// before 5.16 do with filtered programs unless told otherwise (spec_store_bypass).
func keepFromTyping() error {
	program := filter(abis())
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_SPEC_ALLOW,
		uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return errno
	}
	return nil
}
