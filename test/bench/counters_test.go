package main

import (
	"strings"
	"testing"
)

func TestEtcdMessages(t *testing.T) {
	const metrics = `# HELP grpc_server_msg_received_total Total number of RPC stream messages received on the server.
# TYPE grpc_server_msg_received_total counter
grpc_server_msg_received_total{grpc_method="LeaseKeepAlive",grpc_service="etcdserverpb.Lease",grpc_type="bidi_stream"} 40
grpc_server_msg_received_total{grpc_method="Put",grpc_service="etcdserverpb.KV",grpc_type="unary"} 2
grpc_server_msg_received_total{grpc_method="Watch",grpc_service="etcdserverpb.Watch",grpc_type="bidi_stream"} 1
grpc_server_msg_sent_total{grpc_method="LeaseKeepAlive",grpc_service="etcdserverpb.Lease",grpc_type="bidi_stream"} 39
grpc_server_msg_sent_total{grpc_method="Watch",grpc_service="etcdserverpb.Watch",grpc_type="bidi_stream"} 1e+01
go_goroutines 92
`
	got, err := etcdMessages(metrics)
	if want := (messages{requests: 3, keepalives: 40, answers: 10, keepaliveAnswers: 39}); err != nil || got != want {
		t.Errorf("%+v, not %+v: %v", got, want, err)
	}
	if _, err := etcdMessages("go_goroutines 92\n"); err == nil {
		t.Error("metrics without the counters are taken for silence")
	}
	if _, err := etcdMessages("grpc_server_msg_received_total many\n"); err == nil {
		t.Error("a counter that is no number is taken")
	}
}

func TestConsulMessages(t *testing.T) {
	const both = `consul_http_GET_v1_kv__{quantile="0.5"} 0.2
consul_http_GET_v1_kv___count 7
consul_http_GET_v1_agent_metrics_count 5
consul_http_PUT_v1_session_renew___count 30
consul_api_http_count{method="GET",path="v1_kv__"} 7
consul_api_http_count{method="GET",path="v1_agent_metrics"} 5
consul_api_http_count{method="PUT",path="v1_session_renew__"} 30
consul_raft_apply 12
`
	lines := strings.SplitAfter(both, "\n")
	for name, metrics := range map[string]string{
		"1.8": strings.Join(lines[:4], ""), "1.9": both, "1.12": strings.Join(lines[4:], ""),
	} {
		got, err := consulMessages(metrics)
		if want := (messages{requests: 7, keepalives: 30, answers: 7, keepaliveAnswers: 30}); err != nil || got != want {
			t.Errorf("%s: %+v, not %+v: %v", name, got, want, err)
		}
	}
	if _, err := consulMessages("consul_raft_apply 12\n"); err == nil {
		t.Error("metrics without the counters are taken for silence")
	}
}

func TestMessagesPerSecond(t *testing.T) {
	before := messages{requests: 10, answers: 20, keepalives: 30, keepaliveAnswers: 40}
	after := messages{requests: 40, answers: 35, keepalives: 33, keepaliveAnswers: 40}
	if got, want := after.perSecond(30, before), (messages{requests: 1, answers: 0.5, keepalives: 0.1}); got != want {
		t.Errorf("%+v, not %+v", got, want)
	}
}

func TestMemoryIsReadFromRollup(t *testing.T) {
	const rollup = `00400000-7ffd7b1f3000 ---p 00000000 00:00 0                              [rollup]
Rss:                9000 kB
Pss:                4200 kB
Pss_Anon:           3000 kB
Shared_Clean:       5000 kB
Private_Clean:       800 kB
Private_Dirty:      3200 kB
`
	got, err := readRollup(rollup)
	if want := (footprint{private: 4000, pss: 4200}); err != nil || got != want {
		t.Errorf("%+v, not %+v: %v", got, want, err)
	}
	if _, err := readRollup("00400000-7ffd7b1f3000 ---p 00000000 00:00 0 [rollup]\n"); err == nil {
		t.Error("a rollup without Pss is taken for no memory at all")
	}
}
