package overlay

import "path/filepath"

// Runtime returns the changes to the source of Go's runtime, and to the packages context and math/rand, with which
// goroutines in a bubble of testing/synctest run in the same order each time, on one processor and with a collector that is
// switched off: what is random there comes from a seed, and no goroutine is preempted. A program sets the seed by
// runtime.simSeed, and is built with the tag exact.
//
// Each of these was seen to make two histories of one seed differ, but for the last ones, which save time.
func Runtime(goroot string) []Change {
	file := func(name string) string { return filepath.Join(goroot, "src", "runtime", name) }
	return []Change{
		{file("rand.go"), "\nfunc rand() uint64 {\n", `
func rand() uint64 {
	if simState != 0 && getg().bubble != nil {
		return simMaps // for maps: some are made once in a process, others when a pool is empty
	}
`},
		{file("../math/rand/rand.go"), "//go:linkname runtime_rand runtime.rand", "//go:linkname runtime_rand runtime.simDraw"},
		{file("../math/rand/v2/rand.go"), "//go:linkname runtime_rand runtime.rand", "//go:linkname runtime_rand runtime.simDraw"},
		// Whose timers wait, because the process is stopped that has set them: by the labels of its goroutines.
		{file("time.go"), "\tseq    uintptr\n\n\t// If non-nil, the timers containing t.\n", `	seq    uintptr
	owner  uintptr

	// If non-nil, the timers containing t.
`},
		{file("time.go"), "\tt.trace(\"modify\")\n", `	t.trace("modify")
	if gp := getg(); gp.bubble != nil {
		t.owner = simOwner(gp)
	}
`},
		{file("time.go"), "\tf := t.f\n\targ := t.arg\n\tseq := t.seq\n\tvar next int64\n", `	if t.owner != 0 {
		if until := simHeld(t.owner); until > now {
			t.when = until
			if t.state&timerHeaped != 0 {
				t.state |= timerModified
				t.updateHeap()
			}
			t.unlock()
			return
		}
	}

	f := t.f
	arg := t.arg
	seq := t.seq
	var next int64
`},
		{file("rand.go"), "//go:linkname maps_rand ", `// simStops are the processes that are stopped, and until when.
var (
	simStops  [256]struct {
		owner uintptr
		until int64
	}
	simNobody bool
)

// simOwner is the process that a goroutine belongs to; 0: none.
func simOwner(gp *g) uintptr {
	if simNobody {
		return 0
	}
	return uintptr(gp.labels)
}

// simHeld returns until when the timers of a process wait.
//
//go:nosplit
func simHeld(owner uintptr) int64 {
	for i := range simStops {
		if simStops[i].owner == owner {
			return simStops[i].until
		}
	}
	return 0
}

// simSelf returns the process that calls it.
//
//go:linkname simSelf
func simSelf() uintptr { return uintptr(getg().labels) }

// simUnowned has timers belong to no process, or not any more.
//
//go:linkname simUnowned
func simUnowned(on bool) { simNobody = on }

// simStop has the timers of a process wait for that long; 0: not any more.
//
//go:linkname simStop
func simStop(owner uintptr, d int64) {
	free := -1
	for i := range simStops {
		if simStops[i].owner == owner {
			free = i
			break
		}
		if simStops[i].owner == 0 && free < 0 {
			free = i
		}
	}
	if free < 0 || d == 0 && simStops[free].owner != owner {
		return
	}
	simStops[free].owner, simStops[free].until = owner, getg().bubble.now+d
	if d == 0 {
		simStops[free].owner = 0
	}
}

//go:linkname maps_rand `},
		{file("rand.go"), "//go:linkname maps_rand ", `// simState is what comes next; 0: all is random. By simMaps maps are laid out.
var simState, simMaps uint64

// simSeed seeds what is random in bubbles.
//
//go:linkname simSeed
func simSeed(seed uint64) {
	simState = seed<<1 | 1
	simMaps = simRand()
}

// simDraw is a random number of package rand.
//
//go:linkname simDraw
func simDraw() uint64 {
	if simState != 0 && getg().bubble != nil {
		return simRand()
	}
	return rand()
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
		// In which order a select sets the timers of its channels: by their addresses.
		{file("chan.go"), "\tbubble   *synctestBubble\n\n\t// lock protects", "\tbubble   *synctestBubble\n\tnumber   uintptr\n\n\t// lock protects"},
		{file("chan.go"), "\tc.dataqsiz = uint(size)\n", "\tc.dataqsiz = uint(size)\n\tsimChannels++\n\tc.number = simChannels\n"},
		{file("chan.go"), "type hchan struct {\n", "var simChannels uintptr\n\ntype hchan struct {\n"},
		{file("select.go"), "\treturn uintptr(unsafe.Pointer(c))\n", "\treturn c.number\n"},
		// Which of two timers comes first that are due at once.
		{file("time.go"), "t.rand = cheaprand()", `t.rand = cheaprand()
			if simState != 0 {
				t.rand = uint32(simRand())
			}`},
		// And by this.
		{file("alg.go"), "hashkey[i] = uintptr(bootstrapRand())", "hashkey[i] = uintptr(0x9e3779b97f4a7c15>>1) * uintptr(2*i+1)"},
		{file("alg.go"), "key[i] = bootstrapRand()", "key[i] = 0xbf58476d1ce4e5b9 * uint64(2*i+1)"},
		// In which order a context's children end: they are in a map, by their addresses. Here it is the order in which they
		// were made, from a random one on.
		{file("../context/context.go"), "children map[canceler]struct{} // ", "children []canceler // "},
		{file("../context/context.go"), "\tif p.children != nil {\n\t\tdelete(p.children, child)\n\t}\n", `	for i, one := range p.children {
		if one == child {
			p.children = append(p.children[:i], p.children[i+1:]...)
			break
		}
	}
`},
		{file("../context/context.go"), `			if p.children == nil {
				p.children = make(map[canceler]struct{})
			}
			p.children[child] = struct{}{}
`, "\t\t\tp.children = append(p.children, child)\n"},
		{file("../context/context.go"), "\tfor child := range c.children {\n", `	first := 0
	if n := len(c.children); n > 1 {
		first = int(rand() % uint64(n))
	}
	for i := range c.children {
		child := c.children[(first+i)%len(c.children)]
`},
		{file("../context/context.go"), "\t\"time\"\n)\n", "\t\"time\"\n\t_ \"unsafe\"\n)\n\n//go:linkname rand runtime.simDraw\nfunc rand() uint64\n"},
		// Who gets a mutex: one that has waited for long in real time, because the kernel had something else to run.
		{file("sema.go"), "func internal_sync_nanotime() int64 {\n", `func internal_sync_nanotime() int64 {
	if simState != 0 && getg().bubble != nil {
		return 0
	}
`},
		// When a goroutine is preempted.
		{file("proc.go"), "func retake(now int64) uint32 {\n", "func retake(now int64) uint32 {\n\tif simState != 0 {\n\t\treturn 0\n\t}\n"},
		{file("proc.go"), "if pp.schedtick%61 == 0 && !sched.runq.empty() {",
			"if simState == 0 && pp.schedtick%61 == 0 && !sched.runq.empty() {"},
		// What follows is for speed only. Memory that a seed has had is for the next one.
		{file("mgcscavenge.go"), "func gcPaceScavenger(memoryLimit int64, heapGoal, lastHeapGoal uint64) {\n", `
func gcPaceScavenger(memoryLimit int64, heapGoal, lastHeapGoal uint64) {
	scavenge.gcPercentGoal.Store(^uint64(0))
	scavenge.memoryLimitGoal.Store(^uint64(0))
	if true {
		return
	}
`},
		// Goroutines are many, end soon, and need more than 2 KiB as a rule: growing their stacks took a tenth of the time.
		{file("stack.go"), "var startingStackSize uint32 = fixedStack", "var startingStackSize uint32 = 8 << 10"},
		{file("stack.go"), "if debug.adaptivestackstart == 0 {", "if true {"},
		// Nobody asks who waited for a lock of the runtime, or for how long goroutines wait, or which of them run.
		{file("lock_spinbit.go"), "\tif !mutexSampleContention() {", "\tif true {"},
		{file("lock_spinbit.go"), "\tgp.m.mLockProfile.store()\n", ""},
		{file("proc.go"), "if casgstatusAlwaysTrack || gp.trackingSeq%gTrackingPeriod == 0 {", "if casgstatusAlwaysTrack {"},
		{file("proc.go"), "\tif gp.bubble != nil {\n\t\tsystemstack(func() {\n\t\t\tgp.bubble.changegstatus(",
			"\tif gp.bubble != nil && oldval|newval != _Grunnable|_Grunning {\n\t\tsystemstack(func() {\n\t\t\tgp.bubble.changegstatus("},
	}
}
