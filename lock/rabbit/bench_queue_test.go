package rabbit_test

import (
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// rest is how long nobody asks the broker anything: in use, it has nothing to do
// until a holder ends.
const rest = 600 * time.Millisecond

// What no handover can do without: the deletion of an exclusive queue by one
// connection, and then its declaration by another. Without berth.
func BenchmarkExclusiveQueueChangesHands(b *testing.B) {
	b.Run("in a loop", func(b *testing.B) { changeHands(b, 0) })
	b.Run("after a rest", func(b *testing.B) { changeHands(b, rest) })
}

func changeHands(b *testing.B, rest time.Duration) {
	queue := fresh("").Name
	var sides [2]*amqp.Channel
	for i := range sides {
		_, sides[i] = stranger(b)
	}
	claim := func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(queue, false, false, true, false, nil)
		return err
	}
	if err := claim(sides[0]); err != nil {
		b.Fatal(err)
	}
	var s stopwatch
	for b.Loop() {
		time.Sleep(rest)
		s.run(b, func() error {
			if _, err := sides[0].QueueDelete(queue, false, false, false); err != nil {
				return err
			}
			return claim(sides[1])
		})
		sides[0], sides[1] = sides[1], sides[0]
	}
	s.report(b)
}
