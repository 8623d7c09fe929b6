package lock_test

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"berth/lock"
)

func TestNamesThatAreAccepted(t *testing.T) {
	for _, name := range []string{
		"a", "workers", "a b", "a/b", "..", ".", "100%", "Ünïcode 鎖", "amq", "xamq.y", "it's", "a-1", "a-W-b", "a-A",
		"a-1-X", strings.Repeat("x", lock.MaxName),
	} {
		if err := lock.CheckName(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestNamesThatAreRefused(t *testing.T) {
	for name, says := range map[string]string{
		"":                                    "empty",
		strings.Repeat("x", lock.MaxName+1):   "244 bytes",
		strings.Repeat("é", lock.MaxName/2+1): "244 bytes",
		"a\xffb":                              "not UTF-8",
		" a":                                  "space",
		"a ":                                  "space",
		"a\nb":                                "cannot be printed",
		"a\x00b":                              "cannot be printed",
		"a\u200bb":                            "cannot be printed",
		"amq.gen":                             "amq.",
		"a-1-A":                               `"-1-A"`,
		"a-12-B":                              `"-12-B"`,
		"a-3-T":                               `"-3-T"`,
		"a-A-1":                               `"-A-1"`,
		"a-B-99":                              `"-B-99"`,
		"a-W":                                 `"-W"`,
		"a-K":                                 `"-K"`,
		"a-Q":                                 `"-Q"`,
	} {
		err := lock.CheckName(name)
		switch {
		case err == nil:
			t.Errorf("%q is accepted", name)
		case !strings.Contains(err.Error(), says):
			t.Errorf("%q: the message %q does not say %q", name, err, says)
		case strings.ContainsAny(err.Error(), "\n\x00"):
			t.Errorf("%q: the message %q is not one printable line", name, err)
		}
	}
}

// The name of a queue is the lock's name and a suffix; it has to fit an AMQP
// short string.
func TestLongestNameAndHighestSlotFitAQueueName(t *testing.T) {
	queue := strings.Repeat("x", lock.MaxName) + "-Q-M-99999-A"
	if lock.MaxSlots != 99999 || len(queue) > 255 {
		t.Fatalf("the queue name has %d bytes, and slots go up to %d", len(queue), lock.MaxSlots)
	}
}

func TestKindsThatAreAdministered(t *testing.T) {
	want := map[lock.Kind]bool{
		lock.Mutex: false, lock.Semaphore: true, lock.PersistentMutex: true, lock.TokenSemaphore: true,
	}
	if len(lock.Kinds) != len(want) {
		t.Fatalf("kinds are %v", lock.Kinds)
	}
	for _, kind := range lock.Kinds {
		if administered, known := want[kind]; !known || kind.Administered() != administered {
			t.Errorf("kind %q: administered is %v", kind, kind.Administered())
		}
	}
	if lock.Kind("other").Administered() {
		t.Error("an unknown kind is administered")
	}
}

func TestLockInAMessageIsOneShortLine(t *testing.T) {
	if s := (lock.ID{Kind: lock.Mutex, Name: "a b"}).String(); s != `mutex "a b"` {
		t.Errorf("it reads %s", s)
	}
	for _, name := range []string{"a\nb\x1b[0m", strings.Repeat("é", 300), strings.Repeat("x", 59) + "é"} {
		s := lock.ID{Kind: lock.Semaphore, Name: name}.String()
		if strings.ContainsAny(s, "\n\x1b") || len(s) > 150 || strings.Contains(s, `\x`+"c3") {
			t.Errorf("%q reads %s", name, s)
		}
	}
}

func TestCreateCommandMakesTheLockThatIsMeant(t *testing.T) {
	for id, want := range map[lock.ID]string{
		{Kind: lock.Semaphore, Name: "workers"}:   "berth semaphore create workers --slots N",
		{Kind: lock.PersistentMutex, Name: "x/y"}: "berth persistent-mutex enable x/y",
		{Kind: lock.Semaphore, Name: "-x"}:        "berth semaphore create --slots N -- -x",
		{Kind: lock.PersistentMutex, Name: "-x"}:  "berth persistent-mutex enable -- -x",
	} {
		if got := id.CreateCommand(); got != want {
			t.Errorf("%s: %s, want %s", id, got, want)
		}
	}
	for id, want := range map[lock.ID]string{
		{Kind: lock.Semaphore, Name: "workers"}:  "berth semaphore create workers --slots N --naming N-A-L",
		{Kind: lock.PersistentMutex, Name: "-x"}: "berth persistent-mutex enable --naming N-A-L -- -x",
	} {
		if err := id.Absent("--naming N-A-L"); !strings.HasSuffix(err.Error(), ": "+want) {
			t.Errorf("%v, want %s in it", err, want)
		}
	}
}

func TestCreateCommandSurvivesAShell(t *testing.T) {
	for _, name := range []string{"a b", "it's", "$HOME", "a;b", "`id`", `back\slash`, "ü*?", `"q"`} {
		command := lock.ID{Kind: lock.PersistentMutex, Name: name}.CreateCommand()
		args, ok := strings.CutPrefix(command, "berth ")
		if !ok {
			t.Fatalf("the command is %s", command)
		}
		out, err := exec.Command("/bin/sh", "-c", "printf '%s\n' "+args).Output()
		if err != nil {
			t.Fatalf("%s: %v", command, err)
		}
		if want := "persistent-mutex\nenable\n" + name + "\n"; string(out) != want {
			t.Errorf("the shell makes %q of %s", out, command)
		}
	}
}

func TestOutcomesAreToldApart(t *testing.T) {
	all := []error{
		lock.ErrFull, lock.ErrAbsent, lock.ErrLost, lock.ErrUnknown, lock.ErrUnreachable, lock.ErrDenied, lock.ErrUnsafe,
		lock.ErrBusy,
	}
	for i, a := range all {
		for j, b := range all {
			if errors.Is(a, b) != (i == j) || (i != j && a.Error() == b.Error()) {
				t.Errorf("%q and %q are not told apart", a, b)
			}
		}
	}
}
