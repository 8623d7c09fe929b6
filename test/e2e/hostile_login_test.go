package e2e

import (
	"bytes"
	bigendian "encoding/binary"
	"io"
	"math"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"
)

// startFrame is how a broker begins that takes passwords.
var startFrame = amqpMethod(10<<16|10, 0, 9, 0, 0, 0, 0, 0, 0, 0, 5, 'P', 'L', 'A', 'I', 'N', 0, 0, 0, 5, 'e', 'n', '_', 'U', 'S')[0]

// endlessly says it until nobody listens any more.
func endlessly(to io.Writer, what []byte) {
	what = bytes.Repeat(what, 1+10_000/len(what))
	for {
		if _, err := to.Write(what); err != nil {
			return
		}
	}
}

// login reads what a client says first, has it log in, and waits until it does.
func login(c net.Conn) {
	_, _ = io.ReadFull(c, make([]byte, 8))
	_, _ = c.Write(startFrame)
	_, _ = readFrame(c)
}

// Whatever a server says to one that logs in: an attempt ends, with what is wrong, and so does berth when it is told to.
func TestServerThatMeansIllDuringTheLoginHoldsUpNobody(t *testing.T) {
	t.Parallel()
	zeros := make([]byte, 10_000)
	const no, broken = "no AMQP 0-9-1 broker answered", "breaks the protocol"
	for what, c := range map[string]struct {
		do     func(net.Conn)
		status int
		says   string
	}{
		"nothing":    {func(net.Conn) {}, 69, no},
		"garbage":    {func(c net.Conn) { endlessly(c, []byte("\x09\xffgarbage")) }, 69, no},
		"heartbeats": {func(c net.Conn) { endlessly(c, amqpFrame(8, 0)) }, 69, no},
		"a body":     {func(c net.Conn) { endlessly(c, amqpFrame(3, 1, zeros...)) }, 69, no},
		"HTTP":       {func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n") }, 69, no},
		"a frame of 4 GB": {func(c net.Conn) {
			_, _ = c.Write(bigendian.BigEndian.AppendUint32([]byte{1, 0, 0}, math.MaxUint32))
			endlessly(c, zeros)
		}, 69, no},
		"a table of 2 GB": {func(c net.Conn) {
			_, _ = c.Write(amqpFrame(1, 0, 0, 10, 0, 10, 0, 9, 0x7F, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0, 0, 0, 0, 0))
			endlessly(c, zeros)
		}, 69, no},
		"one byte at a time": {func(c net.Conn) {
			for range 10_000 {
				if _, err := c.Write(startFrame[:1]); err != nil {
					return
				}
				time.Sleep(time.Millisecond)
			}
		}, 69, no},
		"another start": {func(c net.Conn) {
			login(c)
			endlessly(c, startFrame)
		}, 69, "during the login"},
		"a channel too early": {func(c net.Conn) {
			login(c)
			endlessly(c, amqpMethod(ackMethod, append(longest, 1)...)[0])
		}, 69, broken},
		"what a terminal obeys": {func(c net.Conn) {
			login(c)
			text := "ACCESS_REFUSED \x1b[2J\a"
			_, _ = c.Write(amqpMethod(10<<16|50, append(append([]byte{1, 147, byte(len(text))}, text...), 0, 0, 0, 0)...)[0])
		}, 77, `ACCESS_REFUSED \x1b[2J\a`},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			url := "amqp://user:secret@" + serving(t, func(conn net.Conn) {
				c.do(conn)
				_, _ = io.Copy(io.Discard, conn) // it says nothing more
			}) + "/?connection_timeout=1000"
			for _, args := range [][]string{
				{"run", "--broker", url, "--mutex", "m", "--try", "--", "sh", "-c", plain},
				{"status", "--broker", url, "--mutex", "m"},
			} {
				b := do(t, c.status, args...)
				b.wantOneLine(c.says)
				if len(b.runs()) > 0 || strings.ContainsAny(b.stderr()+b.stdout(), "\x1b\a") {
					t.Errorf("after %d runs of the command it says %q", len(b.runs()), b.stderr()+b.stdout())
				}
			}
			if said := do(t, c.status, "check", "--connect", "--broker", url, "--mutex", "m").stdout(); !strings.Contains(
				strings.Join(strings.Fields(said), " "), c.says) || strings.ContainsAny(said, "\x1b\a") {
				t.Errorf("berth check says %q", said)
			}
			if c.status != 69 {
				return // nobody waits for that
			}
			b := start(t, "run", "--broker", url, "--mutex", "m", "--", "sh", "-c", plain)
			b.awaitLogs(2, "cannot connect")
			b.wantNoGrowth()
			b.signal(syscall.SIGTERM)
			until(t, "berth ends", b.ended)
			b.wantStatus(143)
			b.wantNothingLeft()
		})
	}
}

// serving returns the address of a server that does so with each that connects, and hangs up.
func serving(t testing.TB, do func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			do(c)
			c.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return l.Addr().String()
}

// What is agreed upon may be anything.
func TestTuningOfAnySortEndsInALoginOrWithWhatIsWrong(t *testing.T) {
	t.Parallel()
	tuning := func(from, to int, value ...byte) *harm {
		return &harm{change: func(method uint32, arguments []byte) bool {
			if method == tuneMethod {
				copy(arguments[from:to], value)
			}
			return false
		}}
	}
	small := 0
	if calmBroker(t).Since(4, 1) { // which wants 8192 bytes at least, and the library offers 4096 then
		small = 69
	}
	for what, c := range map[string]struct {
		harm   *harm
		status int
	}{
		"channels 0":        {tuning(0, 2, 0, 0), 0},
		"channels 1":        {tuning(0, 2, 0, 1), 75},
		"channels 65535":    {tuning(0, 2, 255, 255), 69}, // more than the broker itself allows
		"frames of 0":       {tuning(2, 6, 0, 0, 0, 0), 0},
		"frames of 1":       {tuning(2, 6, 0, 0, 0, 1), small},
		"frames of 65535":   {tuning(2, 6, 0, 0, 255, 255), 0},
		"frames of 4 GB":    {tuning(2, 6, 255, 255, 255, 255), 0},
		"heartbeats of 0":   {tuning(6, 8, 0, 0), 0},
		"heartbeats of 1 s": {tuning(6, 8, 0, 1), 78},
		"of 65535 s":        {tuning(6, 8, 255, 255), 0},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			v := newVillain(t, c.harm)
			b := do(t, c.status, "run", "--broker", v.url(t), "--mutex", unique("m"), "--try", "--", "sh", "-c",
				`echo "$BERTH_SLOT" >>"$E2E_DIR/runs"`)
			if ran := len(b.runs()) > 0; ran != (c.status == 0) {
				t.Errorf("the command has run: %v", ran)
			}
			b.wantNothingLeft()
		})
	}
}

// A server that counts wrongly does not start a second command.
func TestFalseCountsStartNoCommand(t *testing.T) {
	t.Parallel()
	m := unique("m")
	holder := start(t, "run", "--broker", calmBroker(t).URL(), "--mutex", m, "--", "sh", "-c", plain)
	holder.awaitRuns(1)
	for _, value := range []byte{0, 1, 255} {
		v := newVillain(t, &harm{change: func(method uint32, arguments []byte) bool {
			if method == declareOK {
				counts := arguments[len(arguments)-8:]
				copy(counts, bytes.Repeat([]byte{value}, len(counts)))
			}
			return false
		}})
		b := do(t, 75, "run", "--broker", v.url(t), "--mutex", m, "--try", "--", "sh", "-c", plain)
		if len(b.runs()) > 0 {
			t.Errorf("counts of %d: a second command was started", value)
		}
	}
	holder.stays()
}
