package display

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"

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
	return writeJSON(w, object)
}

// writeJSON prints an object in one line. What package encoding/json leaves as it is, and a terminal does not only show,
// is escaped.
func writeJSON(w io.Writer, object any) error {
	plain, err := json.Marshal(object)
	if err != nil {
		return err
	}
	var b strings.Builder
	for _, r := range string(plain) {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		for _, half := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u%04x`, half)
		}
	}
	_, err = io.WriteString(w, b.String()+"\n")
	return err
}
