package management

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"berth/lock"
)

// answers are what RabbitMQ 4.3 answers for a lock that nothing harms, by the path behind /api.
func answers(t *testing.T, changed map[string]string) map[string]string {
	t.Helper()
	all := map[string]string{"/policies/%2F": "[]", "/operator-policies/%2F": "[]"}
	for path, file := range map[string]string{"/whoami": "whoami", "/nodes": "nodes", "/permissions/": "permissions",
		"/queues/%2F/workers-Q-1-T": "ledger"} {
		text, err := os.ReadFile(filepath.Join("testdata", file+".json"))
		if err != nil {
			t.Fatal(err)
		}
		all[path] = string(text)
	}
	for path, text := range changed {
		all[path] = text
	}
	return all
}

// told returns what Inspect reports of a lock, where the API answers like this; a number is a status.
func told(t *testing.T, l Lock, changed map[string]string) (Report, error) {
	t.Helper()
	all := answers(t, changed)
	url := api(t, func(w http.ResponseWriter, r *http.Request) {
		path := strings.TrimPrefix(r.URL.EscapedPath(), "/api")
		text, known := all[path]
		if status := 0; !known {
			w.WriteHeader(http.StatusNotFound)
		} else if n, _ := fmt.Sscanf(text, "%d", &status); n == 1 {
			w.WriteHeader(status)
		} else {
			fmt.Fprint(w, text)
		}
	})
	return Inspect(t.Context(), Access{URL: url, Broker: "amqp://berth:secret@rabbit"}, l)
}

func workers(changes ...func(*Lock)) Lock {
	l := Lock{ID: lock.ID{Kind: lock.Semaphore, Name: "workers"}, Slots: 2, Users: []string{"berth", "guest"}, Version: "4.3.6"}
	for _, change := range changes {
		change(&l)
	}
	return l
}

func onQuorum(l *Lock) { l.Quorum = true }

func set(definition string) string {
	return fmt.Sprintf(`[{"name":"p","pattern":"","apply-to":"all","priority":0,"definition":{%s}}]`, definition)
}

// What a policy does is as serious as the pages say, and some keys do nothing to some queues.
func TestPoliciesAreJudgedByWhatTheyDo(t *testing.T) {
	older := func(l *Lock) { l.Version = "3.13.7" }
	plain := func(l *Lock) { l.Plain = true }
	tokens := func(l *Lock) { l.ID.Kind = lock.TokenSemaphore }
	mutex := func(l *Lock) { l.ID.Kind = lock.Mutex }
	unlimited := map[string]string{"/queues/%2F/workers-Q-1-T": `{"arguments":{"x-max-length":1000}}`}
	for _, c := range []struct {
		definition string
		lock       Lock
		want       string // queues, and how many more are like it; an ! for a problem
		answers    map[string]string
	}{
		{`"message-ttl":60000`, workers(), `workers-1-T+1 workers-W`, nil},
		{`"message-ttl":60000`, workers(tokens), `workers-K-1-T+1 workers-K`, nil},
		{`"message-ttl":719999`, workers(onQuorum), `workers-Q-1-T+1! workers-Q`, nil},
		{`"message-ttl":720000`, workers(onQuorum), `workers-Q-1-T+1 workers-Q`, nil},
		{`"message-ttl":60000`, workers(plain), ``, nil},
		{`"expires":119999`, workers(), `workers-1-A+1 workers-1-T+1!`, nil},
		{`"expires":2419200000`, workers(), `workers-1-A+1`, nil},
		{`"expires":2419200000`, workers(mutex), ``, nil},
		{`"expires":600000`, workers(onQuorum), `workers-Q-1-A+1! workers-Q-1-T+1`, nil},
		{`"max-length":10000`, workers(), ``, nil},
		{`"max-length":1000000`, workers(tokens), ``, nil},
		{`"max-length":9999`, workers(), `workers-1-T+1`, nil},
		{`"max-length":3`, workers(tokens), `workers-K-1-T+1 workers-K`, nil},
		{`"max-length":99`, workers(), `workers-1-T+1 workers-W`, nil},
		{`"max-length":100`, workers(onQuorum), `workers-Q-1-T+1`, nil},
		{`"max-length":99`, workers(onQuorum), `workers-Q-1-T+1!`, nil},
		{`"max-length-bytes":1073741824`, workers(), ``, nil},
		{`"max-length-bytes":1000000`, workers(), `workers-1-T+1`, nil},
		{`"max-length-bytes":10000`, workers(onQuorum), `workers-Q-1-T+1!`, nil},
		{`"overflow":"reject-publish"`, workers(), ``, nil},
		{`"overflow":"reject-publish"`, workers(onQuorum), `workers-Q-1-T+1`, nil},
		{`"delivery-limit":20`, workers(onQuorum), `workers-Q-1-T+1 workers-Q`, nil},
		{`"delivery-limit":20`, workers(older, onQuorum), `workers-Q-1-T+1! workers-Q`, nil},
		{`"delivery-limit":-1`, workers(onQuorum), ``, nil},
		{`"delivery-limit":20,"message-ttl":1`, workers(), ``, nil}, // it is in force for no classic queue
		{`"ha-mode":"all"`, workers(older), `workers-1-T+1`, nil},
		{`"ha-mode":"all"`, workers(), ``, nil},
		{`"ha-mode":"all","message-ttl":1`, workers(onQuorum), ``, nil},
		{`"dead-letter-exchange":"dead"`, workers(), `workers-1-A+3`, nil},
		{`"dead-letter-exchange":"dead"`, workers(onQuorum), `workers-Q-1-A+1`, nil},
		{`"consumer-timeout":60000`, workers(older), `workers-W`, nil},
		{`"consumer-timeout":600000`, workers(older), ``, nil},
		{`"consumer-timeout":60000`, workers(older, onQuorum), `workers-Q-1-T+1 workers-Q`, nil},
		{`"consumer-timeout":60000`, workers(onQuorum), ``, nil},
		{`"delayed-retry-type":"all","delayed-retry-min":1000`, workers(onQuorum), ``, nil},
		{`"delayed-retry-type":"all","delayed-retry-min":1000`, workers(onQuorum), `workers-Q-1-T+1!`, unlimited},
		{`"delayed-retry-type":"disabled"`, workers(onQuorum), ``, unlimited},
		{`"max-in-memory-length":1,"queue-mode":"lazy","message-ttl":"soon"`, workers(), `workers-1-T+1 workers-W`, nil},
	} {
		changed := map[string]string{"/policies/%2F": set(c.definition)}
		for path, text := range c.answers {
			changed[path] = text
		}
		r, err := told(t, c.lock, changed)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		unsafe := 0
		for _, p := range r.Policies {
			text := p.Queue
			if p.Others > 0 {
				text += fmt.Sprintf("+%d", p.Others)
			}
			if p.Unsafe {
				text += "!"
				unsafe++
			}
			got = append(got, text)
		}
		if strings.Join(got, " ") != c.want || len(r.Problems) != unsafe {
			t.Errorf("%s: %s %v: got %q, want %q; %v", c.definition, c.lock.ID, c.lock.Quorum, got, c.want, r.Problems)
		}
	}
}

func TestPolicyOfTheHighestPriorityIsInForce(t *testing.T) {
	const harmful = `"definition":{"message-ttl":1}`
	policy := func(name, pattern, to string, priority int, definition string) string {
		return fmt.Sprintf(`{"name":%q,"pattern":%q,"apply-to":%q,"priority":%d,%s}`, name, pattern, to, priority, definition)
	}
	for what, c := range map[string]struct {
		policies []string
		want     string
	}{
		"a better one":              {[]string{policy("low", "", "all", 0, harmful), policy("high", "", "queues", 1, `"definition":{}`)}, ""},
		"a worse one":               {[]string{policy("high", "^workers-", "classic_queues", 2, harmful), policy("low", "", "all", 1, `"definition":{}`)}, "high"},
		"two alike":                 {[]string{policy("a", "", "all", 1, harmful), policy("b", "", "all", 1, `"definition":{}`)}, "a"},
		"for others":                {[]string{policy("a", "", "exchanges", 0, harmful), policy("b", "", "quorum_queues", 0, harmful), policy("c", "^orders", "all", 0, harmful)}, ""},
		"one for all that are ours": {[]string{policy("a", `^(?!amq\.).*`, "all", 0, harmful)}, "a"},
		"one of a pattern of Perl":  {[]string{policy("b", `^(?!w)`, "all", 1, harmful), policy("a", "", "all", 0, harmful)}, "b? a"},
		"a better one than that":    {[]string{policy("b", `^(?!w)`, "all", 0, harmful), policy("a", "", "all", 1, `"definition":{}`)}, ""},
	} {
		for path, operator := range map[string]bool{"/policies/%2F": false, "/operator-policies/%2F": true} {
			r, err := told(t, workers(), map[string]string{path: "[" + strings.Join(c.policies, ",") + "]"})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, p := range r.Policies {
				name := p.Name
				if p.Pattern != "" {
					name += "?"
				}
				if p.Operator != operator {
					t.Errorf("%s: %+v", what, p)
				}
				if !slices.Contains(got, name) {
					got = append(got, name)
				}
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("%s: got %q, want %q", what, got, c.want)
			}
		}
	}
}

// A problem or a piece of advice names the policy, its key and value, a queue, and what to do.
func TestPolicyIsNamedWithWhatToDo(t *testing.T) {
	r, err := told(t, workers(onQuorum), map[string]string{"/operator-policies/%2F": set(`"max-length":20`),
		"/policies/%2F": `[{"name":"q","pattern":"(?=w)","apply-to":"all","priority":0,"definition":{"message-ttl":1}}]`})
	if err != nil || len(r.Problems) != 1 || !errors.Is(r.Problems[0], lock.ErrUnsafe) {
		t.Fatal(err, r.Problems)
	}
	for text, all := range map[string]string{
		`operator policy "p" (max-length 20) is in force for queue "workers-Q-1-T" and 1 more: `: r.Problems[0].Error(),
		"; change its pattern, or give this lock's queues one of a higher priority":              r.Problems[0].Error(),
		`policy "q" (message-ttl 1) has a pattern that berth cannot read, "(?=w)"; if it matches queue "workers-Q-1-T" and 1 ` +
			`more: `: strings.Join(r.Advice, "\n"),
	} {
		if !strings.Contains(all, text) {
			t.Errorf("no %q in %q", text, all)
		}
	}
}

func TestNodesOnWhichALockDependsAreNamed(t *testing.T) {
	three := func(c string) string {
		return `[{"name":"rabbit@a","running":true},{"name":"rabbit@b","running":true},{"name":"rabbit@c","running":` + c + `}]`
	}
	ledger := func(members, online string) string {
		return `{"arguments":{},"leader":"rabbit@a","members":[` + members + `],"online":[` + online + `]}`
	}
	const abc, ab = `"rabbit@a","rabbit@b","rabbit@c"`, `"rabbit@a","rabbit@b"`
	for _, c := range []struct {
		lock          Lock
		nodes, ledger string
		has, lacks    []string
	}{
		{workers(), "", "", []string{"is a single node, rabbit@a, on which the lock depends"}, []string{"cluster"}},
		{workers(), three("true"), "", []string{"on classic queues, depends on single ones"}, []string{"does not run"}},
		{workers(onQuorum), three("true"), ledger(abc, abc), nil, []string{"node", "ledger"}},
		{workers(onQuorum), three("false"), ledger(abc, ab), []string{"rabbit@c, a node of the cluster, does not run",
			`queue "workers-Q-1-T", is not online on rabbit@c: no other of its nodes may be lost`}, nil},
		{workers(onQuorum), three("true"), ledger(ab, ab), []string{"is on 2 of the cluster's nodes, and survives the loss of none; " +
			"add one with rabbitmq-queues add_member -p / workers-Q-1-T NODE"}, nil},
		{workers(onQuorum), three("true"), "404", nil, []string{"ledger"}},
		{workers(func(l *Lock) { l.Plain = true }), three("true"), "", nil, []string{"node", "users"}},
	} {
		changed := map[string]string{}
		for path, text := range map[string]string{"/nodes": c.nodes, "/queues/%2F/workers-Q-1-T": c.ledger} {
			if text != "" {
				changed[path] = text
			}
		}
		r, err := told(t, c.lock, changed)
		all := strings.Join(r.Advice, "\n")
		if err != nil || len(r.Unknown) > 0 {
			t.Fatal(err, r.Unknown)
		}
		for _, text := range c.has {
			if !strings.Contains(all, text) {
				t.Errorf("%s: no %q in %q", c.nodes, text, all)
			}
		}
		for _, text := range c.lacks {
			if strings.Contains(all, text) {
				t.Errorf("%s: %q in %q", c.nodes, text, all)
			}
		}
	}
}

func TestOtherWritersAreNamed(t *testing.T) {
	permission := func(user, vhost, write string) string {
		return fmt.Sprintf(`{"user":%q,"vhost":%q,"configure":"","write":%q,"read":".*"}`, user, vhost, write)
	}
	r, err := told(t, workers(), map[string]string{"/permissions/": "[" + strings.Join([]string{
		permission("berth", "/", ".*"), permission("guest", "/", ".*"), permission("elsewhere", "other", ".*"),
		permission("reader", "/", ""), permission("orders", "/", "^orders"),
		permission("web", "/", `^amq\.default$`), permission("all", "/", ".*"), permission("binds", "/", "^workers-W$"),
		permission("perhaps", "/", "^(?!orders)"),
	}, ",") + "]"})
	if want := []string{"all", "binds", "perhaps", "web"}; err != nil || !slices.Equal(r.Writers, want) {
		t.Errorf("got %q, %v, want %q", r.Writers, err, want)
	}
	if all := strings.Join(r.Advice, "\n"); !strings.Contains(all, `delay handovers: "all", "binds", "perhaps", "web"; give`) {
		t.Errorf("advice: %q", all)
	}
}

// What a user may not see is neither fine nor in the way of the rest.
func TestWhatTheUserMayNotSeeIsNotKnown(t *testing.T) {
	const inside = "permissions in the virtual host, or the tag administrator"
	for path, c := range map[string]struct{ about, need string }{
		"/nodes":                    {AboutNodes, "the tag monitoring"},
		"/queues/%2F/workers-Q-1-T": {AboutLedger, inside},
		"/policies/%2F":             {AboutPolicies, inside},
		"/operator-policies/%2F":    {AboutPolicies, inside},
		"/permissions/":             {AboutWriters, "the tag administrator"},
	} {
		for status, kind := range map[string]error{"401": lock.ErrDenied, "403": lock.ErrDenied, "500": lock.ErrUnknown,
			"<": lock.ErrUnknown} {
			r, err := told(t, workers(onQuorum), map[string]string{path: status})
			if err != nil || len(r.Unknown) != 1 || !errors.Is(r.Unknown[c.about], kind) {
				t.Errorf("%s: %v, %v", path, err, r.Unknown)
			}
			if says := fmt.Sprint(r.Unknown[c.about]); kind == lock.ErrDenied && says != `user "berth" needs `+c.need {
				t.Errorf("%s: %s", path, says)
			}
		}
	}
}

// RabbitMQ 4 denies that there is a virtual host of others.
func TestVirtualHostThatIsNotShownHasNoAbsentLedger(t *testing.T) {
	r, err := told(t, workers(onQuorum), map[string]string{"/policies/%2F": "404", "/queues/%2F/workers-Q-1-T": "404"})
	if err != nil || !errors.Is(r.Unknown[AboutPolicies], lock.ErrDenied) || !errors.Is(r.Unknown[AboutLedger], lock.ErrDenied) {
		t.Errorf("%v, %v", r.Unknown, err)
	}
}

func TestAPIThatTellsNothingIsAnError(t *testing.T) {
	for status, kind := range map[string]error{"401": lock.ErrDenied, "404": lock.ErrUnknown} {
		if _, err := told(t, workers(), map[string]string{"/whoami": status}); !errors.Is(err, kind) ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", status, err)
		}
	}
}
