package faults

import "testing"

// plainProtocol is the one without ledger and line.
const plainProtocol = "plain"

// plainly are the faults of the full protocol that the plain one is tried with too.
var plainly = []string{
	"silent partition", "packets dropped", "reset of everybody", "reset and no way back",
	"half open, nothing to the broker", "half open, nothing from the broker", "latency of 3 s",
	"broker killed and started again", "broker stopped and continued", "memory alarm, holder told to end",
	"memory alarm, holder killed", "all connections closed by the operator", "B deleted",
	"B vanished, and nobody is told", "A deleted and made again", "supervisor killed", "one of two supervisors killed",
	"supervisor stopped and continued", "guard killed", "supervisor and guard killed at once",
	"forking command, supervisor killed", "forking command, silent partition",
}

func TestNoFaultMakesHoldersWithThePlainWireOverlap(t *testing.T) {
	all := named(t, plainly...)
	for i := range all {
		f := &all[i]
		f.name, f.stage.protocol = "plain protocol: "+f.name, plainProtocol
		f.kept = false // who has won B after a reset is not asked to give it back
	}
	tryAll(t, all, 4)
}
