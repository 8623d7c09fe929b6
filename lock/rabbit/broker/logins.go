package broker

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"berth/internal/brokerurl"
)

// Source is where the URLs of nodes come from, if that can change.
type Source = brokerurl.Source

// Logins are how nodes are logged in at now: a password that is in a file is another one tomorrow. Its methods may be
// called from several goroutines. NewLogins makes it.
type Logins struct {
	given   []Node     // as callers know them
	reading sync.Mutex // held while files are read, which can hang with their file system

	mu     sync.Mutex // guards what follows
	source Source
	nodes  []Node // those given, in their order, as they were read last
	told   string // what kept them from being read
}

// NewLogins returns the logins of nodes whose URLs come from there.
func NewLogins(source Source, nodes []Node) *Logins {
	return &Logins{given: nodes, source: source, nodes: nodes}
}

// Source is where the URLs come from; the zero value if they do not change.
func (l *Logins) Source() Source {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.source
}

// Last returns the node as it was read last.
func (l *Logins) Last(n Node) Node {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.IndexFunc(l.given, func(known Node) bool { return known.URL() == n.URL() }); i >= 0 {
		return l.nodes[i]
	}
	return n
}

// Read reads the files again, if there are any, and returns the node as it is now. What cannot be read leaves it as it
// was, and is news once.
func (l *Logins) Read(n Node) (now Node, news error) {
	if !l.Source().Changes() {
		return l.Last(n), nil
	}
	l.reading.Lock()
	defer l.reading.Unlock()
	urls, err := l.Source().Read()
	if err == nil {
		err = l.take(urls)
	}
	return l.Last(n), l.once(err)
}

// Set has the logins come from somewhere else. Its error leaves everything as it was.
func (l *Logins) Set(source Source, urls []string) error {
	l.reading.Lock()
	defer l.reading.Unlock()
	if err := l.take(urls); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.source = source
	return nil
}

// errOthers says why URLs are not taken: a lock stays where it is.
var errOthers = errors.New("other nodes are named than berth was started with; start it anew for these")

func (l *Logins) take(urls []string) error {
	nodes, err := ParseAll(urls)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.EqualFunc(nodes, l.given, func(a, b Node) bool { return a.Label() == b.Label() }) {
		return errOthers
	}
	l.nodes = nodes
	return nil
}

// once returns an error that was not returned by the last call.
func (l *Logins) once(err error) error {
	text := ""
	if err != nil {
		text = err.Error()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if text == l.told {
		return nil
	}
	l.told = text
	return err
}

// ParseAll reads several URLs.
func ParseAll(urls []string) (nodes []Node, err error) {
	for i, raw := range urls {
		n, err := Parse(raw)
		if err != nil {
			return nil, fmt.Errorf("broker URL %d: %w", i+1, err)
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}
