package e2e

import (
	"bytes"
	"debug/elf"
	enc "encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
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
		flags []string
		own   string // what berth has
		as    string // the command's user
	}{
		"berth is root":             {nil, "", "65534"},
		"berth is another user":     {nil, "+setuid,+setgid,+kill", "65534"},
		"programs may give it some": {[]string{"--no-new-privileges=false"}, "+setuid,+setgid,+kill", "65534"},
		"its user is berth's own":   {nil, "+setuid,+setgid,+kill", user},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, as := having(t, c.own)
			args := append([]string{"run", "--broker", "local://" + dir, "--mutex", "m", "--user", c.as, "--group", c.as,
				"--on-acquire", "sh -c '{ " + capabilities + "; } >&2; true'"}, c.flags...)
			b := as.start(t, append(args, "--", "sh", "-c", capabilities+"; true")...)
			b.wantStatus(0)
			for who, said := range map[string]string{"command": b.stdout(), "hook": b.stderr()} {
				for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapAmb"} {
					if !strings.Contains(said, set+":\t0000000000000000\n") {
						t.Errorf("the %s has a %s: %s", who, set, said)
					}
				}
				if strings.Contains(said, "\nroot\n") {
					t.Errorf("the %s can become root", who)
				}
			}
		})
	}
}

// having returns a directory for locks, and the start of a berth that has some capabilities,
// ambient ones, and is root without any.
func having(t *testing.T, capabilities string) (dir string, s setup) {
	t.Helper()
	dir = t.TempDir()
	for _, opened := range []string{filepath.Dir(dir), dir, filepath.Dir(binary)} {
		if err := os.Chmod(opened, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if capabilities == "" {
		return dir, s
	}
	if err := os.Chown(dir, aUser, aUser); err != nil {
		t.Fatal(err)
	}
	user := strconv.Itoa(aUser)
	s.via = []string{"setpriv", "--reuid=" + user, "--regid=" + user, "--clear-groups",
		"--inh-caps=" + capabilities, "--ambient-caps=" + capabilities, "--"}
	return dir, s
}

// copyWith copies a program, and gives its file capabilities.
func copyWith(t *testing.T, from, to string, capabilities ...int) {
	t.Helper()
	if out, err := exec.Command("cp", from, to).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	// struct vfs_cap_data of linux/capability.h, version 2, effective
	data := []byte{1, 0, 0, 2, 19: 0}
	for _, capability := range capabilities {
		data[4+capability/8] |= 1 << (capability % 8)
	}
	if err := unix.Setxattr(to, "security.capability", data, 0); err != nil {
		t.Fatal(err)
	}
}

// The kernel takes the death signal from a process that gets capabilities from its file, and
// the command of such a berth has been one.
func TestCommandOfABerthWhoseFileHasCapabilitiesDiesWithTheGuard(t *testing.T) {
	t.Parallel()
	dir, as := having(t, "+setuid") // not to be root
	program := filepath.Join(dir, "berth")
	copyWith(t, binary, program, unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_KILL)
	as.via = append(as.via, "sh", "-c", `shift; exec "$0" "$@"`, program)
	b := as.start(t, "run", "--broker", "local://"+dir, "--mutex", "m", "--user", "65534", "--group", "65534", "--",
		"perl", "-e", fmt.Sprintf(`$signal = pack "i", 0; syscall(%d, %d, $signal); print unpack("i", $signal)`,
			unix.SYS_PRCTL, unix.PR_GET_PDEATHSIG))
	b.wantStatus(0)
	if b.stdout() != strconv.Itoa(int(unix.SIGKILL)) {
		t.Errorf("its death signal is %q", b.stdout())
	}
}

// Such a program runs, ping for one, which then does without its capability.
func TestCapabilitiesOfItsFileGiveTheCommandNone(t *testing.T) {
	t.Parallel()
	for name, own := range map[string]string{"berth is root": "", "berth is another user": "+setuid,+setgid,+kill"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, as := having(t, own)
			program := filepath.Join(dir, "becomes-root")
			setpriv, err := exec.LookPath("setpriv")
			if err != nil {
				t.Fatal(err)
			}
			copyWith(t, setpriv, program, unix.CAP_SETUID)
			b := as.start(t, "run", "--broker", "local://"+dir, "--mutex", "m", "--user", "65534", "--group", "65534", "--",
				program, "--reuid=0", "echo", "root")
			<-b.done
			if !strings.Contains(b.stderr(), "setresuid failed: Operation not permitted") || b.stdout() != "" {
				t.Errorf("%s%s", b.stdout(), b.stderr())
			}
		})
	}
}

// Who has a keyring reads its keys, of whatever user they are (keyrings(7), "Possession").
func TestCommandOfAnotherUserHasNoKeysOfBerths(t *testing.T) {
	t.Parallel()
	for user, want := range map[string]string{"root": "a secret of berth's", "65534": "Required key not available"} {
		t.Run(user, func(t *testing.T) {
			t.Parallel()
			const names = `($type, $name, $secret) = ("user", "berth-test", "a secret of berth\x27s"); `
			give := fmt.Sprintf(names+`syscall(%d, %d, 0); syscall(%d, $type, $name, $secret, length $secret, -3) > 0 or die $!; `+
				`exec @ARGV`, unix.SYS_KEYCTL, unix.KEYCTL_JOIN_SESSION_KEYRING, unix.SYS_ADD_KEY)
			read := fmt.Sprintf(names+`($key = syscall(%d, %d, -3, $type, $name, 0)) > 0 or print("$!"), exit; `+
				`$secret =~ tr//-/c; syscall(%d, %d, $key, $secret, length $secret); print $secret`,
				unix.SYS_KEYCTL, unix.KEYCTL_SEARCH, unix.SYS_KEYCTL, unix.KEYCTL_READ)
			b := setup{via: []string{"perl", "-e", give}}.start(t, "run", "--broker", "local://"+t.TempDir(), "--mutex", "m",
				"--user", user, "--group", "65534", "--", "perl", "-e", read)
			b.wantStatus(0)
			if b.stdout() != want {
				t.Errorf("it reads %q, not %q", b.stdout(), want)
			}
		})
	}
}

// Its home, say, or a file system of its own (FUSE), which root may not enter either.
func TestCommandEntersADirectoryThatBerthMayNotLookAt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		user, inner, stdout string
		status              int
		stderr              string
	}{
		"its own":         {"65534", "work", "HOME/work", 0, ""},
		"another's":       {"65533", "work", "", 126, "in --directory: user 65533, group 65533 may not enter HOME: "},
		"its own, absent": {"65534", "play", "", 127, "is --directory HOME/play there for user 65534"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, as := having(t, "+setuid,+setgid,+kill")
			home := filepath.Join(dir, "home")
			if err := errors.Join(os.MkdirAll(filepath.Join(home, "work"), 0o755), os.Chown(home, 65534, 65534),
				os.Chmod(home, 0o700)); err != nil {
				t.Fatal(err)
			}
			b := as.start(t, "run", "--broker", "local://"+dir, "--mutex", "m", "--user", c.user, "--group", c.user,
				"--directory", filepath.Join(home, c.inner), "--", "sh", "-c", `printf "$(pwd -P)"`)
			b.wantStatus(c.status)
			if want := strings.ReplaceAll(c.stdout, "HOME", home); b.stdout() != want {
				t.Errorf("%q, not %q", b.stdout(), want)
			}
			if want := strings.ReplaceAll(c.stderr, "HOME", home); !strings.Contains(b.stderr(), want) {
				t.Errorf("%s\nwithout %q", b.stderr(), want)
			}
		})
	}
}

// of32Bits writes a program for i386 that types its argument's first character, and exits with
// the error's number.
func of32Bits(t *testing.T) (path string) {
	t.Helper()
	code := []byte{
		0xb8, 54, 0, 0, 0, // mov $54, %eax: ioctl
		0x31, 0xdb, // xor %ebx, %ebx: standard input
		0xb9, 0x12, 0x54, 0, 0, // mov $0x5412, %ecx: TIOCSTI
		0x8b, 0x54, 0x24, 8, // mov 8(%esp), %edx: argv[1]
		0xcd, 0x80, // int $0x80
		0xf7, 0xd8, // neg %eax
		0x89, 0xc3, // mov %eax, %ebx
		0x31, 0xc0, 0x40, // xor %eax, %eax; inc %eax: exit
		0xcd, 0x80, // int $0x80
	}
	const base, headers = 0x8048000, 52 + 32
	size := uint32(headers + len(code))
	var file bytes.Buffer
	if err := errors.Join(enc.Write(&file, enc.LittleEndian, elf.Header32{
		Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS32), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_EXEC), Machine: uint16(elf.EM_386), Version: uint32(elf.EV_CURRENT),
		Entry: base + headers, Phoff: 52, Ehsize: 52, Phentsize: 32, Phnum: 1,
	}), enc.Write(&file, enc.LittleEndian, elf.Prog32{
		Type: uint32(elf.PT_LOAD), Vaddr: base, Paddr: base, Filesz: size, Memsz: size, Flags: uint32(elf.PF_R | elf.PF_X),
		Align: 4096,
	})); err != nil {
		t.Fatal(err)
	}
	file.Write(code)
	dir := t.TempDir()
	path = filepath.Join(dir, "types")
	if err := errors.Join(os.WriteFile(path, file.Bytes(), 0o755), os.Chmod(filepath.Dir(dir), 0o755)); err != nil {
		t.Fatal(err)
	}
	return path
}

// isFor32Bits reports whether this kernel runs such programs.
func isFor32Bits(program string) bool {
	var ended *exec.ExitError // standard input is no terminal
	return errors.As(exec.Command(program, "x").Run(), &ended) && ended.ExitCode() == int(unix.ENOTTY)
}

// What is typed into the terminal is for the shell that berth was started from, once the
// command has ended (CVE-2016-2779 is of the same sort).
func TestCommandOfAnotherUserCannotTypeIntoTheTerminal(t *testing.T) {
	t.Parallel()
	ways := map[string]string{"as everybody does": "ioctl(STDIN, $request, $_)"}
	if unix.SYS_IOCTL == 16 { // an x86
		ways["as an x32 program"] = "!syscall(0x40000202, 0, $request, $_)"
		if program := of32Bits(t); isFor32Bits(program) {
			ways["as a 32-bit program"] = fmt.Sprintf(`!($! = system("%s", $_) >> 8)`, program)
		}
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
