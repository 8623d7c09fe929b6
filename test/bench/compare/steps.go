package compare

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"berth/test/bench/measure"
	"berth/test/bench/report"
)

// parts of a handover, each up to a line of berth's trace log. The first begins with
// the last act of the holder's command, and after the last one comes the first
// instruction of the waiter's.
var parts = []struct {
	title  string
	holder bool   // whose log has the line: the holder's or the waiter's
	event  string // of the line's change of state, see docs/states.md
}{
	{"The command's end is seen, its tree is dead, the supervisor knows", true, "tree died"},
	{"The slot is given back, the waiter is woken", false, "woken"},
	{"Claim, with the first record; attempts in vain among it", false, "acquired"},
	{"Records, proof that the slot is ours", false, "ready and verified"},
}

// steps takes handovers apart, by what both berths write into their logs.
func (a *Arena) steps(ctx context.Context) ([]*report.Measure, error) {
	var measures []*report.Measure
	for _, p := range parts {
		measures = append(measures, &report.Measure{Title: p.title, Unit: "ms", Alone: true})
	}
	last := &report.Measure{Title: "Order to the guard, fork, exec, first instruction", Unit: "ms", Alone: true}
	all := &report.Measure{Title: "All of it, with the log that this is read from", Unit: "ms", Alone: true}
	var traced []*program
	for _, p := range a.programs {
		if p.traced != nil {
			traced = append(traced, p)
		}
	}
	err := a.rounds(ctx, a.sizes.Rounds, traced, func(_ int, p *program) error {
		h, moments, err := a.traceHandover(ctx, p)
		if err != nil {
			return err
		}
		since := h.ended
		for i, moment := range moments {
			measures[i].Add(p.name, measure.Milliseconds(moment-since))
			since = moment
		}
		last.Add(p.name, measure.Milliseconds(h.started-since))
		all.Add(p.name, measure.Milliseconds(h.started-h.ended))
		return nil
	})
	return append(measures, last, all), err
}

// traceHandover has a lock go from a holder to a waiter, and returns when each of
// parts was over.
func (a *Arena) traceHandover(ctx context.Context, p *program) (h handedOver, moments []int64, err error) {
	if h, err = a.handOver(ctx, p, p.traced); err != nil {
		return h, nil, err
	}
	holder, err := os.ReadFile(h.holderLog)
	if err != nil {
		return h, nil, err
	}
	waiter, err := os.ReadFile(h.waiterLog)
	if err != nil {
		return h, nil, err
	}
	moments, err = readParts(holder, waiter, measure.AtWallClock)
	if err != nil {
		err = fmt.Errorf("cannot follow a handover of %s: %w", p.name, err)
	}
	return h, moments, err
}

// readParts finds when each of parts was over in the logs of a holder and a waiter;
// clock converts their times. A waiter is woken, and tries, before there is anything
// to win as well: a part is over with the first line after the part before it, but
// the attempt that counts is the one that won.
func readParts(holder, waiter []byte, clock func(time.Time) int64) ([]int64, error) {
	var moments []int64
	var since time.Time
	for _, p := range parts {
		log := waiter
		if p.holder {
			log = holder
		}
		moment, err := findEvent(log, p.event, since)
		if err != nil {
			return nil, err
		}
		since = moment
		moments = append(moments, clock(moment))
	}
	return moments, nil
}

// findEvent returns when a log says, not before since, that an event has changed the
// supervisor's state.
func findEvent(log []byte, event string, since time.Time) (time.Time, error) {
	for line := range bytes.Lines(log) {
		var entry struct {
			Time    time.Time `json:"@timestamp"`
			Message string    `json:"@message"`
			Event   string    `json:"event"`
		}
		if err := json.Unmarshal(line, &entry); err != nil {
			return time.Time{}, fmt.Errorf("berth wrote %q and not a line of JSON: %w", line, err)
		}
		if entry.Message == "state" && entry.Event == event && !entry.Time.Before(since) {
			return entry.Time, nil
		}
	}
	return time.Time{}, fmt.Errorf("no line tells of the event %q after %s; has it another name now "+
		"(docs/states.md)?\n%s",
		event, since.Format(time.RFC3339Nano), log)
}
