// Package rights is what a command may do beside what its user may ([Rights]), and what it is limited to ([Limit]):
// capabilities, setuid programs, the terminal that it shares, its umask and its limits on resources.
//
//	r := rights.Rights{Confined: true, NoNewPrivileges: true}
//	err := r.Restrict()       // this thread, and what it forks
//	err = r.RestrictForExec() // what was forked, if r.Staged(), before it executes the command
//
// It knows the kernel's rules for one thread or process. Package [berth/internal/config] has who is to have which
// rights, and package [berth/internal/guard/process] when they are taken.
package rights

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Rights are what a process passes on when it starts the command. The zero value is all
// that it has itself.
type Rights struct {
	// Confined takes every capability from the command, and the keys of the session. For a
	// command of root's it is pointless: root gets its capabilities by executing a program
	// (capabilities(7)).
	Confined bool

	// NoNewPrivileges keeps setuid programs, and those with capabilities in their file,
	// from giving the command any (PR_SET_NO_NEW_PRIVS(2const)).
	NoNewPrivileges bool

	// NoTyping keeps the command from putting input into its terminal, which a shell of
	// somebody else would read as soon as the command has ended; see CanKeepFromTyping.
	NoTyping bool

	// Umask is the command's file mode creation mask. Nil: that of the process.
	Umask *uint32

	// Limits are those that the command is not to inherit.
	Limits []Limit
}

// The words of String.
const (
	confined        = "confined"
	noNewPrivileges = "no-new-privileges"
	noTyping        = "no-typing"
	umaskPrefix     = "umask="
)

// String returns the rights in one word, empty for the zero value.
func (r Rights) String() string {
	var words []string
	for _, word := range []struct {
		text string
		has  bool
	}{{confined, r.Confined}, {noNewPrivileges, r.NoNewPrivileges}, {noTyping, r.NoTyping}} {
		if word.has {
			words = append(words, word.text)
		}
	}
	if r.Umask != nil {
		words = append(words, umaskPrefix+FormatUmask(*r.Umask))
	}
	for _, limit := range r.Limits {
		words = append(words, limit.String())
	}
	return strings.Join(words, ",")
}

// Parse reads what String has written.
func Parse(text string) (r Rights, err error) {
	for word := range strings.SplitSeq(text, ",") {
		mask, isMask := strings.CutPrefix(word, umaskPrefix)
		switch {
		case word == "":
		case word == confined:
			r.Confined = true
		case word == noNewPrivileges:
			r.NoNewPrivileges = true
		case word == noTyping:
			r.NoTyping = true
		case isMask:
			umask, wrong := ParseUmask(mask)
			r.Umask, err = &umask, wrong
		default:
			limit, wrong := ParseLimit(word)
			r.Limits, err = append(r.Limits, limit), wrong
		}
		if err != nil {
			return r, fmt.Errorf("%q %w", word, err)
		}
	}
	return r, nil
}

// FormatUmask writes a mask as users do, such as 0027.
func FormatUmask(umask uint32) string { return fmt.Sprintf("%04o", umask) }

// ParseUmask reads a mask in octal. Its error is the end of a sentence.
func ParseUmask(text string) (uint32, error) {
	umask, err := strconv.ParseUint(text, 8, 32)
	if err != nil || umask > 0o777 {
		return 0, errors.New("is not a file mode creation mask; write it in octal, 0000 to 0777, such as 0027")
	}
	return uint32(umask), nil
}

// Restrict takes from the calling thread, and from what it forks, what is not to be passed
// on; its goroutine has to be locked to it for good. The thread can still become another
// user: what it has for that is lost when this user's program is executed (see RestrictForExec).
func (r Rights) Restrict() error {
	if r.Confined {
		if err := errors.Join(dropPassedOn(), leaveKeyring()); err != nil {
			return err
		}
	}
	if r.NoNewPrivileges {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return err
		}
	}
	if r.NoTyping {
		return keepFromTyping()
	}
	return nil
}

// NoNewPrivileges reports whether this thread has none, and so cannot give a command any.
func NoNewPrivileges() bool {
	has, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	return err == nil && has != 0
}

// dropPassedOn leaves nothing that a program executed by somebody other than root gets from
// the process that executes it: neither ambient nor inheritable capabilities
// ("Transformation of capabilities during execve()" in capabilities(7)). The bounding set
// stays: without it, a program whose file has capabilities would not be executed at all,
// and NoNewPrivileges has it executed without them.
func dropPassedOn() error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	sets, err := capabilities()
	if err != nil {
		return err
	}
	sets[0].Inheritable, sets[1].Inheritable = 0, 0
	return setCapabilities(sets)
}

// leaveKeyring joins a new session keyring, which is empty: a process can read the keys in
// its own, whose user's they may be (keyrings(7), "Possession"). There is nothing to leave
// where keys are unknown, or a container's filter keeps them from all processes.
func leaveKeyring() error {
	_, err := unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0)
	if err == unix.ENOSYS || err == unix.EPERM {
		return nil
	}
	return err
}

// Staged reports whether RestrictForExec has something to do in a process that this one forks and
// has become another user.
func (r Rights) Staged() bool { return len(r.Limits) > 0 || r.Confined && outlast() }

// outlast reports whether the capabilities of this process outlast its becoming another
// user ("Effect of user ID changes on capabilities" in capabilities(7)).
func outlast() bool {
	const noSetuidFixup = 1 << 2 // of linux/securebits.h
	bits, err := unix.PrctlRetInt(unix.PR_GET_SECUREBITS, 0, 0, 0, 0)
	if os.Geteuid() == 0 && err == nil && bits&noSetuidFixup == 0 {
		return false
	}
	sets, err := capabilities()
	return err != nil || sets[0].Permitted|sets[1].Permitted != 0
}

// RestrictForExec takes from the calling thread, which is about to execute the command, what would
// be left of its capabilities: a program whose file has some of these would keep them, even
// with NoNewPrivileges. Then it gives this process the limits, which may be narrow.
func (r Rights) RestrictForExec() error {
	if r.Confined {
		if err := setCapabilities(&capabilitySets{}); err != nil {
			return err
		}
	}
	return setLimits(r.Limits)
}

// capabilitySets are those of a thread, with 32 capabilities in each element.
type capabilitySets [2]unix.CapUserData

func capabilities() (*capabilitySets, error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets capabilitySets
	err := unix.Capget(&header, &sets[0])
	return &sets, err
}

func setCapabilities(sets *capabilitySets) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	return unix.Capset(&header, &sets[0])
}
