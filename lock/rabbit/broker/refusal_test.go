package broker

import (
	"context"
	"net"
	"strings"
	"testing"
)

// A server that does not like the client's certificate may have closed the connection before its alert was read.
func TestClosedTLSIsToldWithWhatToDo(t *testing.T) {
	n, err := Parse("amqps://localhost")
	if err != nil {
		t.Fatal(err)
	}
	told := refused(context.Background(), context.Background(), net.ErrClosed, n,
		failure{own: &identity{}, greeting: &greeting{}, connected: true})
	if !strings.Contains(told.Error(), "give --tls-cert and --tls-key") {
		t.Errorf("it says: %v", told)
	}
}

func TestForeignTextIsPrintedOnOneLine(t *testing.T) {
	const text = "a\n\tb \x1b[2J\a \u202e\xff café 'x'"
	if got, want := OneLine(text), `a b \x1b[2J\a \u202e\xff café 'x'`; got != want {
		t.Errorf("it became %q, want %q", got, want)
	}
}
