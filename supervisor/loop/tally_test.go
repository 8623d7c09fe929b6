package loop

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"berth/internal/boottime"
	"berth/lock"
	"berth/signals"
	"berth/supervisor"
)

func TestWhatHappensIsCountedOnceEach(t *testing.T) {
	said := make(recorder, 100)
	b := newBench(t, 0, func(_ *bench, cfg *supervisor.Config) {
		cfg.Loss, cfg.OnLoss, cfg.Tally = steps(t, "TERM 10ms, KILL"), supervisor.NoRetry, said
	})
	g := b.running()
	b.backend.ReportLost(mutex, lock.ErrLost)
	g.awaitOrder(t, "TERM tree")
	g.awaitOrder(t, "kill")
	g.dies(9, 0)
	b.end()
	close(said)
	var all []string
	for what := range said {
		all = append(all, what)
	}
	if got, want := fmt.Sprint(all), "[won proved started lost proven: slot lost step TERM step KILL]"; got != want {
		t.Errorf("counted %s, not %s", got, want)
	}
}

// recorder is a tally.
type recorder chan string

func (r recorder) Won(time.Duration)                         { r <- "won" }
func (r recorder) Started(time.Duration, bool)               { r <- "started" }
func (r recorder) Proved(boottime.Instant, boottime.Instant) { r <- "proved" }
func (r recorder) Verified(time.Duration, error)             {}
func (r recorder) Lost(cause supervisor.LossCause, why error) {
	r <- fmt.Sprintf("lost %s: %v", cause, why)
}
func (r recorder) Checked(outcome supervisor.CheckOutcome) { r <- string(outcome) }
func (r recorder) Cut(cause supervisor.CutCause)           { r <- string(cause) }
func (r recorder) Step(sig syscall.Signal)                 { r <- "step " + signals.Name(sig) }
