package process

import (
	"syscall"

	"golang.org/x/sys/unix"

	"berth/internal/guard/wire"
)

// noteLasting is for a tree to which KILL was sent: it tells once of a process that does
// not end, and ends where nothing is left but the dead whom their tracers keep.
func (g *guard) noteLasting() {
	if pid := g.tree.Survivor(); pid != 0 && !g.survivorTold {
		g.survivorTold = true
		g.tell(wire.Event{Kind: wire.Lasting, Pid: pid, Left: true})
	}
	pid := g.tree.OnlyDead()
	if g.reap() || pid == 0 || g.phase != running {
		return
	}
	g.tell(wire.Event{Kind: wire.Lasting, Pid: pid})
	if g.first != 0 {
		g.noteEnd(syscall.WaitStatus(unix.SIGKILL), false)
	}
	g.finish()
}
