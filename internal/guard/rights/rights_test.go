package rights

import (
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// decide does what the kernel does with a filter, for the few instructions that it may have.
func decide(t *testing.T, program []unix.SockFilter, arch, number, request uint32) uint32 {
	t.Helper()
	data := map[uint32]uint32{offsetArch: arch, offsetNumber: number, offsetRequest: request}
	var accumulator uint32
	for at := 0; at < len(program); at++ {
		switch in := program[at]; in.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			accumulator = data[in.K]
		case unix.BPF_ALU | unix.BPF_AND | unix.BPF_K:
			accumulator &= in.K
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			if accumulator == in.K {
				at += int(in.Jt)
			} else {
				at += int(in.Jf)
			}
		case unix.BPF_RET | unix.BPF_K:
			return in.K
		default:
			t.Fatalf("instruction %d is %+v", at, in)
		}
	}
	t.Fatal("the filter runs out of its end")
	return 0
}

func TestTypingIsRefusedOnEveryWayIntoTheKernel(t *testing.T) {
	if abis() == nil {
		t.Fatal(errMachine)
	}
	program := filter([]abi{{unix.AUDIT_ARCH_X86_64, []uint32{16, 514}}, {unix.AUDIT_ARCH_I386, []uint32{54}}})
	const refused = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	for name, call := range map[string]struct{ arch, number, request, want uint32 }{
		"64 bits":                        {unix.AUDIT_ARCH_X86_64, 16, unix.TIOCSTI, refused},
		"64 bits, pasting":               {unix.AUDIT_ARCH_X86_64, 16, unix.TIOCLINUX, refused},
		"x32":                            {unix.AUDIT_ARCH_X86_64, x32 | 514, unix.TIOCSTI, refused},
		"x32, pasting":                   {unix.AUDIT_ARCH_X86_64, x32 | 514, unix.TIOCLINUX, refused},
		"x32 with the number of 64":      {unix.AUDIT_ARCH_X86_64, x32 | 16, unix.TIOCSTI, refused},
		"64 bits with the number of x32": {unix.AUDIT_ARCH_X86_64, 514, unix.TIOCSTI, refused},
		"32 bits":                        {unix.AUDIT_ARCH_I386, 54, unix.TIOCSTI, refused},
		"32 bits, pasting":               {unix.AUDIT_ARCH_I386, 54, unix.TIOCLINUX, refused},
		"an unknown way":                 {unix.AUDIT_ARCH_AARCH64, 1, 0, refused},
		"another request":                {unix.AUDIT_ARCH_X86_64, 16, unix.TIOCGWINSZ, unix.SECCOMP_RET_ALLOW},
		"another request, 32 bits":       {unix.AUDIT_ARCH_I386, 54, unix.TIOCGWINSZ, unix.SECCOMP_RET_ALLOW},
		"another call":                   {unix.AUDIT_ARCH_X86_64, 54, unix.TIOCSTI, unix.SECCOMP_RET_ALLOW},
		"another call, 32 bits":          {unix.AUDIT_ARCH_I386, 16, unix.TIOCSTI, unix.SECCOMP_RET_ALLOW},
	} {
		if got := decide(t, program, call.arch, call.number, call.request); got != call.want {
			t.Errorf("%s: %#x, want %#x", name, got, call.want)
		}
	}
}

// Its unit may have given berth no_new_privs, and a container: the filter then takes no capability.
func TestFilterTakesNoPrivilegeWhereThereAreNoNewOnes(t *testing.T) {
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with what it cannot get rid of
		result <- errors.Join(unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), CanKeepFromTyping(false))
	}()
	if err := <-result; err != nil {
		t.Error(err)
	}
}

func TestLimitsAreReadAsUsersWriteThem(t *testing.T) {
	for text, want := range map[string]string{
		"NOFILE=1024:65536": "NOFILE=1024:65536",
		"NOFILE=1024":       "NOFILE=1024:1024",
		"core=0:unlimited":  "CORE=0:unlimited",
		"RLIMIT_AS=4096":    "AS=4096:4096",
		"STACK=unlimited":   "STACK=unlimited:unlimited",
	} {
		if got, err := ParseLimit(text); err != nil || got.String() != want {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"NOFILE":                         "write NAME=LIMIT",
		"FILES=1":                        "names no limit; choose CPU, FSIZE",
		"=1":                             "names no limit",
		"NOFILE=":                        "whole numbers",
		"NOFILE=1k":                      "whole numbers",
		"NOFILE=-1":                      "whole numbers",
		"NOFILE=1:2:3":                   "whole numbers",
		"NOFILE=2:1":                     "above its hard one",
		"NOFILE=unlimited:1":             "above its hard one",
		"NOFILE=18446744073709551615":    "whole numbers",
		"NOFILE=99999999999999999999:20": "whole numbers",
	} {
		if _, err := ParseLimit(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestEveryResourceHasAName(t *testing.T) {
	if slices.Contains(resources[:], "") {
		t.Errorf("%q", resources)
	}
}
