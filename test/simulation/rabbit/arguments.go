package rabbit

import (
	"regexp"
	"slices"
	"time"
)

// comparedArguments are those that a second declaration must have as the first had them.
var comparedArguments = []string{"x-expires", "x-message-ttl", "x-dead-letter-exchange", "x-dead-letter-routing-key",
	"x-max-length", "x-max-length-bytes", "x-max-priority", "x-overflow", "x-queue-mode", "x-queue-type",
	"x-single-active-consumer", "x-delivery-limit", "x-quorum-initial-group-size"}

// checkArguments refuses arguments that no queue can have, and returns the type of the queue.
func checkArguments(v Version, d *declaration) (kind string) {
	kind = "classic"
	if t, ok := d.arguments["x-queue-type"]; ok {
		kind, _ = t.v.(string)
	}
	if kind != "classic" && kind != "quorum" {
		refuse(preconditionFailed, "invalid arg 'x-queue-type' for %s: \"unsupported queue type '%s'\"", inVhost(d.name), kind)
	}
	for _, key := range []string{"x-expires", "x-message-ttl", "x-max-length"} {
		a, ok := d.arguments[key]
		if !ok {
			continue
		}
		n, isNumber := a.v.(int64)
		switch {
		case !isNumber:
			refuse(preconditionFailed, "invalid arg '%s' for %s: \"expected integer, got %s\"", key, inVhost(d.name), a.kind)
		case n < 0:
			refuse(preconditionFailed, "invalid arg '%s' for %s: {value_negative,%d}", key, inVhost(d.name), n)
		case n == 0 && key == "x-expires":
			refuse(preconditionFailed, "invalid arg '%s' for %s: {value_zero,0}", key, inVhost(d.name))
		}
	}
	if o, ok := d.arguments["x-overflow"]; ok && o.v != "drop-head" && o.v != "reject-publish" {
		refuse(preconditionFailed, "invalid arg 'x-overflow' for %s: invalid_overflow", inVhost(d.name))
	}
	if kind == "classic" && d.arguments["x-delivery-limit"].kind != "" {
		refuse(preconditionFailed, "invalid arg 'x-delivery-limit' for %s of queue type rabbit_classic_queue", inVhost(d.name))
	}
	return kind
}

// limits is what arguments and policies say of a queue.
type limits struct {
	length  int64         // of messages that are ready; -1: any number
	rejects bool          // what does not fit, instead of dropping the oldest
	ttl     time.Duration // of messages; -1: they live for ever
	expires time.Duration // after which the queue goes where nobody uses it; 0: never
	returns int64         // how often a message may come back; -1: any number
	timeout time.Duration // for acknowledgements; 0: as configured
	absence time.Duration // of a consumer's node, after which what it has is put back

	delayed         string // what comes again later: "all", "failed", "returned"
	delay, maxDelay time.Duration
}

// policy is what an operator has set for queues whose names match.
type policy struct {
	pattern    *regexp.Regexp
	text       string
	definition map[string]any
}

// number returns a number of a policy.
func (p *policy) number(key string) (int64, bool) {
	if p == nil {
		return 0, false
	}
	switch v := p.definition[key].(type) {
	case int:
		return int64(v), true
	case int64:
		return v, true
	}
	return 0, false
}

// policyFor returns the policy for a queue; nil: there is none.
func (c *Cluster) policyFor(name string) *policy {
	i := slices.IndexFunc(c.policies, func(p *policy) bool { return p.pattern.MatchString(name) })
	if i < 0 {
		return nil
	}
	return c.policies[i]
}

// limit works out the queue's limits again. Of two numbers the smaller counts.
func (q *queue) limit() {
	p := q.cluster.policyFor(q.name)
	smaller := func(argument, key string) int64 {
		n, of := int64(-1), q.arguments[argument]
		if v, ok := of.v.(int64); ok {
			n = v
		}
		if v, ok := p.number(key); ok && (n < 0 || v < n) {
			n = v
		}
		return n
	}
	ms := func(n int64) time.Duration {
		if n < 0 {
			return -1
		}
		return time.Duration(n) * time.Millisecond
	}
	q.limits = limits{length: smaller("x-max-length", "max-length"), ttl: ms(smaller("x-message-ttl", "message-ttl")),
		expires: max(0, ms(smaller("x-expires", "expires"))), returns: q.returnLimit(p),
		timeout: max(0, ms(smaller("x-consumer-timeout", "consumer-timeout")))}
	overflow, _ := q.arguments["x-overflow"].v.(string)
	if byPolicy, ok := p.text1("overflow"); ok && (overflow == "" || q.quorum) {
		overflow = byPolicy
	}
	q.limits.rejects = overflow == "reject-publish"
	if q.quorum && q.cluster.config.Version >= V4_3 {
		q.limitNew(p, smaller, ms)
	}
	q.single, _ = q.arguments["x-single-active-consumer"].v.(bool)
}

// limitNew works out what is new in 4.3.
func (q *queue) limitNew(p *policy, smaller func(argument, key string) int64, ms func(int64) time.Duration) {
	const usual = time.Minute
	if q.limits.absence = ms(smaller("x-consumer-disconnected-timeout", "consumer-disconnected-timeout")); q.limits.absence < 0 {
		q.limits.absence = usual
	}
	kind, ok := p.text1("delayed-retry-type")
	if !ok {
		kind, _ = q.arguments["x-delayed-retry-type"].v.(string)
	}
	least := smaller("x-delayed-retry-min", "delayed-retry-min")
	if most := smaller("x-delayed-retry-max", "delayed-retry-max"); least > 0 {
		q.limits.delayed, q.limits.delay, q.limits.maxDelay = kind, ms(least), ms(least)
		if most > 0 {
			q.limits.maxDelay = ms(most)
		}
	}
}

func (p *policy) text1(key string) (string, bool) {
	if p == nil {
		return "", false
	}
	text, ok := p.definition[key].(string)
	return text, ok
}

// returnLimit is how often a message of a quorum queue may come back: before 4.0 any number of times, unless something is
// said, and then -1 is a limit as well.
func (q *queue) returnLimit(p *policy) int64 {
	if !q.quorum {
		return -1
	}
	const usual = 20
	n, said := q.arguments["x-delivery-limit"].v.(int64)
	v4 := q.cluster.config.Version >= V4_0
	if v, ok := p.number("delivery-limit"); ok {
		switch {
		case !said:
			n = v
		case v4 && min(n, v) < 0: // any limit beats none
			n = max(n, v)
		default:
			n = min(n, v)
		}
		said = true
	}
	switch {
	case said && n < 0 && !v4:
		return 0
	case said:
		return n
	case v4:
		return usual
	}
	return -1
}
