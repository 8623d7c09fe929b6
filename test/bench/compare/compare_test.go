package compare

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"berth/test/bench/measure"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEtcdMessages(t *testing.T) {
	const metrics = `# HELP grpc_server_msg_received_total Total number of RPC stream messages received.
# TYPE grpc_server_msg_received_total counter
grpc_server_msg_received_total{grpc_method="LeaseKeepAlive",grpc_type="bidi_stream"} 40
grpc_server_msg_received_total{grpc_method="Put",grpc_type="unary"} 2
grpc_server_msg_received_total{grpc_method="Watch",grpc_type="bidi_stream"} 1
grpc_server_msg_sent_total{grpc_method="LeaseKeepAlive",grpc_type="bidi_stream"} 39
grpc_server_msg_sent_total{grpc_method="Watch",grpc_type="bidi_stream"} 1e+01
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

// entry is a line of berth's trace log, at some seconds of a minute.
func entry(at, event string) string {
	return fmt.Sprintf(`{"@message":"state","@timestamp":"2030-01-02T03:04:%sZ","event":%q}`, at, event) + "\n"
}

// The logs of a handover, in which the waiter tried in vain before the slot was given
// back.
var (
	holderLog = entry("05.000100", "started") +
		`{"@message":"command ended","@timestamp":"2030-01-02T03:04:06.000900Z","status":0}` + "\n" +
		entry("06.001000", "tree died")
	waiterLog = entry("05.500000", "woken") + entry("05.501000", "not acquired") +
		entry("06.003000", "woken") + entry("06.006000", "acquired") + entry("06.010000", "ready and verified")
)

func TestPartsOfAHandoverAreReadFromLogs(t *testing.T) {
	start := time.Date(2030, 1, 2, 3, 4, 6, 0, time.UTC)
	clock := func(at time.Time) int64 { return at.Sub(start).Microseconds() }
	got, err := readParts([]byte(holderLog), []byte(waiterLog), clock)
	if want := []int64{900, 1000, 3000, 6000, 10000}; err != nil || !slices.Equal(got, want) {
		t.Errorf("the parts end at %v, not %v: %v", got, want, err)
	}
}

func TestPartThatWasOverBeforeTheHandoverIsLeftOut(t *testing.T) {
	start := time.Date(2030, 1, 2, 3, 4, 6, 0, time.UTC)
	clock := func(at time.Time) int64 { return at.Sub(start).Microseconds() }
	early := entry("05.500000", "woken") + entry("05.600000", "acquired") + entry("06.002000", "ready and verified")
	got, err := readParts([]byte(holderLog), []byte(early), clock)
	if want := []int64{900, 1000, 0, 0, 2000}; err != nil || !slices.Equal(got, want) {
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
