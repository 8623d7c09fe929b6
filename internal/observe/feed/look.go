package feed

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"berth/lock"
)

const (
	// lookPause is the least time from one look to the next, whichever client asks.
	lookPause = time.Second

	// lookTime bounds a look: one waits a second or two for who does not answer.
	lookTime = 5 * time.Second

	// idle is for how long nobody has to ask before the connections are given up that a look takes.
	idle = 10 * time.Second

	// maxSlots is how many slots are told of.
	maxSlots = 20

	// maxWord is how much is told of what others say of themselves.
	maxWord = 200
)

// Look is what was last seen of the others. It is told while no slot is held.
type Look struct {
	At      time.Time         `json:"at"`
	Slots   []lock.SlotStatus `json:"slots"`
	More    int               `json:"more,omitempty"`    // slots that there are beside those
	Waiting int               `json:"waiting"`           // as lock.Status has it
	Problem string            `json:"problem,omitempty"` // why nothing was seen
}

// lookWhenAsked has the lock looked at, until Close.
func (f *Feed) lookWhenAsked(asked *os.File) {
	var ctx context.Context
	ctx, f.unlook = context.WithCancel(context.Background())
	f.looked = make(chan struct{})
	go f.look(ctx, asked)
}

// look looks at the lock whenever somebody has asked, until ctx ends or nobody can ask any more.
func (f *Feed) look(ctx context.Context, asked *os.File) {
	defer close(f.looked)
	defer asked.Close()
	defer context.AfterFunc(ctx, func() { asked.Close() })()
	var inspector lock.Inspector // nil: it is not needed
	forget := func() {
		if inspector != nil {
			_ = inspector.Close()
			inspector = nil
		}
	}
	defer forget()
	for questions := make([]byte, 64); ; {
		if inspector != nil {
			_ = asked.SetReadDeadline(time.Now().Add(idle))
		}
		_, err := asked.Read(questions)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			forget()
			f.change(func() { f.said.Look = Look{} }) // it gets old
			_ = asked.SetReadDeadline(time.Time{})
			continue
		case err != nil:
			return
		case f.cfg.Inspector == nil, f.holds(): // who holds a slot is asked itself
			continue
		}
		if inspector == nil {
			inspector = f.cfg.Inspector()
		}
		seen := see(ctx, inspector)
		f.change(func() {
			if f.now.Slot == 0 && ctx.Err() == nil { // still
				f.said.Look = seen
			}
		})
		select {
		case <-time.After(lookPause):
		case <-ctx.Done():
		}
	}
}

// holds reports whether a slot is held.
func (f *Feed) holds() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now.Slot != 0
}

// see is one look.
func see(ctx context.Context, inspector lock.Inspector) Look {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	status, err := inspector.Look(ctx)
	if err != nil {
		why := strings.Join(strings.Fields(err.Error()), " ")
		return Look{At: time.Now(), Slots: []lock.SlotStatus{}, Waiting: -1, Problem: why}
	}
	shown := append([]lock.SlotStatus{}, status.Slots[:min(len(status.Slots), maxSlots)]...)
	for i, s := range shown {
		shown[i].Holder, shown[i].Successor = bounded(s.Holder), bounded(s.Successor)
	}
	return Look{
		At: time.Now(), Slots: shown, More: len(status.Slots) - len(shown),
		Waiting: status.Waiting,
	}
}

// bounded is a report whose words are not endless.
func bounded(r *lock.Report) *lock.Report {
	if r == nil {
		return nil
	}
	short := *r
	for _, s := range []*string{
		&short.Holder, &short.Host, &short.Version, &short.State, &short.Command, &short.Health, &short.Trouble,
	} {
		if letters := []rune(*s); len(letters) > maxWord {
			*s = string(letters[:maxWord]) + "..."
		}
	}
	return &short
}
