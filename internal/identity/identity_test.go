package identity

import (
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestNumbersAreTakenForUserAndGroup(t *testing.T) {
	user, err := LookUpUser("4711")
	if err != nil {
		t.Fatal(err)
	}
	group, err := LookUpGroup("4712")
	if err != nil {
		t.Fatal(err)
	}
	got, err := Credential(&user, &group)
	if err != nil || got.Uid != 4711 || got.Gid != 4712 || !slices.Equal(got.Groups, []uint32{4712}) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestNumbersOfAUserNamespaceAreThoseOfItsMap(t *testing.T) {
	for text, want := range map[mapping][]bool{ // of 0, 1000 and the highest number
		"":                                   {true, true, true},
		"         0          0 4294967295\n": {true, true, true},
		"         0       1000          1\n": {true, false, false},
		"         0       1000          1\n         1     100000      65536\n": {true, true, false},
		"      1000       1000          1\n":                                   {false, true, false},
	} {
		for i, id := range []uint32{0, 1000, 1<<32 - 2} {
			if got := text.has(id); got != want[i] {
				t.Errorf("%q has %d: %t", text, id, got)
			}
		}
	}
}

func TestIdentityThatBerthCannotGiveIsRefused(t *testing.T) {
	all := []int{unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_KILL}
	without := func(missing int) []int {
		return slices.DeleteFunc(slices.Clone(all), func(c int) bool { return c == missing })
	}
	own, other := uint32(os.Geteuid()), uint32(os.Geteuid())+1
	for name, c := range map[string]struct {
		as   *syscall.Credential
		has  []int
		want string
	}{
		"nobody else":             {nil, nil, ""},
		"root":                    {&syscall.Credential{Uid: other}, all, ""},
		"another user":            {&syscall.Credential{Uid: other}, nil, "needs CAP_SETUID and CAP_SETGID and CAP_KILL,"},
		"another user, no groups": {&syscall.Credential{Uid: other}, without(unix.CAP_SETGID), "needs CAP_SETGID,"},
		"another user, not ended": {&syscall.Credential{Uid: other}, without(unix.CAP_KILL), "needs CAP_KILL,"},
		"another group":           {&syscall.Credential{Uid: own}, nil, "needs CAP_SETGID,"},
	} {
		err := Permitted(c.as, func(capability int) bool { return slices.Contains(c.has, capability) })
		if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
