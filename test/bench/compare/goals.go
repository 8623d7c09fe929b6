package compare

import "berth/test/bench/report"

// Titles of measures that goals are about.
const (
	titleFree      = "From exec to the command's first instruction, lock free"
	titleUnused    = "From exec to the command's first instruction, lock never used"
	titleHandover  = "Handover: the holder's command ends, the waiter's starts"
	titleProcessor = "Processor time of a run: all of the wrapper, without its command"
	titleServer    = "Processor time of a run: the server"
	titleWaiter    = "Private memory of a waiter"
	titleHolder    = "Private memory of a holder, without its command"
)

// Names of programs that goals are about.
const (
	onRabbit = "berth"
	local    = "berth, local"
	etcdctl  = "etcdctl lock"
	flock    = "flock"
)

// Goals are what berth is to reach beside the others.
func (a *Arena) Goals() []report.Goal {
	one := func(title, program string) []report.Term {
		return []report.Term{{Factor: 1, Title: title, Program: program}}
	}
	times := func(factor float64, title, program string) []report.Term {
		return []report.Term{{Factor: factor, Title: title, Program: program}}
	}
	number := func(x float64) []report.Term { return []report.Term{{Factor: x}} }
	passes, passesOfFour := a.titlesOfPasses()
	return []report.Goal{
		{What: "start, ms: 0.8 of etcdctl", Sum: one(titleFree, onRabbit), Bound: times(0.8, titleFree, etcdctl)},
		{What: "start, local, ms", Sum: one(titleFree, local), Bound: number(8)},
		{What: "start, new lock, ms: 1.2 of etcdctl", Sum: one(titleUnused, onRabbit), Bound: times(1.2, titleUnused, etcdctl)},
		{What: "handover, ms: 0.75 of etcdctl", Sum: one(titleHandover, onRabbit), Bound: times(0.75, titleHandover, etcdctl)},
		{What: "handover, local, ms: flock and 0.6", Sum: one(titleHandover, local),
			Bound: append(number(0.6), one(titleHandover, flock)...)},
		{What: "processor time, wrapper and server, ms", Bound: number(20),
			Sum: append(one(titleProcessor, onRabbit), one(titleServer, onRabbit)...)},
		{What: "passes of one slot, per s: 1.1 of etcdctl", Least: true, Sum: one(passes, onRabbit),
			Bound: times(1.1, passes, etcdctl)},
		{What: "passes of four slots, per s: 1.25 of one slot's", Least: true, Sum: one(passesOfFour, onRabbit),
			Bound: times(1.25, passes, onRabbit)},
		{What: "memory of a waiter, KiB", Sum: one(titleWaiter, onRabbit), Bound: number(2800)},
		{What: "memory of a holder, KiB", Sum: one(titleHolder, onRabbit), Bound: number(2800)},
	}
}
