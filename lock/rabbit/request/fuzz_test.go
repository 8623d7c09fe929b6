package request

import (
	"strings"
	"testing"

	"berth/lock"
	"berth/lock/rabbit/transport"
)

// delivered is what the broker hands on of a message.
func delivered(m transport.Message) transport.Delivery {
	return transport.Delivery{Headers: m.Headers, UserId: m.UserId, ReplyTo: m.ReplyTo, CorrelationId: m.CorrelationId}
}

// Anybody who may publish can ask anything, in anybody's name but that of a user, and for answers to any queue.
func FuzzRequestOfAStrangerIsDropped(f *testing.F) {
	f.Add(`{"request":"status"}`, "guest", "amq.rabbitmq.reply-to.g1h2", "1")
	f.Add(`{"request":"step-down"}`, "", "", "")
	f.Add(`{"request":"reload","request":"status"}`, "admin", "importer-1-T", "x")
	f.Add(strings.Repeat(" ", maxRequest)+`{"request":"status"}`, "admin", "", "")
	f.Fuzz(func(t *testing.T, text, user, replyTo, id string) {
		admins := new(Admins)
		admins.Set([]string{"admin"})
		i := New(admins, nil)
		d := delivered(transport.Message{Headers: map[string]any{"content": text}, UserId: user, ReplyTo: replyTo, CorrelationId: id})
		for range 2 * maxWaiting {
			i.Handle(d)
		}
		i.HandleQuestion(d)
		for range len(i.requests) {
			r := <-i.requests
			if user != "admin" || r.From != user || !r.Verb.Known() || len(text) > maxRequest {
				t.Errorf("%q of %q asks for %q in the name of %q", text, user, r.Verb, r.From)
			}
			if r.Reply != nil && !strings.HasPrefix(replyTo, ReplyTo+".") {
				t.Errorf("the answer to %q goes to %q", text, replyTo)
			}
		}
	})
}

func FuzzRequestArrivesAsItWasAsked(f *testing.F) {
	f.Add("42", []byte(`{"heeded":true}`))
	f.Fuzz(func(t *testing.T, id string, answer []byte) {
		for _, verb := range []lock.Verb{lock.AskStatus, lock.AskStepDown, lock.AskReload} {
			if got, ok := read(delivered(Message(verb, id))); !ok || got != verb {
				t.Errorf("%s arrives as %s, %v", verb, got, ok)
			}
		}
		if got, text, ok := Answer(delivered(answerTo(id, answer))); ok && (got != id || len(text) > maxAnswer) {
			t.Errorf("the answer %q to %q arrives as %q to %q", answer, id, text, got)
		}
	})
}
