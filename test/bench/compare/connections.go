package compare

import (
	"context"

	"berth/test/bench/measure"
	"berth/test/bench/report"
)

// roles are what contenders of connections are, in the order in which they come.
var roles = []string{"a holder", "the waiter that is next", "one more waiter"}

// connections counts, at the server, what contenders keep open.
func (a *Arena) connections(ctx context.Context) ([]*report.Measure, error) {
	var connections, channels []*report.Measure
	for _, role := range roles {
		connections = append(connections, &report.Measure{Title: "Connections of " + role, Alone: true, Count: true})
		channels = append(channels, &report.Measure{Title: "Channels of " + role, Alone: true, Count: true})
	}
	err := a.rounds(ctx, 1, a.programs, func(_ int, p *program) error {
		counts, err := a.countOpen(ctx, p)
		if err != nil {
			return err
		}
		for i := range roles {
			switch {
			case p.server == nil:
				connections[i].Of(p.name).Text, channels[i].Of(p.name).Text = "no server", "no server"
				continue
			case p.server.channels == nil:
				channels[i].Of(p.name).Text = "no channels"
			default:
				channels[i].Add(p.name, float64(counts[i+1].channels-counts[i].channels))
			}
			connections[i].Add(p.name, float64(counts[i+1].connections-counts[i].connections))
		}
		return nil
	})
	return append(connections, channels...), err
}

// open is what clients have open at a server.
type open struct{ connections, channels int }

// countOpen counts what is open at a program's server before anybody is there, and
// after each of the roles has come. It returns nothing where there is no server.
func (a *Arena) countOpen(ctx context.Context, p *program) ([]open, error) {
	if p.server == nil {
		return nil, nil
	}
	before, err := p.server.count(ctx)
	if err != nil {
		return nil, err
	}
	counts := []open{before}
	for range roles {
		t, err := a.launch(p, p.wrap, "connections", longRun)
		if err != nil {
			return nil, err
		}
		defer t.close()
		if err := measure.Sleep(ctx, settled); err != nil {
			return nil, err
		}
		now, err := p.server.count(ctx)
		if err != nil {
			return nil, err
		}
		counts = append(counts, now)
	}
	return counts, nil
}

func (s *server) count(ctx context.Context) (o open, err error) {
	if o.connections, err = measure.Established(s.port); err == nil && s.channels != nil {
		o.channels, err = s.channels(ctx)
	}
	return o, err
}
