// Package local keeps locks on one host, in a directory, with no broker. [New] returns a [lock.Backend]:
//
//	backend, err := local.New(local.Config{Dir: "/run/berth"})
//	l := backend.Lock(lock.ID{Kind: lock.Mutex, Name: "nightly"})
//
// What follows is the same for every backend; see the example of package [lock].
//
// Every lock has a directory of its own under [Config.Dir]. In it
//
//	N.slot      says that slot N exists; only administration makes and removes it
//	N.lock      is flocked by the holder of slot N
//	N.term      has the last term of slot N; its holder reads and replaces it
//	admin.lock  is flocked during every administrative action
//	sockets     has a unix socket of each contender, over which it is asked; see package control
//
// Slots count from 1 up to the first number that is missing; what lies beyond a gap is a leftover that nobody obtains.
// A mutex ([lock.Mutex]) is 1.lock alone. A name is one lock whatever its kind, so a mutex and a semaphore that share a
// name share slot 1. All who share a lock run as one user: nobody else can read its lock files.
//
// A lock file is never removed, and neither is a term file. Its flock therefore outlives the slot: a slot that was
// removed and added again stays with the holder that has not stopped yet. The flock ends when the file is unlocked
// through any copy, or the last copy is closed, so it outlives a killed supervisor for as long as its guard has one
// (see [lock.Handover]). The guard unlocks it once the command's tree is dead, if nothing else is to run in the slot.
//
// Terms ([lock.Held.Term]) count up from the clock in microseconds. Where a term file is lost, as all are at a reboot
// if the directory is in /run, they begin at the clock again: they then grow unless the clock was set back by more than
// the time that the file had existed.
//
// A directory in which other users could replace lock files is refused: one that belongs to neither root nor this user,
// or is writable for everybody.
//
// A [lock.Inspector] asks the holders. The flock alone tells that a slot is free, and term files tell which term a
// holder has that does not answer.
//
// What the package does not guarantee: somebody who removes or replaces lock files by hand can let a second holder in
// while the first is still stopping. The directory must be on a file system of this host, not on NFS.
package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/internal/control"
	"berth/lock"
	"berth/lock/local/slotdir"
)

// DefaultDir is the directory used where Config.Dir is empty. It is on a file
// system that a reboot empties, as the holders are gone then too.
const DefaultDir = "/run/berth"

// Config says where the locks are. The zero value is ready to use.
type Config struct {
	// Dir is the directory below which every lock has one, an absolute path.
	// It is made when it is first needed. Empty means DefaultDir.
	Dir string

	// Admins are users of this host, by name or number, who may ask who holds a slot or waits for one, beside root
	// and the user who does.
	Admins []string

	// Log is told what administration waits for and removes, and why nobody can ask a contender. Nil means nowhere.
	Log hclog.Logger
}

// Backend is a directory of locks. Its methods may be called from several
// goroutines.
type Backend struct {
	dir   string
	log   hclog.Logger
	looks []time.Duration   // see slotdir.Looks
	woken func(name string) // nil, or told of every event that wakes a contender; for tests

	mu     sync.Mutex
	admins []string          // mu
	asked  []*control.Server // of all contenders; mu
}

// New returns the backend for cfg, without touching the file system. It fails
// if cfg.Dir is not an absolute path.
func New(cfg Config) (*Backend, error) {
	dir := cfg.Dir
	if dir == "" {
		dir = DefaultDir
	}
	if !filepath.IsAbs(dir) {
		return nil, fmt.Errorf("the directory for local locks %q is not an absolute path; write it as "+
			"local:///some/dir", dir)
	}
	log := cfg.Log
	if log == nil {
		log = hclog.NewNullLogger()
	}
	return &Backend{dir: filepath.Clean(dir), admins: slices.Clone(cfg.Admins), log: log, looks: slotdir.Looks}, nil
}

// Directory returns where the locks are.
func (b *Backend) Directory() string { return b.dir }

// Lock implements lock.Backend.
func (b *Backend) Lock(id lock.ID) lock.Lock {
	dir := b.path(id)
	b.mu.Lock()
	defer b.mu.Unlock()
	asked := control.NewServer(control.Config{
		Dir: dir.SocketsPath(), Admins: b.admins, Log: b.log.With("lock", id.Name),
	})
	b.asked = append(b.asked, asked)
	return &contender{id: id, dir: dir, backend: b, asked: asked}
}

// SetAdmins implements lock.Backend. They are users of this host, by name or number; root and the user of a contender may
// ask it in any case.
func (b *Backend) SetAdmins(users []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.admins = slices.Clone(users)
	for _, s := range b.asked {
		s.SetAdmins(b.admins)
	}
}

// Administrator implements lock.Backend.
func (b *Backend) Administrator(id lock.ID) lock.Administrator {
	return &administrator{id: id, dir: b.path(id), backend: b}
}

// Inspector implements lock.Backend.
func (b *Backend) Inspector(id lock.ID) lock.Inspector { return &inspector{id: id, dir: b.path(id)} }

func (b *Backend) path(id lock.ID) slotdir.Dir {
	return slotdir.Dir(filepath.Join(b.dir, slotdir.Name(id.Name)))
}

// checkID refuses what names no lock.
func checkID(id lock.ID) error {
	switch id.Kind {
	case lock.Mutex, lock.Semaphore, lock.PersistentMutex:
		return lock.CheckName(id.Name)
	case lock.TokenSemaphore:
		return fmt.Errorf("%s needs RabbitMQ, which hands out its tokens; on this host alone use a semaphore", id)
	}
	return fmt.Errorf("the kind of lock %q is not known; use one of %v", string(id.Kind), lock.Kinds)
}

// errNoMutexAdministration answers every administrative action on a mutex.
var errNoMutexAdministration = errors.New("a mutex exists only while it is held and has no administration; " +
	"hold it, or use a persistent mutex")

// failure words what went wrong with a file or directory. otherwise is the
// sentinel for what is not a matter of permission.
func failure(what string, dir slotdir.Dir, err, otherwise error) error {
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s in %s: %w", what, dir, err)
	case errors.Is(err, lock.ErrUnsafe), errors.Is(err, lock.ErrDenied):
		return fmt.Errorf("%s: %w", what, err) // it names the path and says what to do
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS), errors.Is(err, syscall.ENAMETOOLONG):
		return fmt.Errorf("%s in %s: %w: %w; %s", what, dir, lock.ErrDenied, err, slotdir.OwnDirectory)
	case errors.Is(err, slotdir.ErrNoWatch):
		return fmt.Errorf("%s in %s: %w: %w; raise fs.inotify.max_user_watches", what, dir, otherwise, err)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("%s in %s: %w: %w; free some space on the file system of %s, "+
			"or name another directory: --broker local:///DIRECTORY", what, dir, lock.ErrUnknown, err, dir)
	case errors.Is(err, syscall.EMFILE):
		return fmt.Errorf("%s in %s: %w: %w; raise the limit of open files, or fs.inotify.max_user_instances",
			what, dir, otherwise, err)
	}
	return fmt.Errorf("%s in %s: %w: %w; see whether the directory is there and usable", what, dir, otherwise, err)
}
