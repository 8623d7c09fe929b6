package rabbit

import "berth/lock"

// CloseConsumer closes the channel that consumes from B, as a broker does that
// runs into consumer_timeout.
func CloseConsumer(h lock.Held) error { return h.(*held).consumer.ch.Close() }
