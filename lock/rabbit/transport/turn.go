package transport

// Turn is a mutex that may be held while an answer is awaited. Unlike with a sync.Mutex, the time of a bubble passes for
// whoever waits for it (testing/synctest). NewTurn makes it.
type Turn chan struct{}

// NewTurn returns one that nobody holds.
func NewTurn() Turn { return make(Turn, 1) }

// Lock waits until nobody else holds it.
func (t Turn) Lock() { t <- struct{}{} }

// Unlock lets the next one have it.
func (t Turn) Unlock() { <-t }
