package transport

import (
	"errors"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

// missing reports whether the text of a 404 is taken for proof that this queue does not exist.
func missing(queue, text string) bool {
	c := &Conn{amqp: &amqp.Connection{}}
	return errors.Is(c.explain(looking(queue), &amqp.Error{Code: amqp.NotFound, Reason: text, Server: true}),
		ErrNoQueue)
}

// A queue of a node that is down may be called like an answer.
func TestOnlyTheBrokersWordsProveAQueueMissing(t *testing.T) {
	for text, want := range map[string]bool{
		"NOT_FOUND - no queue 'a-1-T' in vhost '/'":                                                             true,
		"NOT_FOUND - no queue 'a-1-B' in vhost '/'":                                                             false,
		"NOT_FOUND - no queue 'a-1-T' in vhost 'and so on' in vhost '/'":                                        true,
		"NOT_FOUND - home node 'rabbit@b' of durable queue 'a-1-T' in vhost '/' is down or inaccessible":        false,
		"NOT_FOUND - home node 'rabbit@b' of durable queue 'no queue-1-T' in vhost '/' is down or inaccessible": false,
	} {
		if got := missing("a-1-T", text); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
	long := strings.Repeat("é", 123) + "-1-T"
	if text := "NOT_FOUND - no queue '" + long; !missing(long, text[:252]+"...") {
		t.Error("a reason that ends in the middle of the queue's name is no proof")
	}
}
