package answers

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"berth/lock"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

func TestAnswerIsJSON(t *testing.T) {
	a := New()
	got := make(chan string, 1)
	a.Send(lock.Request{Reply: func(_ context.Context, answer []byte) error {
		got <- string(answer)
		return nil
	}}, struct {
		Slot int `json:"slot"`
	}{2})
	if text := <-got; text != `{"slot":2}` {
		t.Errorf("it is %s", text)
	}
	a.Send(lock.Request{}, 2) // by one that waits for none
	a.Close()
}

// Who asks and does not read keeps nobody waiting, and not for ever.
func TestAnswersThatAreNotTakenAreDropped(t *testing.T) {
	a := New()
	begun := make(chan struct{}, 3*Most)
	for range 3 * Most {
		a.Send(lock.Request{Reply: func(ctx context.Context, _ []byte) error {
			begun <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		}}, "")
	}
	for range Most {
		<-begun
	}
	a.Close()
	if n := len(begun); n != 0 {
		t.Errorf("%d more have begun", n)
	}
}
