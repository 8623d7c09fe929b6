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
	line   string // its message, or the event of a change of state, see docs/states.md
}{
	{"The command's end is seen", true, "command ended"},
	{"Its tree is dead, the supervisor knows", true, "tree died"},
	{"\"released\" published and delivered; on local the slot given back", false, "woken"},
	{"The slot is the waiter's; on local claimed", false, "acquired"},
	{"Proof and term at hand, or decided", false, "ready and verified"},
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
			if moment == 0 {
				continue
			}
			measures[i].Add(p.name, measure.Milliseconds(moment-since))
			since = moment
		}
		last.Add(p.name, measure.Milliseconds(h.started-since))
		all.Add(p.name, measure.Milliseconds(h.started-h.ended))
		return nil
	})
	for _, m := range measures {
		for _, p := range traced {
			if len(m.Of(p.name).Samples) == 0 {
				m.Of(p.name).Text = "done before"
			}
		}
	}
	return append(measures, last, all), err
}

// traceHandover has a lock go from a holder to a waiter, and returns when each of
// parts was over, see readParts.
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
// clock converts their times. A part that was over before the one ahead of it, because
// the waiter had done it while the holder still ran, is 0.
//
// A waiter is woken, and tries, before there is anything to win as well: a part is over
// with the first line after the part ahead of it, but the attempt that counts is the
// one that won.
func readParts(holder, waiter []byte, clock func(time.Time) int64) ([]int64, error) {
	moments := make([]int64, len(parts))
	var since time.Time
	for i, p := range parts {
		log := waiter
		if p.holder {
			log = holder
		}
		moment, err := findLine(log, p.line, since)
		if err != nil {
			return nil, err
		}
		if !moment.IsZero() {
			since, moments[i] = moment, clock(moment)
		}
	}
	return moments, nil
}

// findLine returns when a log has a line, not before since; zero if it has it only
// earlier. A log without it is an error.
func findLine(log []byte, wanted string, since time.Time) (time.Time, error) {
	found := false
	for line := range bytes.Lines(log) {
		var entry struct {
			Time    time.Time `json:"@timestamp"`
			Message string    `json:"@message"`
			Event   string    `json:"event"`
		}
		if err := json.Unmarshal(line, &entry); err != nil {
			return time.Time{}, fmt.Errorf("berth wrote %q and not a line of JSON: %w", line, err)
		}
		if entry.Message != wanted && (entry.Message != "state" || entry.Event != wanted) {
			continue
		}
		found = true
		if !entry.Time.Before(since) {
			return entry.Time, nil
		}
	}
	if !found {
		return time.Time{}, fmt.Errorf("no line tells of %q; has it another name now (docs/states.md)?\n%s", wanted, log)
	}
	return time.Time{}, nil
}
