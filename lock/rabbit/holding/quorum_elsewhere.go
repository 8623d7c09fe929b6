package holding

import (
	"context"
	"time"

	"berth/lock/rabbit/ledger"
	"berth/lock/rabbit/transport"
)

// maxSilence is for how long nothing may come from the ledger that is asked before another node is connected to: a
// fifth of the lease, but not more than this.
const maxSilence = 2 * time.Second

// grace is for how long a reader may hear nothing at least, once another node has answered.
const grace = 100 * time.Millisecond

// minVisit is for how long another node is given at least to have the reader's place there.
const minVisit = time.Second

// search looks for a node that has the ledger while that of a reader is silent: it may be cut off from those that have
// it.
type search struct {
	reader *ledger.Reader
	cancel context.CancelFunc
	done   chan struct{}  // closed at its end
	found  *ledger.Reader // valid after done; nil: there is none. The connection of the other one was cut then.
}

// silence is for how long nothing may come.
func (h *quorum) silence() time.Duration { return min(maxSilence, h.lease/5) }

// lookElsewhere begins to look for another node than that of the reader, unless that is under way.
func (h *quorum) lookElsewhere(reader *ledger.Reader) {
	h.searching.Lock()
	defer h.searching.Unlock()
	if h.search != nil || !h.Claim.Started() || len(h.Session.Dialer.Brokers) == 1 {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &search{reader: reader, cancel: cancel, done: make(chan struct{})}
	h.search = s
	silence := h.silence()
	go func() {
		defer close(s.done)
		s.found = h.findElsewhere(ctx, reader, silence)
	}()
}

// elsewhere ends the search, and returns the reader that it has found; nil: none. But one of a reader that still has
// its place goes on where it may.
func (h *quorum) elsewhere(mayGoOn bool) *ledger.Reader {
	h.searching.Lock()
	defer h.searching.Unlock()
	s := h.search
	// One that has just cut the connection has found something, though the reader's end is not known yet.
	if s == nil || mayGoOn && !transport.IsClosed(s.reader.View().Ended) && !s.reader.Channel().Conn().Broken() {
		return nil
	}
	h.search = nil
	s.cancel()
	<-s.done
	return s.found
}

// answered ends the search: the node answers. What was found by then has cost it its connection, and is for repair.
func (h *quorum) answered() {
	h.searching.Lock()
	defer h.searching.Unlock()
	if s := h.search; s != nil {
		s.cancel()
		if <-s.done; s.found == nil {
			h.search = nil
		}
	}
}

// stayHere ends the search, and what it has found.
func (h *quorum) stayHere() {
	if found := h.elsewhere(false); found != nil {
		found.Channel().Conn().Abandon()
	}
}

// findElsewhere takes the reader's place over another node, once that of this reader is silent, and cuts this
// connection. It tries the others in turn for as long as nothing comes.
func (h *quorum) findElsewhere(ctx context.Context, reader *ledger.Reader, silence time.Duration) *ledger.Reader {
	for quiet(ctx, reader, silence) {
		for _, n := range h.Session.Dialer.Others(reader.Channel().Conn().Node()) {
			if found := h.standElsewhere(ctx, reader, n); found != nil {
				return found
			}
		}
	}
	return nil
}

// standElsewhere takes the reader's place over another node, which is named by its place in the list: behind this one,
// for as long as that has a connection. Where the leader is slow, and not the node silent, this reader hears something
// before the other one has its answer, or as soon.
func (h *quorum) standElsewhere(ctx context.Context, reader *ledger.Reader, n int32) *ledger.Reader {
	node := h.Session.Dialer.Brokers[n]
	bounded, cancel := context.WithTimeout(ctx, max(h.lease/5, minVisit))
	defer cancel()
	heard := reader.View().Read
	conn, err := h.Session.Dialer.DialOne(bounded, node, "holding")
	if err != nil {
		h.Log.Debug("another broker cannot be asked for the slot", "slot", h.slot, "broker", node.Label(), "error", err)
		return nil
	}
	asked := time.Now()
	found, err := ledger.Return(bounded, conn.Channel(), h.t, h.visitor())
	if err != nil || !quiet(ctx, reader, max(time.Since(asked), grace)) || reader.View().Read != heard {
		h.Log.Debug("another broker does not answer sooner", "slot", h.slot, "broker", node.Label(), "error", err)
		conn.Abandon()
		return nil
	}
	h.Log.Debug("asking another broker for the slot", "slot", h.slot, "broker", node.Label())
	h.Session.Dialer.BeginWith(n)
	reader.Channel().Conn().Abandon()
	return found
}

// quiet reports whether the reader has its place, and hears nothing for that long.
func quiet(ctx context.Context, reader *ledger.Reader, silence time.Duration) bool {
	timer := time.NewTimer(silence)
	defer timer.Stop()
	for {
		known := reader.View()
		if transport.IsClosed(known.Ended) {
			return false
		}
		select {
		case <-known.Changed:
			timer.Reset(silence)
		case <-timer.C:
			return true
		case <-ctx.Done():
			return false
		}
	}
}
