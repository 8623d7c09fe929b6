package ledger

import (
	"testing"
	"time"

	"berth/lock/rabbit/transport"
)

// delivered is what the broker hands on of a message that says this.
func delivered(text string) transport.Delivery {
	return transport.Delivery{Headers: transport.Message{Headers: map[string]any{"content": text}}.Headers}
}

// Anybody who may publish can write anything into a ledger.
func FuzzRecordIsReadAsItIsWritten(f *testing.F) {
	f.Add(`{"record":"held","term":1795416686031027,"id":"x","handover_ms":10000,"host":"web1","pid":815}`)
	f.Add(`{"record":"released","term":18446744073709551615,"id":"","early":true}`)
	f.Add(`{"record":"held","term":1,"handover_ms":9223372036854775807,"copy":true}`)
	f.Add(`{"record":"held","term":0}`)
	f.Add(`null`)
	f.Fuzz(func(t *testing.T, text string) {
		r, ok := read(delivered(text))
		if !ok {
			return
		}
		if r.Term == 0 || r.Record != held && r.Record != released {
			t.Errorf("%q counts as a record", text)
		}
		if again, ok := read(transport.Delivery{Headers: r.message().Headers}); !ok || again != r {
			t.Errorf("%+v is read as %+v, %v", r, again, ok)
		}
	})
}

// Whichever client writes it, a record has nobody wait for ever, and none that is read twice says more than it did.
func FuzzHistoryIsBounded(f *testing.F) {
	f.Add(`{"record":"held","term":1,"id":"a","handover_ms":9223372036854775807}`, `{"record":"released","term":1,"id":"b"}`)
	f.Add(`{"record":"held","term":1,"id":"a","handover_ms":9223372036854776}`, `{"record":"held","term":1,"id":"b"}`)
	f.Add(`{"record":"released","term":7,"id":"a","early":true}`, `{"record":"held","term":7,"id":"a","handover_ms":-1}`)
	f.Fuzz(func(t *testing.T, first, second string) {
		const own = 10 * time.Second
		h := NewHistory("own", 0)
		var all []Record
		for _, text := range []string{first, second} {
			if r, ok := read(delivered(text)); ok {
				all = append(all, r)
				h.add(r)
			}
		}
		wait, over, highest, open := h.Wait(own), h.AllReleased(), h.Highest(), len(h.open())
		if wait < 0 || wait > maxHandover {
			t.Errorf("%+v has others wait for %v", all, wait)
		}
		for _, r := range h.open() {
			if asked := min(max(r.Handover, 0), maxHandover.Milliseconds()); wait.Milliseconds() < asked {
				t.Errorf("%+v has others wait for %v only", r, wait)
			}
		}
		if over && open > 0 {
			t.Errorf("%+v is over, though %d are not released", all, open)
		}
		for _, r := range all {
			h.add(r)
		}
		if h.Wait(own) != wait || h.AllReleased() != over || h.Highest() != highest || len(h.open()) != open {
			t.Errorf("%+v says something else the second time", all)
		}
	})
}
