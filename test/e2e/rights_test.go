package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// capabilities says what a process has, and whether it can become root.
const capabilities = `grep ^Cap /proc/self/status; setpriv --reuid=0 true && echo root`

// berth has the capabilities that --user needs without being root, from the ambient set.
func TestCommandOfAnotherUserHasNoCapabilities(t *testing.T) {
	t.Parallel()
	user := strconv.Itoa(aUser)
	for name, c := range map[string]struct {
		flags    []string
		own      string // what berth has
		emptied  bool   // the bounding set
		as, want string // the command's user, and what it must not have
	}{
		"berth is root":             {nil, "", true, "65534", "0000000000000000"},
		"berth is another user":     {nil, "+setuid,+setgid,+kill,+setpcap", true, "65534", "0000000000000000"},
		"it may not empty that set": {nil, "+setuid,+setgid,+kill", false, "65534", "0000000000000000"},
		"programs may give it some": {[]string{"--no-new-privileges=false"}, "+setuid,+setgid,+kill", false, "65534",
			"0000000000000000"},
		"its user is berth's own": {nil, "+setuid,+setgid,+kill", false, user, "0000000000000000"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for _, opened := range []string{filepath.Dir(dir), filepath.Dir(binary)} {
				if err := os.Chmod(opened, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			var as setup
			if c.own != "" {
				if err := os.Chown(dir, aUser, aUser); err != nil {
					t.Fatal(err)
				}
				as.via = []string{"setpriv", "--reuid=" + user, "--regid=" + user, "--clear-groups",
					"--inh-caps=" + c.own, "--ambient-caps=" + c.own, "--"}
			}
			args := append([]string{"run", "--broker", "local://" + dir, "--mutex", "m", "--user", c.as, "--group", c.as,
				"--on-acquire", "sh -c '{ " + capabilities + "; } >&2; true'"}, c.flags...)
			b := as.start(t, append(args, "--", "sh", "-c", capabilities+"; true")...)
			b.wantStatus(0)
			for who, said := range map[string]string{"command": b.stdout(), "hook": b.stderr()} {
				for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapAmb"} {
					if !strings.Contains(said, set+":\t"+c.want+"\n") {
						t.Errorf("the %s has a %s: %s", who, set, said)
					}
				}
				if c.emptied && !strings.Contains(said, "CapBnd:\t"+c.want+"\n") {
					t.Errorf("a file can give the %s capabilities: %s", who, said)
				}
				if strings.Contains(said, "\nroot\n") {
					t.Errorf("the %s can become root", who)
				}
			}
		})
	}
}

// What is typed into the terminal is for the shell that berth was started from, once the
// command has ended (CVE-2016-2779 is of the same sort).
func TestCommandOfAnotherUserCannotTypeIntoTheTerminal(t *testing.T) {
	t.Parallel()
	ways := map[string]string{"as everybody does": "ioctl(STDIN, $request, $_)"}
	if unix.SYS_IOCTL == 16 { // an x86
		ways["as an x32 program"] = "!syscall(0x40000202, 0, $request, $_)"
	}
	for name, way := range ways {
		for _, flag := range []string{"--no-new-privileges=true", "--no-new-privileges=false"} {
			t.Run(name+" "+flag, func(t *testing.T) {
				t.Parallel()
				term := openTerminal(t)
				term.types(fmt.Sprintf(`TYPE='$request = %d; for (split //, "echo inj\x65cted\n") { %s or die "re"."fused: $!\n" }'`,
					unix.TIOCSTI, way) + "\n")
				term.sees("prompt> ")
				term.types(`"$BINARY" run --mutex m ` + flag + ` --user 65534 --group 65534 -- perl -e "$TYPE"` + "\n")
				term.sees("refused: Operation not permitted")
				term.worksAgain()
				term.mu.Lock()
				defer term.mu.Unlock()
				if strings.Contains(term.text.String(), "injected") {
					t.Error("the shell has run what the command typed")
				}
			})
		}
	}
}
