// Package simulation runs many berths against a simulated RabbitMQ in one process, on time that the simulation owns:
//
//	result := simulation.Run(t, simulation.Draw(4711))
//
// lock/rabbit and supervisor/loop are the real ones. What they know of the kernel is simulated: the clock, the network,
// the guard with the command's tree. A seed says who contends for what, and what befalls them: contenders are killed,
// stopped, and stand still with their clocks, messages are late, held and lost, the broker restarts. Everything runs in a
// bubble of testing/synctest, where an hour takes as long as what happens in it.
//
// How far that goes: a process that is stopped reads, writes, orders and learns nothing, and its deadlines
// (internal/boottime) wait for it. But timers of package time go on in its goroutines: what they decide meanwhile, such as
// that an answer is late, takes effect when the process goes on, and is not decided then. A write never blocks. One that
// is killed goes on to its end as a ghost, which nobody hears, and which hears nobody.
package simulation
