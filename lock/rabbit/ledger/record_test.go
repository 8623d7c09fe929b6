package ledger

import (
	"math"
	"strings"
	"testing"
	"time"

	"berth/lock/rabbit/transport"
)

func TestRecordSaysWhoHoldsTheSlot(t *testing.T) {
	who := Holding{7, "id"}
	m := who.Held(1500*time.Millisecond, "web1", 815).message()
	want := Record{Record: "held", Holding: who, Handover: 1500, Host: "web1", PID: 815}
	if got, ok := read(transport.Delivery{Headers: m.Headers}); !ok || got != want {
		t.Errorf("%+v, %v", got, ok)
	}
	if m.Type != "held" || m.DeliveryMode != transport.Persistent {
		t.Errorf("type %q, mode %d: a restart of the broker would lose it", m.Type, m.DeliveryMode)
	}
}

func TestReleaseSaysWhetherItIsEarly(t *testing.T) {
	who := Holding{7, "id"}
	for _, early := range []bool{false, true} {
		want := Record{Record: "released", Holding: who, Early: early}
		if got, ok := read(transport.Delivery{Headers: who.Released(early).Headers}); !ok || got != want {
			t.Errorf("%+v, %v", got, ok)
		}
	}
}

// What is longer is no record: a host with a longer name must not write one.
func TestNameOfAHostFitsIntoARecord(t *testing.T) {
	for host, want := range map[string]string{
		strings.Repeat("h", 255):       strings.Repeat("h", 255),
		strings.Repeat("h", 256):       strings.Repeat("h", 255),
		strings.Repeat("h", 254) + "é": strings.Repeat("h", 254),
	} {
		r := Holding{7, "id"}.Held(0, host, 1)
		if r.Host != want {
			t.Errorf("%d bytes of %d", len(r.Host), len(host))
		}
		if _, ok := read(transport.Delivery{Headers: r.message().Headers}); !ok {
			t.Errorf("%d bytes are no record", len(host))
		}
	}
}

func TestWhatIsNoRecord(t *testing.T) {
	long := func(id, host int) Record {
		return Record{Record: held, Holding: Holding{7, strings.Repeat("i", id)}, Host: strings.Repeat("h", host)}
	}
	for name, c := range map[string]struct {
		r  Record
		ok bool
	}{
		"a name that is as long as one can be": {long(64, 255), true},
		"a longer one":                         {long(65, 1), false},
		"a host's that is longer":              {long(1, 256), false},
		"no term":                              {Record{Record: held}, false},
		"a release without a term":             {Record{Record: released}, false},
		"something else":                       {Record{Record: "knock", Holding: Holding{7, "id"}}, false},
	} {
		got, ok := read(transport.Delivery{Headers: c.r.message().Headers})
		if ok != c.ok {
			t.Errorf("%s: %+v, %v", name, got, ok)
		}
	}
	for _, text := range []string{"nothing", `{"record":"held","term":7,"id":"id","pid":"none"}`} {
		if r, ok := read(delivered(text)); ok || r != (Record{}) {
			t.Errorf("%s: %+v, %v", text, r, ok)
		}
	}
}

func TestRecordHasNobodyWaitForLessThanNoTime(t *testing.T) {
	for ms, want := range map[int64]time.Duration{
		-1: 0, 0: 0, 1: time.Millisecond, 60_000: time.Minute, 60_001: time.Minute, math.MaxInt64: time.Minute,
	} {
		if got := (Record{Handover: ms}).handover(time.Minute); got != want {
			t.Errorf("%d ms: %v, not %v", ms, got, want)
		}
	}
}
