//go:build exact

package simulation

import (
	"runtime/debug"
	_ "unsafe" // for simSeed
)

//go:linkname simSeed runtime.simSeed
func simSeed(seed uint64)

func init() {
	exact = func(seed uint64) {
		debug.SetGCPercent(-1)
		simSeed(seed)
	}
}
