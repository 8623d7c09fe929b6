// Package simulation runs many berths against a simulated RabbitMQ in one process, on time that the simulation owns:
//
//	result := simulation.Run(t, simulation.Draw(4711))
//
// lock/rabbit and supervisor/loop are the real ones. What they know of the kernel is simulated: the clock, the network,
// the guard with the command's tree. A seed says who contends for what, and what befalls them: contenders are killed,
// stopped, and stand still with their clocks, messages are late, held and lost, the broker restarts, loses queues, and
// keeps fewer records than it was given. Faults come one by one, overlap, and follow each other within moments, many of
// them right after a step of the protocol. Everything runs in a bubble of testing/synctest, where an hour takes as long
// as what happens in it.
//
// A history is judged by what docs/safety.md promises: one command in a slot at a time, terms that grow, commands that
// run on where nothing has befallen them, or one fault after which they have to, and slots that are taken again. A broken
// berth is to fail that: see TestBrokenBerthIsFoundOut.
//
// How far that goes: a process that is stopped reads, writes, orders and learns nothing, and its timers wait for it, which
// needs the runtime of package overlay; what has come meanwhile is read before the timers or after them. A machine is
// paused for less than the margin only, and once, because its timers go on with the world's clock. A write never blocks.
// A process that is killed goes on to its end as a ghost, which nobody hears, and which hears nobody. The command's tree
// is one process. Wall clocks are wrong by up to an hour, in histories whose ledgers lose nothing. What the pages do not
// promise is not tried: two losses of records, a ledger that is deleted while its holder is cut off, clocks that run at
// different rates.
package simulation
