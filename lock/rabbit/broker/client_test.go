package broker

import "testing"

func TestWhatTheClientSaysCountsHoweverItIsWritten(t *testing.T) {
	for size := 1; size < 30; size++ {
		f := newFrames(wire{}, newSocket(nil))
		speaking(f, 7, size)
		if n := f.client.sent(); n != 7 || !f.client.hears(1, ack) || f.client.hears(2, ack) {
			t.Errorf("in pieces of %d bytes it has published %d messages, and has these channels: %v", size, n,
				f.client.channels)
		}
	}
}

// A close of the client may cross one of the server, which answers it. The number may be used again by then.
func TestChannelIsOpenUntilItIsClosed(t *testing.T) {
	says := func(number uint16) func(*client) bool {
		return func(c *client) bool {
			c.says(calls(1, 20, number))
			return true
		}
	}
	hears := func(is method, open bool) func(*client) bool {
		return func(c *client) bool { return c.hears(1, is) == open }
	}
	for what, steps := range map[string][]func(*client) bool{
		"never opened":         {hears(ack, false)},
		"open":                 {says(10), hears(method{20, 11}, true), hears(ack, true)},
		"closing":              {says(10), says(40), hears(ack, true)},
		"closed by the client": {says(10), says(40), hears(channelClosed, true), hears(ack, false)},
		"closed by the server": {says(10), hears(channelClose, true), says(41), hears(ack, false)},
		"closed by both": {says(10), says(40), hears(channelClose, true), says(41), hears(channelClosed, true),
			hears(ack, false)},
		"closed by both and opened again": {says(10), says(40), hears(channelClose, true), says(41), says(10),
			hears(channelClosed, true), hears(method{20, 11}, true), hears(ack, true)},
	} {
		c := newClient()
		c.says(make([]byte, protocolHeader))
		for i, step := range steps {
			if !step(c) {
				t.Errorf("%s: wrong after step %d", what, i)
			}
		}
	}
}
