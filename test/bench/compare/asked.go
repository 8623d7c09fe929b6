package compare

import (
	"context"

	"berth/test/bench/measure"
	"berth/test/bench/report"
)

// work is what is counted of what a run asks of RabbitMQ.
var work = []struct {
	title   string
	methods []measure.Method
}{
	{"Connections opened", []measure.Method{measure.ConnectionOpen}},
	{"Channels opened", []measure.Method{measure.ChannelOpen}},
	{"Exclusive queues declared", []measure.Method{measure.DeclareExclusive}},
	{"Other queues declared", []measure.Method{measure.DeclareOther}},
	{"Queues looked up (passive declare)", []measure.Method{measure.DeclarePassive}},
	{"Queues deleted", []measure.Method{measure.QueueDelete}},
	{"Consumers begun", []measure.Method{measure.Consume}},
	{"Messages published", []measure.Method{measure.Publish}},
	{"... of them returned, the queue being absent", []measure.Method{measure.Return}},
	{"Messages delivered", []measure.Method{measure.Deliver, measure.GetOK}},
	{"Acknowledged", []measure.Method{measure.Ack}},
	{"Given back to the queue", []measure.Method{measure.Nack, measure.Reject}},
}

// asked counts what runs ask of RabbitMQ, from their first connection to their last.
func (a *Arena) asked(ctx context.Context) ([]*report.Measure, error) {
	var measures []*report.Measure
	for _, w := range work {
		measures = append(measures, &report.Measure{Title: w.title, Alone: true, Count: true})
	}
	rabbit := a.programs[:0:0]
	for _, p := range a.programs {
		if p.traffic != nil && p.traffic.methods != nil {
			rabbit = append(rabbit, p)
		}
	}
	runs := []struct {
		title string
		run   func(p *program) error
	}{
		{"a run, lock free", func(p *program) error {
			_, err := a.pass(ctx, p, p.traffic.wrap, "asked")
			return err
		}},
		{"a holder and the waiter that follows it", func(p *program) error {
			_, err := a.handOver(ctx, p, p.traffic.wrap)
			return err
		}},
	}
	err := a.rounds(ctx, a.sizes.Rounds+1, rabbit, func(round int, p *program) error {
		for _, r := range runs {
			counted, err := p.traffic.during(ctx, func() error { return r.run(p) })
			if err != nil {
				return err
			}
			for i, w := range work {
				n := 0
				for _, m := range w.methods {
					n += counted[m]
				}
				if round > 0 { // the locks are new in the first
					measures[i].Add(r.title, float64(n))
				}
			}
		}
		return nil
	})
	return measures, err
}

// during returns how often each method was said while f ran.
func (t *traffic) during(ctx context.Context, f func() error) (map[measure.Method]int, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	before, err := t.methods(ctx)
	if err != nil {
		return nil, err
	}
	if err := f(); err != nil {
		return nil, err
	}
	after, err := t.methods(ctx)
	for m := range after {
		after[m] -= before[m]
	}
	return after, err
}
