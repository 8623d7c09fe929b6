package slotdir

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// watched are the changes of a lock's directory that berth wants to hear of.
const watched = unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_MOVED_FROM | unix.IN_DELETE |
	unix.IN_MODIFY | unix.IN_CLOSE_WRITE |
	unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR

// Event is one change. The name is empty where it concerns the directory
// itself, or where the kernel had to drop events (IN_Q_OVERFLOW), which counts
// as a change of everything.
type Event struct {
	Name string
	Mask uint32
}

// Vacates reports whether the change may have made a slot obtainable or vacant,
// or absent.
func (e Event) Vacates() bool {
	if e.Name == "" {
		return true
	}
	const moved = unix.IN_MOVED_TO | unix.IN_MOVED_FROM | unix.IN_DELETE
	if _, ok := slotNumber(e.Name, slotSuffix); ok {
		return e.Mask&(moved|unix.IN_CREATE) != 0
	}
	if _, ok := slotNumber(e.Name, lockSuffix); ok {
		return e.Mask&(moved|unix.IN_MODIFY|unix.IN_CLOSE_WRITE) != 0
	}
	return false
}

// EndsAdministration reports whether the change may mean that the
// administration mutex is free.
func (e Event) EndsAdministration() bool { return e.Name == "" || e.Name == adminFile }

// watcher hands the changes of one directory to a function, in order, on a
// goroutine of its own that ends with close, or when the directory is gone.
type watcher struct {
	file *os.File
	info fs.FileInfo   // which directory it is
	done chan struct{} // closed when the goroutine has ended
}

// ErrNoWatch: ENOSPC, which here has nothing to do with space.
var ErrNoWatch = errors.New("inotify_add_watch: this user watches as many files as are allowed")

// watch begins to watch dir. Every change after its return is handed to handle.
func watch(dir string, handle func(Event)) (*watcher, error) {
	before, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("inotify_init: %w", err)
	}
	// Non-blocking, so that Go's poller waits for it and Close ends a Read.
	file := os.NewFile(uintptr(fd), "inotify of "+dir)
	if _, err = unix.InotifyAddWatch(fd, dir, watched); err == unix.ENOSPC {
		err = ErrNoWatch
	} else if err != nil {
		err = fmt.Errorf("inotify_add_watch: %w", err)
	} else if after, statErr := os.Stat(dir); statErr != nil || !os.SameFile(before, after) {
		err = cmp.Or(statErr, ErrUnwatched)
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	w := &watcher{file: file, info: before, done: make(chan struct{})}
	go w.run(handle)
	return w, nil
}

func (w *watcher) run(handle func(Event)) {
	defer close(w.done)
	buf := make([]byte, 64*(unix.SizeofInotifyEvent+unix.NAME_MAX+1))
	for {
		n, err := w.file.Read(buf)
		if err != nil {
			return
		}
		for _, e := range parse(buf[:n]) {
			handle(e)
			if e.Mask&(unix.IN_DELETE_SELF|unix.IN_MOVE_SELF|unix.IN_IGNORED|unix.IN_UNMOUNT) != 0 {
				return
			}
		}
	}
}

// parse reads struct inotify_event (inotify(7)): wd, mask, cookie and len, 32
// bits each, then len bytes of name that end in zeros.
func parse(buf []byte) []Event {
	var all []Event
	for len(buf) >= unix.SizeofInotifyEvent {
		mask := binary.NativeEndian.Uint32(buf[4:])
		end := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(buf[12:]))
		name := bytes.TrimRight(buf[unix.SizeofInotifyEvent:end], "\x00")
		all = append(all, Event{Name: string(name), Mask: mask})
		buf = buf[end:]
	}
	return all
}

// Watches reports whether the directory is the one that is watched, and
// still is.
func (w *watcher) Watches(d Dir) bool {
	select {
	case <-w.done:
		return false
	default:
	}
	info, err := os.Stat(string(d))
	return err == nil && os.SameFile(w.info, info)
}

// Close ends it.
func (w *watcher) Close() {
	_ = w.file.Close()
	<-w.done
}
