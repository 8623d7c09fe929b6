package process

import (
	"context"

	"berth/internal/guard/wire"
)

// Will is what a supervisor that is gone, or too late, has left to be done when the
// command's tree is dead.
type Will struct {
	text []byte
	dead <-chan struct{} // closed when the tree is
}

// Executor tells the backend that the tree is dead, for a supervisor that cannot. It is
// called while the tree is being killed, so that it can connect meanwhile, and tells
// once dead is closed. It returns when ctx ends at the latest.
type Executor func(ctx context.Context, will []byte, dead <-chan struct{}) error

// Execute returns when the tree is dead and the will is executed, or could not be within
// wire.WillTimeout.
func (w *Will) Execute(execute Executor) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		<-w.dead
		timeout, end := context.WithTimeout(ctx, wire.WillTimeout)
		defer end()
		<-timeout.Done()
		cancel()
	}()
	_ = execute(ctx, w.text, w.dead) // a waiter waits for the handover delay instead
	<-w.dead                         // the guard kills until then
}
