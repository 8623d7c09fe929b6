package display

import (
	"encoding/json"
	"io"
	"time"

	"berth/lock"
)

// WriteJSON prints the lock as one JSON object, in one line. Its keys are stable.
func (v View) WriteJSON(w io.Writer) error {
	object := struct {
		Kind lock.Kind `json:"kind"`
		Name string    `json:"name"`
		lock.Status
		At      time.Time `json:"at"`                // when it was looked at
		Problem string    `json:"problem,omitempty"` // why nothing newer than slots and waiting is known
	}{Kind: v.ID.Kind, Name: v.ID.Name, Status: v.Seen.Status, At: v.Seen.At}
	if object.Slots == nil {
		object.Slots = []lock.SlotStatus{}
	}
	if v.Seen.Err != nil {
		object.Problem = oneLine(v.Seen.Err.Error())
	}
	return json.NewEncoder(w).Encode(object)
}
