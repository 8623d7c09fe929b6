package loop

import (
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"berth/internal/guard/wire"
	"berth/lock"
	"berth/supervisor"
)

// firstEnds says that the first process has ended, and others have not.
func (g *fakeGuard) firstEnds() {
	g.say(wire.Event{Kind: wire.Exited, Status: syscall.WaitStatus(term), Left: true})
}

// A first process that looks after its workers loses what they do if they are told as well; one that does not leaves
// them to nobody.
func TestStopSequenceIsForTheRestOnceTheFirstProcessHasEnded(t *testing.T) {
	b := newBench(t, 0, func(_ *bench, cfg *supervisor.Config) { cfg.Stop = steps(t, "TERM 200ms, INT 1ms, KILL") })
	g := b.running()
	b.signals <- unix.SIGTERM
	g.awaitOrder(t, "TERM head")
	g.firstEnds()
	g.awaitOrder(t, "TERM rest")
	g.awaitOrder(t, "INT tree")
	g.awaitOrder(t, "kill")
	g.say(wire.Event{Kind: wire.Dead})
	g.gone()
	b.end()
}

func TestEachStepIsForTheFirstProcessWhileItLives(t *testing.T) {
	b := newBench(t, 0, func(_ *bench, cfg *supervisor.Config) { cfg.Stop = steps(t, "TERM 1ms, INT 1h, KILL") })
	g := b.running()
	b.signals <- unix.SIGTERM
	g.awaitOrder(t, "TERM head")
	g.awaitOrder(t, "INT head")
	b.signals <- unix.SIGQUIT
	g.awaitOrder(t, "QUIT head")
	g.firstEnds()
	g.awaitOrder(t, "INT rest") // of this step, and what came meanwhile
	g.awaitOrder(t, "QUIT rest")
	b.signals <- unix.SIGQUIT
	g.awaitOrder(t, "QUIT tree")
	g.say(wire.Event{Kind: wire.Dead})
	g.gone()
	b.end()
}

func TestStopToTreeTellsEveryProcessOnce(t *testing.T) {
	b := newBench(t, 0, func(_ *bench, cfg *supervisor.Config) {
		cfg.Stop, cfg.StopTo = steps(t, "TERM 100ms, KILL"), supervisor.StopTree
	})
	g := b.running()
	b.signals <- unix.SIGTERM
	g.awaitOrder(t, "TERM tree")
	g.firstEnds()
	g.awaitOrder(t, "kill")
	g.say(wire.Event{Kind: wire.Dead})
	g.gone()
	b.end()
}

// A lost slot leaves no time to wait for the first process.
func TestLossDuringTheStopSequenceIsToldToTheRest(t *testing.T) {
	lost := make(chan struct{}, 1)
	b := newBench(t, 0, func(_ *bench, cfg *supervisor.Config) {
		cfg.Stop, cfg.Loss = steps(t, "TERM 1h, KILL"), steps(t, "INT 2h, KILL")
		cfg.Observer = watcher(func(now supervisor.Situation) {
			if now.State == supervisor.Losing && len(lost) == 0 {
				lost <- struct{}{}
			}
		})
	})
	g := b.running()
	b.signals <- unix.SIGTERM
	g.awaitOrder(t, "TERM head")
	b.backend.ReportLost(mutex, lock.ErrLost)
	g.awaitOrder(t, "TERM rest")
	<-lost
	g.firstEnds()
	b.signals <- unix.SIGINT // and TERM is not sent once more
	g.awaitOrder(t, "INT tree")
	g.dies(term, 0)
	b.end()
}

// Those of a loss sequence have been told as well, which can be a moment ago.
func TestStopSequenceInPlaceOfTheLossSequenceIsForTheTree(t *testing.T) {
	b := newBench(t, 0, func(_ *bench, cfg *supervisor.Config) {
		cfg.Stop, cfg.Loss = steps(t, "TERM 1m, KILL"), steps(t, "INT 1h, KILL")
	})
	g := b.running()
	b.backend.ReportLost(mutex, lock.ErrLost)
	g.awaitOrder(t, "INT tree")
	b.signals <- unix.SIGTERM
	g.awaitOrder(t, "TERM tree")
	g.dies(term, 0)
	b.end()
}

// The keys of a terminal, and its end, tell a whole group without berth, too.
func TestSignalsOfATerminalAreForTheTree(t *testing.T) {
	for sig, want := range map[unix.Signal]string{
		unix.SIGINT: "INT tree", unix.SIGQUIT: "QUIT tree", unix.SIGTERM: "TERM head", unix.SIGUSR1: "INT head",
	} {
		b := newBench(t, 0, func(_ *bench, cfg *supervisor.Config) {
			cfg.Stop = steps(t, "TERM 1h, KILL")
			cfg.Terminal = func() bool { return true }
			cfg.Rewrites = map[unix.Signal]unix.Signal{unix.SIGUSR1: unix.SIGINT}
		})
		g := b.running()
		b.signals <- sig
		g.awaitOrder(t, want)
		g.dies(term, 0)
		b.end()
	}
}
