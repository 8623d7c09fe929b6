package cli

import (
	"cmp"
	"fmt"
	"io"

	"berth/internal/inquire"
	"berth/internal/logging"
	"berth/lock"
)

// result is what a request to a holder has come to. Its keys in JSON are stable.
type result struct {
	Kind     lock.Kind    `json:"kind"`
	Name     string       `json:"name"`
	Slot     int          `json:"slot"` // 0: it was not named, and nobody has answered
	Accepted bool         `json:"heeded"`
	Why      string       `json:"why,omitempty"`
	From     *lock.Report `json:"from,omitempty"`     // who was asked
	To       *lock.Report `json:"to,omitempty"`       // who runs now, with --wait
	After    *int64       `json:"after_ms,omitempty"` // from the request to that
	Gap      *int64       `json:"gap_ms,omitempty"`   // how long the slot was nobody's, at most
}

// newResult is for a request about a slot, 0: the only one that is held. It returns why the request is not accepted, too.
func newResult(id lock.ID, slot int, asked inquire.Asked, err error) (*result, error) {
	r := &result{Kind: id.Kind, Name: id.Name, Slot: cmp.Or(asked.Slot, slot), From: asked.Holder}
	if err != nil {
		r.Why = logging.OneLine(err)
		return r, err
	}
	r.Accepted, r.Why = asked.Decision.Accepted, asked.Decision.Why
	if !r.Accepted {
		err = lock.Errorf(errRefused, "slot %d of %s: the holder (%s) refuses: %s", r.Slot, id,
			inquire.Who(r.From), inquire.Reason(r.Why))
	}
	return r, err
}

func (r *result) say(w io.Writer, format string, args ...any) error {
	_, err := fmt.Fprintf(w, "%s: slot %d: %s\n", lock.ID{Kind: r.Kind, Name: r.Name}, r.Slot,
		fmt.Sprintf(format, args...))
	return err
}

// by names a berth at the beginning of a sentence.
func by(r *lock.Report) string {
	if r == nil {
		return "the holder"
	}
	return fmt.Sprintf("%s (pid %d)", inquire.Printable(r.Host), r.PID)
}
