package overlay

import "path/filepath"

// Runtime returns the changes to the source of Go's runtime with which goroutines in a bubble of testing/synctest run in
// the same order each time, on one processor and with a collector that is switched off: what is random there comes from a
// seed, and no goroutine is preempted. A program sets the seed by runtime.simSeed, and is built with the tag exact.
//
// Each of these was seen to make two histories of one seed differ.
func Runtime(goroot string) []Change {
	file := func(name string) string { return filepath.Join(goroot, "src", "runtime", name) }
	return []Change{
		{file("rand.go"), "\nfunc rand() uint64 {\n", `
func rand() uint64 {
	if simState != 0 && getg().bubble != nil {
		return simRand()
	}
`},
		// How maps are laid out: by the seed, however many the program has made before, once and for all.
		{file("rand.go"), "func maps_rand() uint64 {\n", `func maps_rand() uint64 {
	if simState != 0 && getg().bubble != nil {
		return simMaps
	}
`},
		{file("rand.go"), "//go:linkname maps_rand ", `// simState is what comes next; 0: all is random.
var simState, simMaps uint64

// simSeed seeds what is random in bubbles.
//
//go:linkname simSeed
func simSeed(seed uint64) {
	simState = seed<<1 | 1
	simMaps = simRand()
}

//go:nosplit
func simRand() uint64 {
	simState += 0x9e3779b97f4a7c15
	z := simState
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

//go:linkname maps_rand `},
		// Which case of a select is taken.
		{file("select.go"), "j := cheaprandn(uint32(norder + 1))", `j := cheaprandn(uint32(norder + 1))
		if simState != 0 && gp.bubble != nil {
			j = uint32(simRand() % uint64(norder+1))
		}`},
		// Which of two timers comes first that are due at once.
		{file("time.go"), "t.rand = cheaprand()", `t.rand = cheaprand()
			if simState != 0 {
				t.rand = uint32(simRand())
			}`},
		// And by this.
		{file("alg.go"), "hashkey[i] = uintptr(bootstrapRand())", "hashkey[i] = uintptr(0x9e3779b97f4a7c15>>1) * uintptr(2*i+1)"},
		{file("alg.go"), "key[i] = bootstrapRand()", "key[i] = 0xbf58476d1ce4e5b9 * uint64(2*i+1)"},
		// When a goroutine is preempted.
		{file("proc.go"), "func retake(now int64) uint32 {\n", "func retake(now int64) uint32 {\n\tif simState != 0 {\n\t\treturn 0\n\t}\n"},
		{file("proc.go"), "if pp.schedtick%61 == 0 && !sched.runq.empty() {",
			"if simState == 0 && pp.schedtick%61 == 0 && !sched.runq.empty() {"},
	}
}
