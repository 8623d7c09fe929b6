package locktest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"berth/lock"
)

const (
	// asker is who asks, as the holders of a fake are told.
	asker = "tester"
	// answerTime is how long Look waits for who holds a slot.
	answerTime = time.Second
)

// fakeInspector implements lock.Inspector.
type fakeInspector struct {
	fake *Fake
	id   lock.ID
}

func (i *fakeInspector) Look(ctx context.Context) (now lock.Status, err error) {
	err = i.fake.do(ctx, Look, i.id, func() error {
		if err := checkID(i.id); err != nil {
			return err
		}
		holders := i.holders()
		for _, slot := range slices.Sorted(maps.Keys(holders)) {
			now.Slots = append(now.Slots, i.slot(ctx, slot, holders[slot]))
		}
		return nil
	})
	return now, err
}

// holders are those of the slots that exist; nil: it is free.
func (i *fakeInspector) holders() map[int]*fakeLock {
	holders := map[int]*fakeLock{}
	i.fake.place.look(i.id, func(s *state) {
		for slot := range s.size(i.id.Kind) {
			holders[slot+1] = s.holders[slot+1]
		}
	})
	return holders
}

// slot is what is known of one: who holds it is asked.
func (i *fakeInspector) slot(ctx context.Context, slot int, holder *fakeLock) lock.SlotStatus {
	now := lock.SlotStatus{Slot: slot, State: lock.SlotFree}
	if holder == nil {
		return now
	}
	now.State = lock.SlotHeld
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	report := &lock.Report{}
	answer, err := holder.fake.ask(ctx, lock.AskStatus)
	if err == nil {
		err = json.Unmarshal(answer, report)
	}
	if err != nil {
		now.Problem = "the holder does not answer"
		return now
	}
	now.Holder = report
	return now
}

func (i *fakeInspector) Ask(ctx context.Context, slot int, verb lock.Verb) (answer []byte, err error) {
	err = i.fake.do(ctx, Ask, i.id, func() error {
		holder := i.holders()[slot]
		if holder == nil {
			return fmt.Errorf("slot %d: %w", slot, lock.ErrAbsent)
		}
		answer, err = holder.fake.ask(ctx, verb)
		return err
	})
	return answer, err
}

func (i *fakeInspector) Close() error { return nil }

// ask hands a request to a receiver from Requests of this fake's contenders, and returns the answer.
func (f *Fake) ask(ctx context.Context, verb lock.Verb) ([]byte, error) {
	answers := make(chan []byte, 1)
	request := lock.Request{Verb: verb, From: asker, Reply: func(_ context.Context, answer []byte) error {
		answers <- answer
		return nil
	}}
	select {
	case f.requests <- request:
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: the request went to no berth", lock.ErrUnknown)
	}
	select {
	case answer := <-answers:
		return answer, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: no answer", lock.ErrUnknown)
	}
}
