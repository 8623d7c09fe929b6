package transport

// Mutex is a mutex that may be held while an answer is awaited. Unlike with a sync.Mutex, the time of a bubble passes
// for a goroutine that waits for it (testing/synctest). NewMutex makes it.
type Mutex chan struct{}

// NewMutex returns one that is free.
func NewMutex() Mutex { return make(Mutex, 1) }

// Lock waits until it is free, and holds it.
func (m Mutex) Lock() { m <- struct{}{} }

// Unlock lets the next goroutine have it.
func (m Mutex) Unlock() { <-m }
