package session

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"berth/lock/rabbit/transport"
)

// When the nodes are compared once a command runs, and how often those that could not be. A command that ends before
// that costs no connection.
const (
	compareAfter = 100 * time.Millisecond
	compareAgain = 30 * time.Second
)

// kin are the nodes that are known to be of one cluster. Another broker knows nothing of the slot that is held: it would
// give it to the holder whose connection is lost, and the first one, once it is back, to somebody else.
type kin struct {
	comparing sync.WaitGroup

	mu    sync.Mutex         // guards what follows
	known map[string]bool    // by URL; replaced where it changes
	shun  map[string]bool    // which do not know what was made through one before them in the list
	stop  context.CancelFunc // of who compares; nil: nobody does
}

// stay has nothing but nodes of this connection's cluster connected to, and finds out which these are. Or not any more;
// then only those are left alone that are of no cluster with an earlier one.
func (s *Session) stay(put bool) {
	if len(s.Dialer.Brokers) < 2 || s.Dialer.Mark == nil {
		return
	}
	k := &s.kin
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stop != nil {
		k.stop()
		k.stop = nil
	}
	if !put {
		s.Dialer.Confine(s.others())
		return
	}
	if k.shun == nil {
		k.shun = map[string]bool{}
	}
	own := s.Conn()
	url := own.Node().URL()
	if !k.known[url] {
		k.known = map[string]bool{url: true}
	}
	s.Dialer.Confine(k.known)
	var ctx context.Context
	ctx, k.stop = context.WithCancel(context.Background())
	k.comparing.Go(func() {
		asked := map[string]bool{url: true}
		for pause := compareAfter; own.Sleep(ctx, pause, "the other brokers") == nil; pause = compareAgain {
			if s.compare(ctx, own, asked) {
				return
			}
		}
	})
}

// compare makes a queue, and asks those nodes for it that have not been found to know one. It reports whether none is
// left. Those that were known before are asked as well: somebody may have taken a node out of its cluster.
func (s *Session) compare(ctx context.Context, own *transport.Conn, asked map[string]bool) (all bool) {
	var strangers []int // by their places in the list
	for n, node := range s.Dialer.Brokers {
		if !asked[node.URL()] {
			strangers = append(strangers, n)
		}
	}
	if len(strangers) == 0 {
		return true
	}
	channel, mark := own.Channel(), s.Dialer.Mark()
	channel.BePatient(true) // to give up would cut the connection
	if err := channel.Claim(ctx, mark); err != nil {
		s.Dialer.Log.Debug("cannot compare the brokers", "queue", mark, "error", err)
		return false
	}
	know := make([]bool, len(strangers))
	var asking sync.WaitGroup
	for i, n := range strangers {
		asking.Go(func() { know[i] = s.ask(ctx, own, n, mark) })
	}
	asking.Wait()
	_ = channel.Remove(ctx, mark)
	_ = channel.Close(ctx)
	all = true
	for i, n := range strangers {
		asked[s.Dialer.Brokers[n].URL()] = know[i]
		all = all && know[i]
	}
	return all
}

// others are the nodes that are not shunned.
func (s *Session) others() map[string]bool {
	others := map[string]bool{}
	for _, node := range s.Dialer.Brokers {
		others[node.URL()] = !s.kin.shun[node.URL()]
	}
	return others
}

// ask asks one node whether it knows the queue.
func (s *Session) ask(ctx context.Context, own *transport.Conn, n int, mark string) (knows bool) {
	node := s.Dialer.Brokers[n]
	url, found := node.URL(), transport.Unknown
	conn, err := s.Dialer.DialOne(ctx, node, "comparing")
	if err == nil {
		found, err = conn.Knows(ctx, mark)
		conn.End(ctx)
	}
	k := &s.kin
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case ctx.Err() != nil || own.Broken(): // and the queue is gone
	case err != nil:
		s.Dialer.Log.Debug("not known whether a broker is of the same cluster", "broker", node.Label(), "error", err)
	case found == transport.Present:
		s.know(url, true)
		delete(k.shun, s.later(own.Node().URL(), url))
		s.Dialer.Log.Debug("a slot can be reclaimed over another broker, which is of the same cluster", "broker", node.Label())
		return true
	case found == transport.Absent:
		s.know(url, false)
		later := s.later(own.Node().URL(), url)
		if k.shun[later] {
			return false // and the user knows it
		}
		k.shun[later] = true
		s.Dialer.Log.Warn("a broker does not know the slot that is held: it is not in one cluster with the broker that gave "+
			"the slot, or the cluster is split; it would give the slot to another berth; name the nodes of one cluster, and "+
			"try berth check --connect",
			"broker", node.Label())
	}
	return false
}

// know notes whether a node is of the cluster. The caller has mu.
func (s *Session) know(url string, known bool) {
	k := &s.kin
	k.known = maps.Clone(k.known)
	k.known[url] = known
	s.Dialer.Confine(k.known)
}

// later returns which of two comes later in the list.
func (s *Session) later(a, b string) string {
	for _, node := range slices.Backward(s.Dialer.Brokers) {
		if url := node.URL(); url == a || url == b {
			return url
		}
	}
	return ""
}
