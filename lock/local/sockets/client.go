package sockets

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"berth/internal/hearing"
	"berth/lock"
)

// ErrDead: nobody listens on the socket any more.
var ErrDead = errors.New("the process that listened is dead")

// Client asks those who listen in a directory.
type Client struct {
	Dir    string // of the sockets
	Owners []int  // the users whose answers count
}

// Socket is one that is there.
type Socket struct {
	Slot int // that its contender holds; 0: it waits
	name string
}

// List returns the sockets that are there, also those of processes that were killed.
func (c Client) List() ([]Socket, error) {
	entries, err := os.ReadDir(c.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var all []Socket
	for _, e := range entries {
		if slot, _, ok := parse(e.Name()); ok && e.Type() == fs.ModeSocket {
			all = append(all, Socket{Slot: slot, name: e.Name()})
		}
	}
	return all, err
}

// Listens reports whether somebody listens on a socket, without asking anything.
func (c Client) Listens(ctx context.Context, s Socket) bool {
	conn, err := c.connect(ctx, s)
	if err != nil {
		return errors.Is(err, syscall.EAGAIN) // so many ask that more have to wait
	}
	return conn.Close() == nil
}

// Ask asks who listens on a socket. Not 0, slot is the one that it has to hold. Errors: ErrDead and
// those of hearing.Ask.
func (c Client) Ask(ctx context.Context, s Socket, slot int, verb lock.Verb) ([]byte, error) {
	conn, err := c.connect(ctx, s)
	if err != nil {
		return nil, err
	}
	return hearing.Ask(ctx, conn, slot, verb)
}

func (c Client) connect(ctx context.Context, s Socket) (*net.UnixConn, error) {
	dir, err := openFolder(c.Dir)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", dir.address(s.name))
	switch {
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, fs.ErrNotExist):
		return nil, ErrDead
	case errors.Is(err, fs.ErrPermission):
		return nil, lock.Errorf(lock.ErrDenied, "this user may not ask it")
	case err != nil:
		return nil, err
	}
	listener := conn.(*net.UnixConn)
	_, uid, err := hearing.Peer(listener)
	if err == nil && !slices.Contains(c.Owners, uid) {
		err = lock.Errorf(lock.ErrDenied, "its socket %s belongs to the user %s, who has no rights here", s.name,
			hearing.UserName(uid))
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return listener, nil
}

// removeLeftovers removes the sockets of processes that were killed. Whose process is there, as far as can be seen
// from here, is not disturbed.
func (f folder) removeLeftovers() {
	c := Client{Dir: f.Name(), Owners: []int{os.Geteuid()}}
	all, _ := c.List()
	for _, s := range all {
		if _, pid, _ := parse(s.name); unix.Kill(pid, 0) != unix.ESRCH {
			continue
		}
		if _, err := c.connect(context.Background(), s); errors.Is(err, ErrDead) {
			_ = f.remove(s.name)
		}
	}
}
