// Package sockets is how those who contend for a local lock are asked something. Each listens on a unix socket in
// the directory "sockets" of the lock's directory, and is sent one line of JSON, which it answers with another:
//
//	server := sockets.NewServer(sockets.Config{Dir: dir})
//	server.Begin()     // to wait; its socket is waiting-PID-X
//	server.Holds(3)    // its socket is 3-PID-X
//	for r := range server.Requests() { ... }
//
//	client := sockets.Client{Dir: dir, Owners: []int{0, os.Getuid()}}
//	all, err := client.List()
//	answer, err := client.Ask(ctx, all[0], 3, lock.AskStatus)
//
// The directory is not the lock's own, as whoever waits is told of every change in that. Every socket has a
// name that no other has had, so a holder that notices late that it holds nothing any more cannot take away the
// socket of the next one. What is left of those that were killed is removed by the next that begins to listen.
//
// Who asks is known from the kernel (SO_PEERCRED), and so is who answers. Others than root, the user of the
// process that is asked and its administrators are sent away before anything of theirs is read.
//
// What it does not guarantee: that who has a socket named after a slot holds it. The lock is the flock, and
// nothing else.
package sockets

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"berth/lock"
)

const waiting = "waiting" // in the place of a slot's number

// folder is the open directory of the sockets. Names in it are used with it, and not with its path, which may be
// longer than an address can be (108 bytes, unix(7)), and may have become another directory's.
type folder struct{ *os.File }

func openFolder(dir string) (folder, error) {
	f, err := os.OpenFile(dir, unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	return folder{f}, err
}

// makeFolder is openFolder for who wants to listen. It refuses a directory in which others can replace sockets.
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

func (f folder) rename(from, to string) error {
	return unix.Renameat(int(f.Fd()), from, int(f.Fd()), to)
}

func (f folder) chmod(name string, mode uint32) error {
	return unix.Fchmodat(int(f.Fd()), name, mode, 0)
}

func (f folder) remove(name string) error { return unix.Unlinkat(int(f.Fd()), name, 0) }

// newID is what makes a socket's name unique, with the process in it for whoever reads it.
func newID() string { return fmt.Sprintf("%d-%08x", os.Getpid(), rand.Uint32()) }

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
