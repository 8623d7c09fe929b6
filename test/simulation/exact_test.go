//go:build simulation && exact

package simulation

import (
	"runtime/debug"
	"time"
	_ "unsafe" // for what package overlay adds to the runtime
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
	self, unowned = simSelf, simUnowned
	hold = func(owner uintptr, d time.Duration) { simStop(owner, int64(d)) }
	exact = func(seed uint64) {
		debug.SetGCPercent(-1)
		simSeed(seed)
	}
}
