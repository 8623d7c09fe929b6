package interrupt

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"
)

func TestActionEndsWhenNobodyReadsIt(t *testing.T) {
	reads, writes, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer writes.Close()
	ctx, release, err := WhenUnread(context.Background(), writes)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if _, err := writes.WriteString("something"); err != nil || ctx.Err() != nil {
		t.Fatalf("ended while somebody may read: %v, %v", err, ctx.Err())
	}
	reads.Close()
	<-ctx.Done()
	if cause := context.Cause(ctx); !errors.Is(cause, Signalled{syscall.SIGPIPE}) {
		t.Errorf("the cause is %v", cause)
	}
}

func TestReleasedActionAwaitsNoReader(t *testing.T) {
	reads, writes, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reads.Close()
	defer writes.Close()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for _, file := range []*os.File{writes, null} {
		ctx, release, err := WhenUnread(context.Background(), file)
		if err != nil {
			t.Fatal(err)
		}
		release()
		if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
			t.Errorf("the cause is %v", cause)
		}
	}
}
