package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// term runs a command under the lock, to its end, and returns the term that it
// was given. The log has to say the same about the run as the command knows.
func (c contest) term() uint64 {
	c.t.Helper()
	b := c.run(`echo "$BERTH_TERM $BERTH_NAME $BERTH_SLOT $$"`)
	b.wantStatus(0)
	line := b.awaitLog("slot held, command started")
	told := strings.Join([]string{line.text("term"), line.text("lock"), line.text("slot"), line.text("pid")},
		" ") + "\n"
	if b.stdout() != told {
		c.t.Errorf("the command says %q and the log %q", b.stdout(), told)
	}
	first, _, _ := strings.Cut(b.stdout(), " ")
	term, err := strconv.ParseUint(first, 10, 63)
	if err != nil || term == 0 {
		c.t.Fatalf("BERTH_TERM is %q, no positive number of 63 bits", first)
	}
	return term
}

func TestNextHolderHasALargerTerm(t *testing.T) {
	inPlaces(t, func(t *testing.T, p place) {
		for _, kind := range []string{"mutex", "semaphore"} {
			c := p.contest(t, kind)
			if kind == "semaphore" {
				c.administer("create", "--slots=1")
			}
			var last uint64
			for range 3 {
				term := c.term()
				if term <= last {
					t.Errorf("%s: term %d was followed by %d", kind, last, term)
				}
				last = term
			}
		}
	}, everywhere...)
}

// fault: clock
//
// The clock was set back by a year, or the last holder's was ahead of ours.
func TestTermGoesOnFromOneAheadOfTheClock(t *testing.T) {
	t.Parallel()
	broker := calmBroker(t)
	c := lossCase{kind: "mutex"}.made(t, broker)
	c.term() // makes the ledger
	ahead := uint64(time.Now().AddDate(1, 0, 0).UnixMicro())
	record(t, broker.URL(), c.name+"-1-T", "held",
		fmt.Sprintf(`{"record":"held","term":%d,"handover_ms":10000,"host":"h","pid":1}`, ahead))
	record(t, broker.URL(), c.name+"-1-T", "released", fmt.Sprintf(`{"record":"released","term":%d}`, ahead))
	for want := ahead + 1; want <= ahead+2; want++ {
		if got := c.term(); got != want {
			t.Errorf("the term is %d, not %d", got, want)
		}
	}
}

// record publishes a record to a ledger that is there, as docs/protocol.md says.
func record(t testing.TB, url, ledger, kind, content string) {
	t.Helper()
	conn, err := amqp.Dial(url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err == nil {
		err = ch.Confirm(false)
	}
	if err != nil {
		t.Fatal(err)
	}
	returned := ch.NotifyReturn(make(chan amqp.Return, 1))
	confirm, err := ch.PublishWithDeferredConfirmWithContext(t.Context(), "", ledger, true, false,
		amqp.Publishing{Type: kind, UserId: "guest", DeliveryMode: amqp.Persistent, Headers: amqp.Table{"content": content}})
	if err != nil {
		t.Fatal(err)
	}
	if acked, err := confirm.WaitContext(t.Context()); err != nil || !acked || len(returned) > 0 {
		t.Fatalf("the record was not taken: acked %v, returned %d, %v", acked, len(returned), err)
	}
}
