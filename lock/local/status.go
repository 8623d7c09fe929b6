package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"berth/internal/control"
	"berth/lock"
	"berth/lock/local/slotdir"
)

const (
	// lookPatience is for all who are asked in one look.
	lookPatience = 1500 * time.Millisecond
	// looksAtOnce is how many are asked at once.
	looksAtOnce = 32
)

// inspector implements lock.Inspector. It keeps nothing open between two calls.
type inspector struct {
	id  lock.ID
	dir slotdir.Dir
}

// Look asks those who have a slot, and looks at the slots of those who do not answer. Who has just won a slot does not
// listen yet, and is given the time to.
func (i *inspector) Look(ctx context.Context) (lock.Status, error) {
	if err := checkID(i.id); err != nil {
		return lock.Status{}, err
	}
	var status lock.Status
	var err error
	control.Patiently(ctx, func() (early bool) {
		status, early, err = i.look(ctx)
		return early && err == nil
	})
	if err = cmp.Or(err, ctx.Err()); err != nil {
		return lock.Status{}, i.failure("cannot look at "+i.id.String(), err)
	}
	return status, nil
}

// look returns what is known now, and whether more will soon be.
func (i *inspector) look(ctx context.Context) (lock.Status, bool, error) {
	slots, client, err := i.open(ctx)
	if err != nil {
		return lock.Status{}, false, err
	}
	asked, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	all, err := client.List()
	status := lock.Status{Slots: make([]lock.SlotStatus, slots)}
	if err != nil {
		status.Waiting = -1
	}
	bySlot := make(map[int][]control.Socket, len(all))
	for _, s := range all {
		bySlot[s.Slot] = append(bySlot[s.Slot], s)
	}
	var mu sync.Mutex
	waits := false
	atOnce := make(chan struct{}, looksAtOnce)
	var work sync.WaitGroup
	do := func(what func()) {
		atOnce <- struct{}{}
		work.Go(func() {
			what()
			<-atOnce
		})
	}
	for n := range status.Slots {
		do(func() {
			slot, none := i.slot(asked, client, n+1, bySlot[n+1])
			mu.Lock()
			defer mu.Unlock()
			status.Slots[n] = slot
			waits = waits || none
		})
	}
	for _, s := range bySlot[0] {
		do(func() {
			if client.Listens(asked, s) {
				mu.Lock()
				defer mu.Unlock()
				status.Waiting++
			}
		})
	}
	work.Wait()
	return status, waits, ctx.Err()
}

// slot returns what is known of a slot, given the sockets that are named after it, and whether it is held by somebody
// who has none.
func (i *inspector) slot(ctx context.Context, client control.Client, slot int, of []control.Socket) (
	found lock.SlotStatus, none bool) {
	found = lock.SlotStatus{Slot: slot, State: lock.SlotHeld}
	because := errNoSocket
	for _, s := range of {
		var report lock.Report
		answer, err := client.Ask(ctx, s, slot, lock.AskStatus)
		if err == nil {
			report, err = lock.ReadReport(answer)
		}
		if err != nil {
			because = telling(because, err)
			continue
		}
		// Beside who holds the slot there may be one that has not yet noticed that its guard has given it back.
		if found.Holder == nil || report.Term > found.Holder.Term {
			found.Holder = &report
		}
	}
	if found.Holder != nil {
		return found, false
	}
	free, err := i.dir.Vacant(slot)
	switch {
	case errors.Is(err, fs.ErrPermission):
		found.State, found.Problem = lock.SlotUnknown, "only the owner of "+string(i.dir)+" can see whether it is held"
	case err != nil:
		found.State, found.Problem = lock.SlotUnknown, err.Error()
	case free:
		found.State = lock.SlotFree
	default:
		found.Problem = i.silent(slot, because)
	}
	return found, found.State == lock.SlotHeld && errors.Is(because, errNoSocket)
}

// errNoSocket: there is nothing to ask the holder over.
var errNoSocket = errors.New("it has no socket, as in the first moment of a holding")

// telling returns which of two reasons says more. Sockets of the dead stay for a while, and say nothing of who lives.
func telling(before, now error) error {
	if errors.Is(now, control.ErrDead) && !errors.Is(before, errNoSocket) {
		return before
	}
	return now
}

// silent says why the holder of a slot has not answered.
func (i *inspector) silent(slot int, because error) string {
	holder := "its holder"
	if term := i.dir.LastTerm(slot); term != 0 {
		holder = fmt.Sprintf("its holder, of term %d,", term)
	}
	switch {
	case errors.Is(because, control.ErrDead):
		return holder + " was killed, and what it ran is being ended"
	case errors.Is(because, errNoSocket):
		return holder + " cannot be asked: " + because.Error()
	case errors.Is(because, context.DeadlineExceeded), errors.Is(because, io.EOF): // it gave up, or who asked did
		return holder + " does not answer"
	}
	return holder + " does not answer: " + because.Error()
}

// Ask asks the holder of a slot.
func (i *inspector) Ask(ctx context.Context, slot int, verb lock.Verb) ([]byte, error) {
	what := fmt.Sprintf("cannot ask the holder of slot %d of %s", slot, i.id)
	if slot < 1 || slot > lock.MaxSlots {
		return nil, fmt.Errorf("%s: slots are counted from 1 to %d", what, lock.MaxSlots)
	}
	if err := checkID(i.id); err != nil {
		return nil, err
	}
	var answer []byte
	var err error
	control.Patiently(ctx, func() (early bool) {
		answer, early, err = i.ask(ctx, slot, verb)
		return early
	})
	if err != nil {
		return nil, i.failure(what, err)
	}
	return answer, nil
}

// ask returns the answer of a slot's holder, or whether there soon may be a way to ask.
func (i *inspector) ask(ctx context.Context, slot int, verb lock.Verb) (answer []byte, waits bool, err error) {
	_, client, err := i.open(ctx)
	if err != nil {
		return nil, false, err
	}
	all, err := client.List()
	if err != nil {
		return nil, false, err
	}
	because := errNoSocket
	all = slices.DeleteFunc(all, func(s control.Socket) bool { return s.Slot != slot })
	for n, s := range all {
		asked, cancel := ctx, context.CancelFunc(func() {})
		if n < len(all)-1 { // another one may be the holder
			asked, cancel = context.WithTimeout(ctx, lookPatience)
		}
		answer, err := client.Ask(asked, s, slot, verb)
		cancel()
		if err == nil {
			return answer, false, nil
		}
		because = telling(because, err)
	}
	if free, err := i.dir.Vacant(slot); err == nil && free {
		return nil, false, lock.Errorf(lock.ErrAbsent, "it is not held")
	}
	if errors.Is(because, lock.ErrDenied) {
		return nil, false, because
	}
	return nil, errors.Is(because, errNoSocket), lock.Errorf(lock.ErrUnknown, "%s", i.silent(slot, because))
}

// open returns how many slots there are, and who can ask those who hold them. There is no lock where its
// directory is not; a mutex has its slot all the same.
func (i *inspector) open(ctx context.Context) (slots int, client control.Client, err error) {
	if err := ctx.Err(); err != nil {
		return 0, client, err
	}
	owner, err := i.dir.TrustToLook()
	if err == nil {
		slots, err = slotsOf(i.id, i.dir)
	}
	if slotdir.Gone(err) {
		slots, err = 0, nil
		if i.id.Kind == lock.Mutex {
			slots = 1
		}
	}
	return slots, control.Client{Dir: i.dir.SocketsPath(), Owners: []int{0, os.Geteuid(), owner}}, err
}

func (i *inspector) failure(what string, err error) error {
	if errors.Is(err, lock.ErrUnknown) || errors.Is(err, lock.ErrAbsent) || errors.Is(err, lock.ErrDenied) {
		return fmt.Errorf("%s: %w", what, err)
	}
	return failure(what, i.dir, err, lock.ErrUnknown)
}

// Close has nothing to give up.
func (i *inspector) Close() error { return nil }
