package transport

import (
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

// A login with a token has the name that the token says, and a message of another user tells.
func TestRefusalTellsTheUser(t *testing.T) {
	for text, want := range map[string]string{
		"PRECONDITION_FAILED - user_id property set to 'x' but authenticated user was 'y'":         "y",
		"PRECONDITION_FAILED - user_id property set to '' but authenticated user was 'a' b'":       "a' b",
		"PRECONDITION_FAILED - user_id property set to 'x' but authenticated user was 'that is...": "",
		"PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue 'q'":                      "",
	} {
		if got := told(&amqp.Error{Code: amqp.PreconditionFailed, Reason: text, Server: true}); got != want {
			t.Errorf("%s: %q", text, got)
		}
	}
	if got := told(nil); got != "" {
		t.Errorf("of no refusal: %q", got)
	}
}
