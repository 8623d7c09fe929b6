package claim

import (
	"context"
	"fmt"

	"berth/lock"
)

// Ask asks the broker whether the slot is held, unless it is known by then that it is lost or in doubt. The question
// has no deadline: giving it up would mean to cut the connection, and the slot with it. When ctx ends first, it stays
// asked, and the next call waits for its end before it asks its own. Only an answer to its own question is proof for it
// that the slot is held: the other one was asked before the call began. A loss is a loss, whichever call asked. Where ctx
// has ended before, nothing is asked.
func (c *Claim) Ask(ctx context.Context, question func() error) error {
	if ctx.Err() != nil {
		return c.unanswered(ctx)
	}
	select {
	case <-c.asking:
	case <-ctx.Done():
		return c.unanswered(ctx)
	}
	err := c.Cause()
	if err == nil && c.Conn().Broken() {
		err = c.Dropped()
	}
	if err != nil { // found out by an earlier question, or by the watch
		c.asking <- struct{}{}
		return err
	}
	answered := make(chan error, 1)
	go func() {
		answered <- question()
		c.asking <- struct{}{}
	}()
	select {
	case err := <-answered:
		return err
	case <-ctx.Done():
		return c.unanswered(ctx)
	}
}

func (c *Claim) unanswered(ctx context.Context) error {
	return fmt.Errorf("cannot verify %s: no answer from %s yet: %w: %w", c.what, c.Conn().Label(), lock.ErrUnknown,
		ctx.Err())
}
