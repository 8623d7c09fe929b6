package history_test

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"

	"berth/prover/history"
)

func TestHistoryIsReadAsItWasWritten(t *testing.T) {
	h := history.History{
		{Kind: history.Lock, Lock: "p17", Slots: 2, Faults: []string{"kill", "cut"}},
		{Kind: history.Client, Client: "c1", Until: 9, Status: 75},
		{Kind: history.Client, Client: "c2", At: 1},
		{Kind: history.Life, Client: "c1", Run: "c1.1", PID: 4711, Slot: 1, Term: 7, At: 2, Until: 8},
		{Kind: history.Life, Client: "c1", Run: "c1.1", PID: 4712, At: 3, Until: 9},
		{Kind: history.Life, Client: "c1", Run: "c1.2", Slot: 2, Term: 9, At: 9, Until: 9, Status: 7, Worked: true},
		{Kind: history.Update, Run: "c1.1", At: 2, Until: 7, Wrote: 5},
		{Kind: history.Update, Run: "c1.1", At: 7, Until: 8, Read: 5, Wrote: 6, Refused: true},
		{Kind: history.Fault, Fault: "kill", Target: "c1", At: 8, Until: 8},
		{Kind: history.Fault, Fault: "resize", Failed: "status 1", Allows: []string{"overlap"}, At: 8, Until: 9},
		{Kind: history.Fault, Fault: "stop", Target: "c1", At: 8, Until: 8, Lasts: 7},
		{Kind: history.Leftover, Client: "c1", PID: 4712, At: 9},
	}
	var text bytes.Buffer
	if err := history.Write(&text, h); err != nil {
		t.Fatal(err)
	}
	read, err := history.Read(strings.NewReader("\n" + text.String() + "  \n"))
	if err != nil || !reflect.DeepEqual(read, h) {
		t.Errorf("%v, %v", read, err)
	}
}

func TestLastLineNeedsNoEnd(t *testing.T) {
	read, err := history.Read(strings.NewReader(`{"kind":"lock","slots":1}`))
	if err != nil || len(read) != 1 {
		t.Errorf("%v, %v", read, err)
	}
}

func TestWhatIsNoEventIsRefusedWithItsLine(t *testing.T) {
	const good = `{"kind":"lock","slots":1}` + "\n"
	for line, want := range map[string]string{
		`kind: lock`:                                                        "not an event in JSON",
		`{"kind":"lock","slots":1`:                                          "not an event in JSON",
		`{"kind":"lock","slots":"1"}`:                                       "not an event in JSON",
		`{"kind":"client","cleint":"c1"}`:                                   `unknown field "cleint"`,
		`{"kind":"client","client":"c1"} {}`:                                "more than one event",
		`{"kind":"live","client":"c1"}`:                                     `the kind is "live"`,
		`{}`:                                                                `the kind is ""`,
		`{"kind":"lock","slots":1}`:                                         "a second lock",
		`{"kind":"client"}`:                                                 `a client needs "client"`,
		`{"kind":"life","client":"c","at":1}`:                               "a life needs",
		`{"kind":"fault","at":1,"until":2}`:                                 `a fault needs "fault"`,
		`{"kind":"leftover","client":"c"}`:                                  `a leftover needs "pid"`,
		`{"kind":"fault","fault":"x","at":1}`:                               `a fault needs "until"`,
		`{"kind":"fault","fault":"x","at":2,"until":1}`:                     "from 2 until 1",
		`{"kind":"client","client":"c","at":-1}`:                            "from -1",
		`{"kind":"client","client":"c","at":3,"until":2}`:                   "from 3 until 2",
		`{"kind":"life","client":"c","run":"r","at":1,"until":2,"slot":-1}`: "slots and pids count from 1",
		`{"kind":"leftover","client":"c","pid":-1}`:                         "slots and pids count from 1",
		`{"kind":"fault","fault":"kill","client":"c","until":2}`:            `a fault has no "client"`,
		`{"kind":"leftover","client":"c","pid":1,"status":1}`:               `a leftover has no "status"`,
		`{"kind":"client","client":"c","worked":true}`:                      `a client has no "worked"`,
		`{"kind":"update","at":1,"until":2,"wrote":3}`:                      `an update needs "run"`,
		`{"kind":"update","run":"r","until":2,"read":3}`:                    `an update needs "wrote"`,
		`{"kind":"update","run":"r","until":2,"read":3,"wrote":3}`:          "an update that read 3 and wrote 3",
		`{"kind":"client","client":"c","allows":["overlap"]}`:               `a client has no "allows"`,
	} {
		h, err := history.Read(strings.NewReader(good + line + "\n"))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "line 2 ") {
			t.Errorf("%s: read as %v, %v; want %q", line, h, err, want)
		}
	}
}

// What a line contradicts stands before it, and others between them.
func TestContradictionIsRefusedWithItsLine(t *testing.T) {
	const before = `{"kind":"client","client":"c"}
{"kind":"life","client":"c","run":"r","until":2}
{"kind":"life","client":"c","run":"r","until":2,"slot":1,"term":7,"status":7}
{"kind":"life","client":"c","run":"r","until":2}
`
	for line, want := range map[string]string{
		`{"kind":"client","client":"c","at":9}`:                         `a second client "c"`,
		`{"kind":"life","client":"d","run":"r","until":2}`:              `has client "d"`,
		`{"kind":"life","client":"c","run":"r","until":2,"slot":2}`:     "has client \"c\", slot 2",
		`{"kind":"life","client":"c","run":"r","until":2,"term":8}`:     "slot 0, term 8 and status 0, and had",
		`{"kind":"life","client":"c","run":"r","until":2,"status":8}`:   "term 0 and status 8, and had",
		`{"kind":"life","client":"c","run":"s","until":2,"term":8}`:     "",
		`{"kind":"leftover","client":"c","pid":1}`:                      "",
		`{"kind":"life","client":"c","run":"r","pid":9,"until":2}`:      "",
		`{"kind":"client","client":"r"}`:                                "",
		`{"kind":"life","client":"c","run":"c","until":2}`:              "",
		`{"kind":"fault","fault":"kill","target":"c","at":1,"until":2}`: "",
	} {
		_, err := history.Read(strings.NewReader(before + line))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), "line 5 ")) {
			t.Errorf("%s: %v; want %q", line, err, want)
		}
	}
}

func TestLockNeedsSlots(t *testing.T) {
	if _, err := history.Read(strings.NewReader(`{"kind":"lock","lock":"a"}`)); err == nil ||
		!strings.Contains(err.Error(), `a lock needs "slots"`) {
		t.Errorf("%v", err)
	}
}

func TestClockGoesOn(t *testing.T) {
	before := history.Now()
	time.Sleep(time.Millisecond)
	if passed := history.Now() - before; passed < int64(time.Millisecond) {
		t.Errorf("only %d ns", passed)
	}
}
