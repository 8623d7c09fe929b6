package control

import (
	"crypto/rand"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// ofPair returns one of two ends that are connected, and the file of the other one.
func ofPair(t *testing.T) (conn *net.UnixConn, other *os.File) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	other = os.NewFile(uintptr(fds[1]), "other end")
	t.Cleanup(func() { _ = other.Close() })
	return connOf(t, os.NewFile(uintptr(fds[0]), "end")), other
}

func connOf(t *testing.T, file *os.File) *net.UnixConn {
	t.Helper()
	defer file.Close()
	conn, err := net.FileConn(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn.(*net.UnixConn)
}

const inside = "BERTH_TEST_INSIDE"

// kept returns the connection of another process that nobody of its user can look into, as a berth that asks.
func kept(t *testing.T) *net.UnixConn {
	t.Helper()
	listener, err := net.Listen("unix", "@"+rand.Text())
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	other := exec.Command("/proc/self/exe", "-test.run=^TestNobodyIsNotWhoHasNoNumberHere$")
	other.Env = append(os.Environ(), inside+"="+listener.Addr().String())
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = conn.Close(), other.Wait() })
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return conn.(*net.UnixConn)
}

// asker is that process.
func asker(t *testing.T, address string) {
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	conn, err := net.Dial("unix", address)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = conn.Write([]byte("!"))
	_, _ = conn.Read(make([]byte, 1))
}

// In a container whose users are others outside, all of these look like its nobody. A shared network is enough for them
// to reach a berth in there.
func TestNobodyIsNotWhoHasNoNumberHere(t *testing.T) {
	if address := os.Getenv(inside); strings.HasPrefix(address, "@") {
		asker(t, address)
		return
	}
	if os.Getenv(inside) != "" {
		own, _ := ofPair(t)
		for name, c := range map[string]struct {
			conn *net.UnixConn
			want int
		}{"itself": {own, nobody}, "a berth of its own": {kept(t), nobody}, "somebody outside": {connOf(t, os.NewFile(3, "of the one outside")), -1}} {
			if _, uid, err := peer(c.conn); err != nil || uid != c.want {
				t.Errorf("%s: user %d, %v, want %d", name, uid, err, c.want)
			}
		}
		return
	}
	_, theirs := ofPair(t)
	self := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	self.Env, self.ExtraFiles = append(os.Environ(), inside+"=1"), []*os.File{theirs}
	self.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: nobody, HostID: 100_000, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: nobody, HostID: 100_000, Size: 1}},
		Credential:  &syscall.Credential{Uid: nobody, Gid: nobody, NoSetGroups: true},
	}
	if out, err := self.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS") {
		t.Errorf("%v; this test needs root, and user namespaces: %s", err, out)
	}
}
