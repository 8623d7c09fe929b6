package compare

import (
	"slices"
	"strings"
	"testing"
	"time"

	"berth/test/bench/measure"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
	if want := (measure.Messages{Requests: 3, Keepalives: 40, Answers: 10}); err != nil || got != want {
		t.Errorf("%+v, not %+v: %v", got, want, err)
	}
	if _, err := etcdMessages("go_goroutines 92\n"); err == nil {
		t.Error("metrics without the counters are taken for silence")
	}
	if _, err := etcdMessages("grpc_server_msg_received_total many\n"); err == nil {
		t.Error("a counter that is no number is taken")
	}
}

// The logs of a handover, in which the waiter tried in vain before the slot was given
// back.
const (
	holderLog = `{"@message":"state","@timestamp":"2030-01-02T03:04:05.000100Z","event":"started","from":"starting","to":"running"}
{"@message":"command ended","@timestamp":"2030-01-02T03:04:06.000900Z","status":0}
{"@message":"state","@timestamp":"2030-01-02T03:04:06.001000Z","event":"tree dead","from":"running","to":"releasing"}
`
	waiterLog = `{"@message":"state","@timestamp":"2030-01-02T03:04:05.500000Z","event":"woken","from":"waiting","to":"attempting"}
{"@message":"state","@timestamp":"2030-01-02T03:04:05.501000Z","event":"not acquired","from":"attempting","to":"waiting"}
{"@message":"state","@timestamp":"2030-01-02T03:04:06.003000Z","event":"woken","from":"waiting","to":"attempting"}
{"@message":"state","@timestamp":"2030-01-02T03:04:06.006000Z","event":"acquired","from":"attempting","to":"preparing"}
{"@message":"state","@timestamp":"2030-01-02T03:04:06.010000Z","event":"ready and verified","from":"preparing","to":"starting"}
`
)

func TestPartsOfAHandoverAreReadFromLogs(t *testing.T) {
	start := time.Date(2030, 1, 2, 3, 4, 6, 0, time.UTC)
	clock := func(at time.Time) int64 { return at.Sub(start).Microseconds() }
	got, err := readParts([]byte(holderLog), []byte(waiterLog), clock)
	if want := []int64{1000, 3000, 6000, 10000}; err != nil || !slices.Equal(got, want) {
		t.Errorf("the parts end at %v, not %v: %v", got, want, err)
	}
}

func TestLogWithoutAPartIsRefused(t *testing.T) {
	renamed := strings.ReplaceAll(waiterLog, `"acquired"`, `"obtained"`)
	for name, log := range map[string]string{"a renamed event": renamed, "no JSON": "berth: hello\n", "nothing": ""} {
		if got, err := readParts([]byte(holderLog), []byte(log), time.Time.UnixNano); err == nil {
			t.Errorf("%s is read as %v", name, got)
		}
	}
}
