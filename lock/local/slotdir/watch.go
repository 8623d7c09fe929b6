package slotdir

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

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

// watchAfter is when a directory is watched although nobody waits for a change: a slot is
// held whose removal its holder is told of. Many a command is over sooner, and to end a
// watch takes 10 ms, for which the kernel keeps the process that ends.
const watchAfter = 100 * time.Millisecond

// watcher hands the changes of one directory to a function, in order, on a
// goroutine of its own that ends with close, or when the directory is gone.
type watcher struct {
	dir    string
	info   fs.FileInfo // which directory it is
	handle func(Event)
	done   chan struct{} // closed when the goroutine has ended, or never will begin

	mu     sync.Mutex
	later  *time.Timer // begins
	file   *os.File    // nil before it has begun; guarded by mu
	closed bool        // guarded by mu
}

// ErrNoWatch: ENOSPC, which here has nothing to do with space.
var ErrNoWatch = errors.New("inotify_add_watch: this user watches as many files as are allowed")

// watch watches dir from begin on, or soon. Once it does, everything counts as changed,
// and every change after that is handed to handle.
func watch(dir string, handle func(Event)) (*watcher, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	w := &watcher{dir: dir, info: info, handle: handle, done: make(chan struct{})}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.later = time.AfterFunc(watchAfter, func() {
		if w.begin() != nil { // the directory may be gone; else verifications have to do
			handle(Event{})
		}
	})
	return w, nil
}

// begin begins to watch, unless that has begun.
func (w *watcher) begin() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.file != nil || w.closed {
		return nil
	}
	w.later.Stop()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return fmt.Errorf("inotify_init: %w", err)
	}
	// Non-blocking, so that Go's poller waits for it and Close ends a Read.
	file := os.NewFile(uintptr(fd), "inotify of "+w.dir)
	if _, err = unix.InotifyAddWatch(fd, w.dir, watched); err == unix.ENOSPC {
		err = ErrNoWatch
	} else if err != nil {
		err = fmt.Errorf("inotify_add_watch: %w", err)
	} else if now, statErr := os.Stat(w.dir); statErr != nil || !os.SameFile(w.info, now) {
		err = cmp.Or(statErr, ErrUnwatched)
	}
	if err != nil {
		_ = file.Close()
		return err
	}
	w.file = file
	go w.run()
	return nil
}

func (w *watcher) run() {
	defer close(w.done)
	w.handle(Event{}) // what has changed before
	buf := make([]byte, 64*(unix.SizeofInotifyEvent+unix.NAME_MAX+1))
	for {
		n, err := w.file.Read(buf)
		if err != nil {
			return
		}
		for _, e := range parse(buf[:n]) {
			w.handle(e)
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
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	w.closed = true
	w.later.Stop()
	if w.file == nil {
		close(w.done)
		return
	}
	_ = w.file.Close()
	<-w.done
}
