package lock

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"al.essio.dev/pkg/shellescape"
)

// Kind is what sort of lock a lock is. Its text is what the user writes on the
// command line and what BERTH_KIND says.
type Kind string

const (
	// Mutex is held by one at a time. It needs no administration: who comes first makes what it needs.
	Mutex Kind = "mutex"
	// Semaphore has slots 1..C, made and changed by administration.
	Semaphore Kind = "semaphore"
	// PersistentMutex is a semaphore of one slot that is enabled and disabled.
	PersistentMutex Kind = "persistent-mutex"
	// TokenSemaphore is a semaphore whose waiters are handed tokens, one for each slot, by a broker.
	TokenSemaphore Kind = "token-semaphore"
)

// Kinds are all kinds, in the order in which they are shown to users.
var Kinds = []Kind{Mutex, Semaphore, PersistentMutex, TokenSemaphore}

// Administered reports whether a lock of the kind exists only once
// administration has made it.
func (k Kind) Administered() bool { return k.Sized() || k == PersistentMutex }

// Sized reports whether a lock of the kind has as many slots as administration says.
func (k Kind) Sized() bool { return k == Semaphore || k == TokenSemaphore }

// CommandLine returns a command line about the lock that a user may paste into a
// shell: the command, the lock's name, and the flags, each with its value. A name
// that begins as a flag does comes last, behind the end of the flags.
func (id ID) CommandLine(command string, flags ...string) string {
	words := slices.Concat([]string{command, id.argument()}, flags)
	if strings.HasPrefix(id.Name, "-") {
		words = slices.Concat([]string{command}, flags, []string{"--", id.argument()})
	}
	return strings.Join(words, " ")
}

// CreateCommand returns the command line that makes the lock, for messages that
// tell a user what to do about an absent one. The flags are what it needs beside.
func (id ID) CreateCommand(flags ...string) string {
	if id.Kind == PersistentMutex {
		return id.CommandLine("berth persistent-mutex enable", flags...)
	}
	return id.CommandLine("berth "+string(id.Kind)+" create", slices.Concat([]string{"--slots N"}, flags)...)
}

// RemoveCommand returns the command line that removes the lock. The flags are what it needs beside.
func (id ID) RemoveCommand(flags ...string) string {
	verb := " destroy"
	if id.Kind == PersistentMutex {
		verb = " disable"
	}
	return id.CommandLine("berth "+string(id.Kind)+verb, flags...)
}

const (
	// MaxSlots is the highest slot number. It bounds what a mistyped number
	// can do to a broker, and the length of a queue name.
	MaxSlots = 99999

	// MaxPriority is the highest priority of a waiter; the lowest, and the
	// usual one, is 0. It leaves room above it for those who hold.
	MaxPriority = 100

	// MaxName is the length of a lock's name in bytes: an AMQP short string
	// has 255 (AMQP 0-9-1, section 4.2.5.3), and the longest suffix that the
	// name of a queue needs is "-Q-M-99999-A".
	MaxName = 255 - len("-Q-M-99999-A")
)

// ownQueue matches names that are, or could be, queues of another lock.
var ownQueue = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`-([0-9]+-[ABT]|[ABT]-[0-9]+|[WKQ]|Q-[MP])$`)
})

// Check reports what makes the ID unusable as a lock, or nil.
func (id ID) Check() error {
	if !slices.Contains(Kinds, id.Kind) {
		return fmt.Errorf("the kind of lock %q is not known; use one of %v", string(id.Kind), Kinds)
	}
	return CheckName(id.Name)
}

// CheckName reports what is wrong with a lock's name, or nil. A name is 1 to
// MaxName bytes of printable UTF-8, does not begin or end with a space, does
// not begin with "amq." (reserved by AMQP 0-9-1, queue.declare) and does not
// look like one of the queues of another lock.
func CheckName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("the lock's name is empty; give it 1 to %d bytes", MaxName)
	case len(name) > MaxName:
		return fmt.Errorf("the lock's name is %d bytes long; make it at most %d", len(name), MaxName)
	case !utf8.ValidString(name):
		return fmt.Errorf("the lock's name %s is not UTF-8; use UTF-8", quote(name))
	case strings.TrimSpace(name) != name:
		return fmt.Errorf("the lock's name %s begins or ends with a space; remove it", quote(name))
	case strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }):
		return fmt.Errorf("the lock's name %s has a character that cannot be printed; remove it", quote(name))
	case strings.HasPrefix(name, "amq."):
		return fmt.Errorf("the lock's name %s begins with \"amq.\", which brokers keep for themselves; choose "+
			"another", quote(name))
	case ownQueue().MatchString(name):
		return fmt.Errorf("the lock's name %s ends like a queue of another lock (%q); choose another", quote(name),
			ownQueue().FindString(name))
	}
	return nil
}

// quote quotes a name for a message, shortened so that the message stays one
// readable line.
func quote(name string) string {
	const most = 60
	if len(name) > most {
		return strconv.Quote(strings.ToValidUTF8(name[:most], "")) + "..."
	}
	return strconv.Quote(name)
}

// argument returns the lock's name as a word for a shell.
func (id ID) argument() string { return shellescape.Quote(id.Name) }
