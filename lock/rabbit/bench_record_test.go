package rabbit_test

import (
	"context"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// What a command waits for before it starts: a record in a ledger, confirmed.
// berth writes persistent ones. Without berth.
func BenchmarkRecord(b *testing.B) {
	b.Run("persistent, in a loop", func(b *testing.B) { writeRecords(b, amqp.Persistent, 0) })
	b.Run("transient, in a loop", func(b *testing.B) { writeRecords(b, amqp.Transient, 0) })
	b.Run("persistent, after a rest", func(b *testing.B) { writeRecords(b, amqp.Persistent, rest) })
	b.Run("transient, after a rest", func(b *testing.B) { writeRecords(b, amqp.Transient, rest) })
}

func writeRecords(b *testing.B, mode uint8, rest time.Duration) {
	ctx := measured(b)
	_, ch := stranger(b)
	ledger := fresh("").Name
	if _, err := ch.QueueDeclare(ledger, true, false, false, false,
		amqp.Table{"x-max-length": int32(16), "x-overflow": "drop-head"}); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _, _ = ch.QueueDelete(ledger, false, false, false) })
	if err := ch.Confirm(false); err != nil {
		b.Fatal(err)
	}
	var s stopwatch
	for b.Loop() {
		time.Sleep(rest)
		s.run(b, func() error {
			return record(ctx, ch, ledger, mode)
		})
	}
	s.report(b)
}

func record(ctx context.Context, ch *amqp.Channel, ledger string, mode uint8) error {
	body := []byte(`{"record":"held","term":1795366344353152,"handover_ms":10000,"host":"somewhere","pid":12345}`)
	confirm, err := ch.PublishWithDeferredConfirmWithContext(ctx, "", ledger, true, false,
		amqp.Publishing{DeliveryMode: mode, Body: body})
	if err != nil {
		return err
	}
	_, err = confirm.WaitContext(ctx)
	return err
}
