// Package faults breaks what a berth depends on, on purpose, and judges what its
// commands did meanwhile:
//
//	make faults                     # every fault a few times
//	FAULTS_RUNS=30 make faults      # more often
//
// The built binary runs against a real RabbitMQ. What it runs is the prover's
// witness, which writes down when it lives; what it wrote the prover judges.
// Neither shares code with berth, so that they share none of its bugs. That the
// suite finds what it looks for is a test, too: a berth that was broken on
// purpose has to be caught.
//
// It is a module of its own, because it takes an hour, and because
// the versions that toxiproxy needs are no business of berth's.
package faults
