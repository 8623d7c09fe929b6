package relay

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// connect starts a relay, and a client of it.
func connect(t *testing.T, cfg Config) (*Relay, net.Conn) {
	t.Helper()
	r, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	client, err := net.Dial("tcp", r.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	_ = client.SetDeadline(time.Now().Add(20 * time.Second))
	return r, client
}

func TestServerThatIsNotThereIsTold(t *testing.T) {
	told := make(chan error, 1)
	_, client := connect(t, Config{To: "127.0.0.1:1", Failed: func(err error) { told <- err }})
	if _, err := io.ReadAll(client); err != nil {
		t.Errorf("the client reads: %v", err)
	}
	if <-told == nil {
		t.Error("why is not told")
	}
}

func TestClosedRelayCutsWhatItPassesOn(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	passing := make(chan struct{}, 2)
	r, client := connect(t, Config{To: server.Addr().String(),
		Pass: func(ctx context.Context, _, _ net.Conn, _ bool) {
			passing <- struct{}{}
			<-ctx.Done()
		}})
	<-passing
	<-passing
	if !r.Connected() {
		t.Error("nobody is connected")
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if _, err := client.Read(make([]byte, 1)); err == nil {
		t.Error("the client reads something")
	}
	if r.Connected() {
		t.Error("somebody is still connected")
	}
}
