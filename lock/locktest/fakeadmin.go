package locktest

import (
	"context"
	"errors"
	"fmt"

	"berth/lock"
)

// fakeAdministrator implements lock.Administrator.
type fakeAdministrator struct {
	fake *Fake
	id   lock.ID
}

// do is Fake.do for what only administered kinds have.
func (a *fakeAdministrator) do(ctx context.Context, op Op, work func() error) error {
	return a.fake.do(ctx, op, a.id, func() error {
		if err := checkID(a.id); err != nil {
			return err
		}
		if !a.id.Kind.Administered() {
			return errors.New("this kind of lock has no administration")
		}
		return work()
	})
}

func (a *fakeAdministrator) Slots(ctx context.Context) (n int, err error) {
	err = a.do(ctx, Slots, func() error {
		n = a.present()
		return nil
	})
	return n, err
}

func (a *fakeAdministrator) present() (n int) {
	a.fake.place.look(a.id, func(s *state) { n = s.size(a.id.Kind) })
	return n
}

// RemoveAscending implements lock.Administrator: all slots are removed at once.
func (a *fakeAdministrator) RemoveAscending(ctx context.Context, sweep int, target func(int) (int, error)) (
	before, after int, err error) {
	return a.Resize(ctx, sweep, target)
}

func (a *fakeAdministrator) Resize(ctx context.Context, sweep int, target func(int) (int, error)) (
	before, after int, err error) {
	err = a.do(ctx, Resize, func() error {
		leave, err := a.enter(ctx)
		if err != nil {
			return err
		}
		defer leave()
		before = a.present()
		after = before
		want, err := target(before)
		if err != nil {
			return err
		}
		if want < 0 || want > lock.MaxSlots || want > 1 && a.id.Kind == lock.PersistentMutex {
			return fmt.Errorf("it cannot have %d slots", want)
		}
		a.fake.place.change(a.id, func(s *state) { s.resize(before, want, sweep) })
		after = want
		return nil
	})
	return before, after, err
}

// enter takes the administration mutex.
func (a *fakeAdministrator) enter(ctx context.Context) (leave func(), err error) {
	var admin chan struct{}
	a.fake.place.look(a.id, func(s *state) { admin = s.admin })
	select {
	case admin <- struct{}{}:
		return func() { <-admin }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", lock.ErrBusy, ctx.Err())
	}
}

func (s *state) resize(before, want, sweep int) {
	for slot := max(before, want) + max(sweep, 1); slot > want; slot-- {
		delete(s.slots, slot)
	}
	for slot := before + 1; slot <= want; slot++ {
		s.slots[slot] = true
	}
}

func (a *fakeAdministrator) AwaitVacant(ctx context.Context, from, to int) error {
	return a.do(ctx, AwaitVacant, func() error {
		for {
			vacant, changed := a.vacant(from, to)
			if vacant {
				return nil
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
}

func (a *fakeAdministrator) vacant(from, to int) (vacant bool, changed <-chan struct{}) {
	vacant = true
	a.fake.place.look(a.id, func(s *state) {
		changed = s.changed
		for slot := from; slot <= to; slot++ {
			vacant = vacant && s.holders[slot] == nil
		}
	})
	return vacant, changed
}

// Flags implements lock.Administrator.
func (a *fakeAdministrator) Flags() []string { return nil }

func (a *fakeAdministrator) Close() error { return nil }
