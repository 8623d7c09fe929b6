// Package simulation runs many berths against a simulated RabbitMQ in one process, on time that the simulation owns:
//
//	result := simulation.Run(t, simulation.Draw(4711))
//
// lock/rabbit and supervisor/loop are the real ones. What they know of the kernel is simulated: the clock, the network,
// the guard with the command's tree. A seed says who contends for what, and what befalls them: contenders are killed,
// stopped, and stand still with their clocks, messages are late, held and lost, the broker restarts. Everything runs in a
// bubble of testing/synctest, where an hour takes as long as what happens in it.
//
// How far that goes: a process that is stopped reads, writes, orders and learns nothing, and its timers wait for it, which
// needs the runtime of package overlay; what has come meanwhile is read before the timers or after them. A machine is
// paused for less than the margin only, because its timers go on with the world's clock. A write never blocks. A process
// that is killed goes on to its end as a ghost, which nobody hears, and which hears nobody. The command's tree is one
// process. All hosts' wall clocks agree.
package simulation
