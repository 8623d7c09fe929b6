package display

import (
	"encoding/json"
	"fmt"
	"io"

	"berth/lock"
)

// WriteList prints locks, one a line.
func WriteList(w io.Writer, ids []lock.ID) error {
	for _, id := range ids {
		if _, err := fmt.Fprintln(w, id); err != nil {
			return err
		}
	}
	return nil
}

// WriteJSONList prints locks as one JSON object, in one line. Its keys are stable.
func WriteJSONList(w io.Writer, ids []lock.ID) error {
	type one struct {
		Kind lock.Kind `json:"kind"`
		Name string    `json:"name"`
	}
	object := struct {
		Locks []one `json:"locks"`
	}{Locks: []one{}}
	for _, id := range ids {
		object.Locks = append(object.Locks, one(id))
	}
	return json.NewEncoder(w).Encode(object)
}
