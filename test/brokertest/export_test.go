package brokertest

// Looking for leftover processes, for tests.
var (
	Family    = family
	AwaitGone = awaitGone
)
