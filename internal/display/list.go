package display

import (
	"fmt"
	"io"

	"berth/lock"
)

// WriteList prints locks, one a line. Of one that was not looked at it prints the name.
func WriteList(w io.Writer, locks []View) error {
	for _, v := range locks {
		line := v.ID.String()
		if problems := v.Problems(); v.Seen.Err != nil {
			line += ": " + problems[0]
		} else if v.looked() {
			line = v.Summary()
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}

// WriteJSONList prints locks as one JSON object, in one line. Its keys are stable.
func WriteJSONList(w io.Writer, locks []View) error {
	type one struct {
		Kind lock.Kind `json:"kind"`
		Name string    `json:"name"`
		*lock.Status
		Problem string `json:"problem,omitempty"` // why nothing is known
	}
	object := struct {
		Locks []one `json:"locks"`
	}{Locks: []one{}}
	for _, v := range locks {
		o := one{Kind: v.ID.Kind, Name: v.ID.Name}
		if v.Seen.Err != nil {
			o.Problem = oneLine(v.Seen.Err.Error())
		} else if v.looked() {
			o.Status = &v.Seen.Status
		}
		object.Locks = append(object.Locks, o)
	}
	return writeJSON(w, object)
}

// looked reports whether anything is known of the lock but its name.
func (v View) looked() bool { return len(v.Seen.Status.Slots) > 0 }
