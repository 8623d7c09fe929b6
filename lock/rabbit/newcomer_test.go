package rabbit_test

import (
	"errors"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"berth/lock"
)

// standInLine has the channel consume batons, and do nothing with them.
func standInLine(t *testing.T, ch *amqp.Channel, id lock.ID) {
	t.Helper()
	_, err := ch.QueueDeclare(id.Name+"-W", true, false, false, false, amqp.Table{
		"x-queue-type": "classic", "x-max-length": int32(100), "x-overflow": "drop-head"})
	must(t, err)
	_, err = ch.Consume(id.Name+"-W", "", false, false, false, false, nil)
	must(t, err)
}

// Who is called to a free slot needs a moment to get there. One that does not come is not waited for any longer.
func TestNewcomerGoesBehindThoseInLine(t *testing.T) {
	t.Parallel()
	for _, kind := range []lock.Kind{lock.Mutex, lock.Semaphore} {
		t.Run(string(kind), func(t *testing.T) {
			id := fresh(kind)
			if kind.Administered() {
				resize(t, shared, id, 1)
				defer resize(t, shared, id, 0)
			}
			l, h := holding(t, id, long)
			must(t, h.Release(within(t)))
			must(t, l.Close())
			onChannel(t, func(ch *amqp.Channel) error {
				standInLine(t, ch, id)
				newcomer := connected(t, shared, id)
				if _, err := newcomer.Acquire(within(t)); !errors.Is(err, lock.ErrFull) {
					t.Errorf("the newcomer: %v", err)
				}
				cfg := at(shared.URL())
				cfg.Contention.Once = true
				try := backend(t, cfg).Lock(id)
				must(t, try.Connect(within(t)))
				h, err := try.Acquire(within(t))
				must(t, err)
				must(t, errors.Join(h.Ready(within(t)), h.Release(within(t)), try.Close()))
				return awaitTurn(within(t), newcomer)
			})
		})
	}
}

// Also where something else keeps it from being patient: the node of a slot is down.
func TestNewcomerLooksAgainAtWhoIsInLine(t *testing.T) {
	id := fresh(lock.Semaphore)
	resize(t, shared, id, 1)
	l, h := holding(t, id, long)
	must(t, h.Release(within(t)))
	must(t, l.Close())
	resize(t, shared, id, 2)
	defer nodeDown(t, id.Name+"-2-A")()
	onChannel(t, func(ch *amqp.Channel) error {
		standInLine(t, ch, id)
		newcomer := connected(t, shared, id)
		succeeds(t, "slot 1 is free", func() error {
			h, err := newcomer.Acquire(within(t))
			if err == nil {
				return h.Release(within(t))
			}
			return errors.Join(err, newcomer.Wait(within(t), 10*time.Millisecond))
		})
		return nil
	})
}

func TestWhoDoesNotWaitIsNotToldOfTheLine(t *testing.T) {
	id := fresh(lock.Mutex)
	l, h := holding(t, id, long)
	must(t, h.Release(within(t)))
	must(t, l.Close())
	must(t, shared.AddUser(within(t), "nowaiting", "right"))
	must(t, shared.SetPermissions(within(t), "nowaiting", "/", ".*-[ABT]$", ".*", ".*-[ABT]$"))
	cfg, said := journal()
	cfg.URLs, cfg.Users = []string{shared.URLFor("nowaiting", "right", "/")}, []string{"guest"}
	l = backend(t, cfg).Lock(id)
	must(t, l.Connect(within(t)))
	h, err := l.Acquire(within(t))
	must(t, err)
	must(t, errors.Join(h.Ready(within(t)), h.Release(within(t)), l.Close()))
	if n := said("cannot be woken"); n > 0 {
		t.Errorf("warned of waiting %d times", n)
	}
}
