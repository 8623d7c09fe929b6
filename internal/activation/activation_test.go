package activation

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 20 * time.Second

// socket returns a listening one as systemd makes it, which blocks.
func socket(t *testing.T) (fd int, address string) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), unix.Listen(fd,
		10)); err != nil {
		t.Fatal(err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	port := name.(*unix.SockaddrInet4).Port
	return fd, (&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}).String()
}

func connect(t *testing.T, address string) net.Conn {
	t.Helper()
	client, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	_ = client.SetDeadline(time.Now().Add(patience))
	return client
}

func TestClientsAreTurnedAwayUntilTheCommandMayServeThem(t *testing.T) {
	fd, address := socket(t)
	s := &Sockets{fds: []int{fd}}
	early := connect(t, address) // before anybody said what is to become of it
	for range 2 {
		s.TurnAway()
		s.TurnAway() // as often as somebody is told to
		for _, client := range []net.Conn{early, connect(t, address), connect(t, address)} {
			if _, err := client.Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("a client gets %v", err)
			}
		}
		s.Leave()
		s.Leave()
		early = connect(t, address)
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0); err != nil || flags&unix.O_NONBLOCK != 0 {
			t.Errorf("flags %#x, error %v", flags, err)
		}
	}
	client, _, err := unix.Accept4(fd, unix.SOCK_CLOEXEC) // the command
	if err != nil {
		t.Fatal(err)
	}
	_, _ = unix.Write(client, []byte("!"))
	unix.Close(client)
	if answer, err := io.ReadAll(early); string(answer) != "!" || err != nil {
		t.Errorf("the client of the command gets %q, error %v", answer, err)
	}
}

func TestSocketsOfSomebodyElseAreLeftAlone(t *testing.T) {
	t.Setenv("LISTEN_FDS", "1")
	for _, pid := range []string{"", "1", "x"} {
		t.Setenv(PidVar, pid)
		if s := Inherited(); len(s.fds) != 0 {
			t.Errorf("%s=%s: %v", PidVar, pid, s.fds)
		}
	}
	t.Setenv(PidVar, "")
	os.Unsetenv(PidVar)
	s := Inherited()
	s.TurnAway()
	s.Leave()
}
