package control

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"berth/lock"
)

const (
	maxRequest  = 4 << 10  // bytes; the longest there is takes 40
	maxResponse = 64 << 10 // bytes; a report takes 500
)

// request is the one line that a client sends, in JSON.
type request struct {
	Request lock.Verb `json:"request"`
	Slot    int       `json:"slot,omitempty"` // that the server has to hold; 0: whatever it does
}

// response is the one line that comes back. One of the three is there.
type response struct {
	Answer  json.RawMessage `json:"answer,omitempty"`
	Refused string          `json:"refused,omitempty"` // why this request is none, or none for this contender
	Denied  string          `json:"denied,omitempty"`  // why this user may not ask
}

var errMalformed = errors.New(`it is not one line such as {"request":"status"}`)

// readRequest reads a request, and nothing that comes after it.
func readRequest(from io.Reader) (request, error) {
	in := bufio.NewReaderSize(from, maxRequest)
	line, err := in.ReadSlice('\n')
	if err != nil || in.Buffered() > 0 {
		return request{}, errMalformed
	}
	var r request
	if json.Unmarshal(line, &r) != nil || r.Slot < 0 || r.Slot > lock.MaxSlots {
		return request{}, errMalformed
	}
	if !r.Request.Known() {
		return request{}, fmt.Errorf("%.20q is not a request", string(r.Request))
	}
	return r, nil
}

func readResponse(from io.Reader) (response, error) {
	line, err := bufio.NewReader(io.LimitReader(from, maxResponse)).ReadBytes('\n')
	if err != nil {
		return response{}, err
	}
	var r response
	if err := json.Unmarshal(line, &r); err != nil {
		return response{}, err
	}
	if r.Answer == nil && r.Refused == "" && r.Denied == "" {
		return response{}, errors.New("the answer is empty")
	}
	return r, nil
}

// send writes a line of JSON.
func send(to io.Writer, what any) error {
	return json.NewEncoder(to).Encode(what)
}
