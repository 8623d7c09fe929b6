package control

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"berth/lock"
)

// Client asks the contenders that listen in a directory.
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

// Listens reports whether a contender listens on a socket, without asking anything.
func (c Client) Listens(ctx context.Context, s Socket) bool {
	conn, err := c.dial(ctx, s)
	if err != nil {
		return errors.Is(err, syscall.EAGAIN) // so many ask that more have to wait
	}
	return conn.Close() == nil
}

// Ask asks the contender that listens on a socket. Not 0, slot is the one that it has to hold. Errors: ErrDead,
// ErrRefused, lock.ErrDenied, and others if no answer came before ctx ended.
func (c Client) Ask(ctx context.Context, s Socket, slot int, verb lock.Verb) ([]byte, error) {
	conn, err := whenFree(ctx, func() (*net.UnixConn, error) { return c.dial(ctx, s) })
	if err != nil {
		return nil, err
	}
	return ask(ctx, conn, slot, verb)
}

func (c Client) dial(ctx context.Context, s Socket) (*net.UnixConn, error) {
	dir, err := openFolder(c.Dir)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return dial(ctx, dir.address(s.name), func(_, uid int) error {
		if slices.Contains(c.Owners, uid) {
			return nil
		}
		return lock.Errorf(lock.ErrDenied, "its socket %s belongs to the user %s, who has no rights here", s.name,
			userName(uid))
	})
}

const waiting = "waiting" // in the place of a slot's number

// folder is the open directory of the sockets. Names in it are used with it, and not with its path, which may be
// longer than an address can be (108 bytes, unix(7)), and may have become another directory's.
type folder struct{ *os.File }

func openFolder(dir string) (folder, error) {
	f, err := os.OpenFile(dir, unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	return folder{f}, err
}

// makeFolder is openFolder for a server. It refuses a directory in which others can replace sockets.
func makeFolder(dir string) (folder, error) {
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return folder{}, err
	}
	f, err := openFolder(dir)
	if err != nil {
		return folder{}, err
	}
	info, err := f.Stat()
	if err == nil {
		owner := int(info.Sys().(*syscall.Stat_t).Uid)
		if owner != 0 && owner != os.Geteuid() || info.Mode()&0o002 != 0 {
			err = lock.Errorf(lock.ErrDenied, "%s belongs to another user, or everybody may write in it; remove it", dir)
		}
	}
	if err != nil {
		_ = f.Close()
		return folder{}, err
	}
	return f, nil
}

func (f folder) address(name string) string { return fmt.Sprintf("/proc/self/fd/%d/%s", f.Fd(), name) }

func (f folder) remove(name string) error { return unix.Unlinkat(int(f.Fd()), name, 0) }

// removeLeftovers removes the sockets of processes that were killed. One whose process is there, as far as can be seen
// from here, is not disturbed.
func (f folder) removeLeftovers() {
	c := Client{Dir: f.Name(), Owners: []int{os.Geteuid()}}
	all, _ := c.List()
	for _, s := range all {
		if _, pid, _ := parse(s.name); unix.Kill(pid, 0) != unix.ESRCH {
			continue
		}
		if _, err := c.dial(context.Background(), s); errors.Is(err, ErrDead) {
			_ = f.remove(s.name)
		}
	}
}

// file is that of a socket.
type file struct {
	folder
	id   string // makes its name unique
	name string // Server.mu
}

// listenIn makes a socket, under another name first: one that is there and refuses connections counts as left behind.
func listenIn(dir string, slot int, mode uint32) (*net.UnixListener, *file, error) {
	in, err := makeFolder(dir)
	if err != nil {
		return nil, nil, err
	}
	f := &file{folder: in, id: fmt.Sprintf("%d-%08x", os.Getpid(), rand.Uint32())}
	f.name = "new-" + f.id
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: in.address(f.name)})
	if err != nil {
		_ = in.Close()
		return nil, nil, err
	}
	listener.SetUnlinkOnClose(false) // it would use the path
	if err = f.chmod(mode); err == nil {
		err = f.rename(nameOf(slot, f.id))
	}
	if err != nil {
		_ = in.remove(f.name)
		_ = listener.Close()
		_ = in.Close()
		return nil, nil, err
	}
	return listener, f, nil
}

func (f *file) rename(to string) error {
	err := unix.Renameat(int(f.Fd()), f.name, int(f.Fd()), to)
	if err == nil {
		f.name = to
	}
	return err
}

func (f *file) chmod(mode uint32) error { return unix.Fchmodat(int(f.Fd()), f.name, mode, 0) }

// nameOf returns the name of the socket of a contender with that id. Slot 0: it waits.
func nameOf(slot int, id string) string {
	if slot == 0 {
		return waiting + "-" + id
	}
	return strconv.Itoa(slot) + "-" + id
}

// parse returns what nameOf made a name of.
func parse(name string) (slot, pid int, ok bool) {
	of, id, _ := strings.Cut(name, "-")
	digits, _, ok := strings.Cut(id, "-")
	pid, err := strconv.Atoi(digits)
	if !ok || err != nil || pid < 1 {
		return 0, 0, false
	}
	if of == waiting {
		return 0, pid, true
	}
	slot, err = strconv.Atoi(of)
	return slot, pid, err == nil && slot >= 1 && slot <= lock.MaxSlots
}
