package check

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"berth/internal/config"
	"berth/internal/management"
	"berth/lock/rabbit"
)

// askManagement adds what only the management API knows. That it tells nothing is a problem; that the user may not see
// something is not.
func (r *Report) askManagement(ctx context.Context, api string) {
	f := r.broker
	if f == nil { // which type the lock has is not known, nor of which cluster the broker is
		return
	}
	access := management.Access{URL: api, Broker: r.cfg.Brokers[0], NAL: r.cfg.Naming == config.NamingNAL}
	if warning := access.InClear(); warning != "" {
		r.Warnings = append(r.Warnings, warning)
	}
	l := management.Lock{ID: r.cfg.Lock, Plain: r.plain(), Users: slices.Clone(r.cfg.LockUsers)}
	kind := rabbit.QueueType(r.cfg.QueueType)
	for _, broker := range r.cfg.Brokers {
		l.Users = append(l.Users, userOf(broker))
	}
	kind = cmp.Or(f.QueueType, kind)
	l.Slots, l.Version, l.Cluster, l.Users = f.Slots, f.Version, f.Cluster, append(l.Users, f.User)
	l.Quorum = kind == rabbit.QueuesQuorum
	found, err := management.Inspect(ctx, access, l)
	r.Problems = append(r.Problems, found.Problems...)
	if err != nil {
		r.Problems, r.unasked = append(r.Problems, inTime(err, "the management API")), true
		return
	}
	r.api = &found
	r.Advice = append(r.Advice, found.Advice...)
}

// userOf returns the user of a broker's URL.
func userOf(broker string) string {
	if u, err := url.Parse(broker); err == nil && u.User != nil {
		return u.User.Username()
	}
	return "guest" // as berth logs in then
}

// adviseUnseen says where to look for what neither AMQP nor the management API has shown.
func (r *Report) adviseUnseen(unseen rabbit.Unseen, api string) {
	before := len(r.Advice)
	for _, u := range []struct{ about, text string }{
		{management.AboutNodes, unseen.Nodes},
		{management.AboutWriters, unseen.Writers},
		{management.AboutPolicies, unseen.Policies},
	} {
		if u.text != "" && !r.seen(u.about) {
			r.advise(u.text)
		}
	}
	if len(r.Advice) > before && api == "" {
		r.advise("--management-url http://HOST:15672 has RabbitMQ's management plugin asked for that, where it is enabled")
	}
}

// seen reports whether the management API has shown something.
func (r *Report) seen(about string) bool { return r.api != nil && r.api.Unknown[about] == nil }

// writeManagement prints what the management API has shown, and what it has not.
func (r *Report) writeManagement(b *strings.Builder) {
	m := r.api
	var nodes, members, policies []string
	for _, node := range m.Nodes {
		nodes = append(nodes, marked(node.Name, !node.Running, "does not run"))
	}
	if l := m.Ledger; l != nil {
		for _, member := range l.Members {
			members = append(members, marked(member, !slices.Contains(l.Online, member), "not online"))
		}
	}
	for _, p := range m.Policies {
		if text := p.String(); !slices.Contains(policies, text) { // it may do something else to another queue
			policies = append(policies, text)
		}
	}
	fmt.Fprintf(b, "\nThe management API at %s:\n\n", m.Host)
	for _, row := range []struct {
		label, about string
		found        []string
		none         string // "": there is no row then
	}{
		{"nodes", management.AboutNodes, nodes, ""},
		{"ledger of 1", management.AboutLedger, members, ""},
		{"policies", management.AboutPolicies, policies, "none that harms the lock"},
		{"other writers", management.AboutWriters, quoted(m.Writers), "none"},
	} {
		text := cmp.Or(strings.Join(row.found, ", "), row.none)
		if err := m.Unknown[row.about]; err != nil {
			text = "not known: " + err.Error()
		}
		if text != "" {
			writeRow(b, row.label, text)
		}
	}
}

func quoted(texts []string) (all []string) {
	for _, text := range texts {
		all = append(all, strconv.Quote(text))
	}
	return all
}

// marked adds a remark to a name, if it applies.
func marked(name string, applies bool, remark string) string {
	if applies {
		return name + " (" + remark + ")"
	}
	return name
}

// The keys of the JSON report are stable. What the user may not see is null, and unknown says why.
type (
	jsonManagement struct {
		Host     string       `json:"host"`
		Nodes    []jsonNode   `json:"nodes"`
		Ledger   *jsonLedger  `json:"ledger"` // of slot 1, on quorum queues that are there
		Policies []jsonPolicy `json:"policies"`
		Writers  []string     `json:"writers"`

		Unknown map[string]string `json:"unknown"` // by the key of what is not known
	}
	jsonNode struct {
		Name    string `json:"name"`
		Running bool   `json:"running"`
	}
	jsonLedger struct {
		Queue   string   `json:"queue"`
		Leader  string   `json:"leader"`
		Members []string `json:"members"`
		Online  []string `json:"online"`
	}
	jsonPolicy struct {
		Name     string `json:"name"`
		Operator bool   `json:"operator"`
		Key      string `json:"key"`
		Value    any    `json:"value"`
		Queue    string `json:"queue"`
		Others   int    `json:"others"`
		Unsafe   bool   `json:"unsafe"`
	}
)

func (r *Report) jsonManagement() *jsonManagement {
	m := r.api
	if m == nil {
		return nil
	}
	out := &jsonManagement{Host: m.Host, Unknown: map[string]string{}}
	if r.seen(management.AboutPolicies) {
		out.Policies = []jsonPolicy{}
	}
	if r.seen(management.AboutWriters) {
		out.Writers = append([]string{}, m.Writers...)
	}
	for _, node := range m.Nodes {
		out.Nodes = append(out.Nodes, jsonNode(node))
	}
	if l := m.Ledger; l != nil {
		out.Ledger = &jsonLedger{l.Queue, l.Leader, l.Members, l.Online}
	}
	for _, p := range m.Policies {
		out.Policies = append(out.Policies, jsonPolicy{p.Name, p.Operator, p.Key, p.Value, p.Queue, p.Others, p.Unsafe})
	}
	for about, err := range m.Unknown {
		out.Unknown[about] = err.Error()
	}
	return out
}
