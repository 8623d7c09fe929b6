package logging

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMessageOfOneLineKeepsTheSpacesOfNames(t *testing.T) {
	if got := OneLine(errors.New("create it with: berth semaphore create 'a  b'\nor not")); got != "create it with: "+
		"berth semaphore create 'a  b' or not" {
		t.Errorf("it became %q", got)
	}
}

func TestLogThatNobodyReadsKeepsNobody(t *testing.T) {
	read, write := io.Pipe() // no room at all
	b := newBackground(write, false)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range room + 10 {
			_, _ = b.Write([]byte("line\n"))
		}
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("logging waited for a reader")
	}
	lines := make(chan string, 1)
	go func() {
		all, _ := io.ReadAll(read)
		lines <- string(all)
	}()
	b.close()
	write.Close()
	if got := <-lines; !strings.Contains(got, "log lines are missing here") {
		t.Error("the reader is not told that lines are missing")
	}
}

func TestEveryLogLineIsWrittenBeforeTheEnd(t *testing.T) {
	for range 2000 { // the lines and the end can come at once
		var out bytes.Buffer
		b := newBackground(&out, true)
		for range 3 {
			_, _ = b.Write([]byte("line\n"))
		}
		b.close()
		if got := strings.Count(out.String(), "line\n"); got != 3 {
			t.Fatalf("%d lines, want 3", got)
		}
	}
}
