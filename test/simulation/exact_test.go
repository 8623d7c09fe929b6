//go:build simulation && exact

package simulation

import (
	"runtime/debug"
	"sync"
	"time"
	_ "unsafe" // for what package overlay adds to the runtime

	"berth/lock/rabbit/ledger"
)

//go:linkname simSeed runtime.simSeed
func simSeed(seed uint64)

//go:linkname simSelf runtime.simSelf
func simSelf() uintptr

//go:linkname simUnowned runtime.simUnowned
func simUnowned(on bool)

//go:linkname simStop runtime.simStop
func simStop(owner uintptr, d int64)

func init() {
	var clocks sync.Map // by owner: how far they are ahead
	wallClock = func(owner uintptr, ahead time.Duration) { clocks.Store(owner, ahead) }
	ledger.Now = func() time.Time {
		ahead, _ := clocks.Load(simSelf())
		d, _ := ahead.(time.Duration)
		return time.Now().Add(d)
	}
	self, unowned = simSelf, simUnowned
	hold = func(owner uintptr, d time.Duration) { simStop(owner, int64(d)) }
	exact = func(seed uint64) {
		debug.SetGCPercent(-1)
		simSeed(seed)
	}
}
