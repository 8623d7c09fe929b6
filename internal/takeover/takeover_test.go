package takeover

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"

	"berth/internal/inquire"
	"berth/lock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 20 * time.Second

// holder answers as one that holds slot 2 does, with one answer after the other.
type holder struct {
	answers []string
	asked   []int
	closed  bool
	then    func() // once all are given
}

// inquiry asks it.
func (h *holder) inquiry() *inquire.Inquiry { return &inquire.Inquiry{Inspector: h} }

func (h *holder) Look(context.Context) (lock.Status, error) {
	return lock.Status{Slots: []lock.SlotStatus{{Slot: 1, State: lock.SlotFree}, {Slot: 2, State: lock.SlotHeld}}}, nil
}

func (h *holder) Ask(_ context.Context, slot int, verb lock.Verb) ([]byte, error) {
	h.asked = append(h.asked, slot)
	answer := h.answers[0]
	if h.answers = h.answers[1:]; len(h.answers) == 0 {
		h.then()
	}
	if answer == "" || verb != lock.AskStepDown {
		return nil, lock.ErrUnknown
	}
	return []byte(answer), nil
}

func (h *holder) Close() error {
	h.closed = true
	return nil
}

func TestHolderIsAskedUntilItAccepts(t *testing.T) {
	h := &holder{answers: []string{"", "nonsense", `{"heeded":false,"why":"not now"}`, `{"heeded":true}`,
		`{"heeded":true}`}}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	h.then = cancel
	var log strings.Builder
	logger := hclog.New(&hclog.LoggerOptions{Output: &log})
	err := Takeover{Inquiry: h.inquiry(), Log: logger, Again: time.Millisecond}.Ask(ctx, 0)
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if len(h.asked) != 5 || h.asked[4] != 2 || !h.closed {
		t.Errorf("asked %v, closed %t", h.asked, h.closed)
	}
	if !strings.Contains(log.String(), "not now") {
		t.Errorf("nothing is said of the refusal: %s", log.String())
	}
}

func TestHolderIsAskedOnceTheCommandCouldWork(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ready")
	h := &holder{answers: []string{`{"heeded":true}`}}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	h.then = cancel
	log := &waitFor{text: "not taking over", then: func() {
		if len(h.asked) > 0 {
			t.Error("asked before that")
		}
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Error(err)
		}
	}}
	take := Takeover{
		ReadyFile: file, ReadyCommand: "is-ready", Inquiry: h.inquiry(), Log: hclog.New(&hclog.LoggerOptions{Output: log}),
		Run: func(context.Context) error {
			_, err := os.Stat(file)
			return err
		},
	}
	if err := take.Ask(ctx, 7); !errors.Is(err, context.Canceled) || len(h.asked) != 1 || h.asked[0] != 7 {
		t.Errorf("%v, asked %v", err, h.asked)
	}
}

func TestNobodyIsAskedAnyMoreAtTheEnd(t *testing.T) {
	h := &holder{}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	take := Takeover{ReadyCommand: "is-ready", Inquiry: h.inquiry(), Log: hclog.NewNullLogger(), Run: hangs}
	if err := take.Ask(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if len(h.asked) > 0 || !h.closed {
		t.Errorf("asked %v, closed %t", h.asked, h.closed)
	}
}

// hangs is a ready command that does not end by itself.
func hangs(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestWhatATakeoverWaitsForIsTold(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "ready")
	fails := func(context.Context) error { return errors.New("it ended with 3") }
	for what, c := range map[string]struct {
		take    Takeover
		answers []string
		want    string
	}{
		"file":         {Takeover{ReadyFile: missing}, nil, missing + ": no such file"},
		"command":      {Takeover{ReadyCommand: "is-ready", Run: fails}, nil, "the ready command, which failed at"},
		"its status":   {Takeover{ReadyCommand: "is-ready", Run: fails}, nil, "it ended with 3"},
		"it hangs":     {Takeover{ReadyCommand: "is-ready", Run: hangs}, nil, "the ready command, which runs since"},
		"no answer":    {Takeover{}, []string{""}, "Z and does not: state unknown"},
		"refusal":      {Takeover{}, []string{`{"heeded":false,"why":"not now"}`}, "Z and does not: not now"},
		"it is heeded": {Takeover{}, []string{`{"heeded":true}`}, "the holder of slot 2, which was asked to step down at"},
	} {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		h := &holder{answers: c.answers, then: func() {}}
		var all []string
		c.take.Inquiry, c.take.Log, c.take.Again = h.inquiry(), hclog.NewNullLogger(), patience
		c.take.Tell = func(what string) {
			if all = append(all, what); strings.Contains(what, c.want) {
				cancel()
			}
		}
		if _ = c.take.Ask(ctx, 0); !strings.Contains(all[len(all)-1], c.want) {
			t.Errorf("%s: it waits for %q", what, all)
		}
		cancel()
	}
}

// waitFor does something when a text is written.
type waitFor struct {
	text string
	then func()
}

func (w *waitFor) Write(p []byte) (int, error) {
	if strings.Contains(string(p), w.text) {
		w.then()
	}
	return len(p), nil
}
