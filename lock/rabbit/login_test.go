package rabbit_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/lock"
	"berth/lock/rabbit"
)

func TestNewRefusesWhatCannotWork(t *testing.T) {
	const secret = "s3cr3t"
	for name, c := range map[string]struct {
		cfg  rabbit.Config
		says string
	}{
		"no URL":            {rabbit.Config{}, "--broker"},
		"scheme":            {at("http://u:" + secret + "@h"), "amqp://"},
		"no scheme":         {at("u:" + secret + "@h"), "amqp://"},
		"unescaped":         {at("amqp://u:" + secret + "%zz@h"), "percent-encode"},
		"a space":           {at("amqp://u:" + secret + "@h/a b"), "%20"},
		"second URL":        {at("amqp://h", "amqp://u:"+secret+"@h?channel_max=x"), "URL 2"},
		"mechanism":         {at("amqp://u:" + secret + "@h?auth_mechanism=magic"), "magic"},
		"naming":            {rabbit.Config{URLs: []string{"amqp://h"}, Naming: "L-N"}, "L-N"},
		"broken heartbeat":  {rabbit.Config{URLs: []string{"amqp://h"}, Heartbeat: 1500 * time.Millisecond}, "1.5s"},
		"endless heartbeat": {rabbit.Config{URLs: []string{"amqp://h"}, Heartbeat: 100 * time.Hour}, "60s"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := rabbit.New(c.cfg)
			if err == nil {
				t.Fatal("accepted")
			}
			readable(t, err, c.says)
			if strings.Contains(err.Error(), secret) {
				t.Errorf("it shows the password: %v", err)
			}
		})
	}
}

// readable makes sure that an error is one line and mentions what it should.
func readable(t *testing.T, err error, mentions ...string) {
	t.Helper()
	for _, m := range mentions {
		if !strings.Contains(err.Error(), m) {
			t.Errorf("%q does not mention %q", err, m)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("more than one line: %q", err)
	}
}

// connectTo tries to connect and makes sure that it fails as it should.
func connectTo(t *testing.T, want error, mentions []string, urls ...string) {
	t.Helper()
	l := backend(t, at(urls...)).Lock(fresh(lock.Mutex))
	defer l.Close()
	err := l.Connect(within(t))
	if !errors.Is(err, want) {
		t.Fatalf("connecting: %v; want %v", err, want)
	}
	readable(t, err, mentions...)
	if strings.Contains(err.Error(), "wr0ng") {
		t.Errorf("it shows the password: %v", err)
	}
}

func TestWrongPasswordIsDenied(t *testing.T) {
	must(t, shared.AddUser(within(t), "someone", "right"))
	connectTo(t, lock.ErrDenied, []string{"someone", "check user and password"}, shared.URLFor("someone", "wr0ng", "/"))
	connectTo(t, lock.ErrDenied, []string{"someone", "without a password", "--password-file", "--login external"},
		strings.Replace(shared.URL(), "guest:guest@", "someone@", 1))
}

func TestMissingVhostIsDenied(t *testing.T) {
	must(t, shared.AddUser(within(t), "someone", "right"))
	connectTo(t, lock.ErrDenied, []string{`"nowhere"`, "create"}, shared.URLFor("someone", "right", "nowhere"))
}

func TestForbiddenVhostIsDenied(t *testing.T) {
	must(t, shared.AddUser(within(t), "someone", "right"))
	connectTo(t, lock.ErrDenied, []string{`"/"`, "permit"}, shared.URLFor("someone", "right", "/"))
}

func TestMissingPermissionIsNamed(t *testing.T) {
	id := fresh(lock.Semaphore)
	resize(t, shared, id, 1)
	defer resize(t, shared, id, 0)
	must(t, shared.AddUser(within(t), "limited", "right"))
	for _, c := range []struct {
		configure, write, read string
		mentions               []string
	}{
		{"", ".*", ".*", []string{"configure", id.Name + "-1-B"}},
		{".*", "", ".*", []string{"write", "amq.default"}},
		{".*", ".*", "", []string{"read", id.Name + "-1-T"}},
	} {
		must(t, shared.SetPermissions(within(t), "limited", "/", c.configure, c.write, c.read))
		l := backend(t, at(shared.URLFor("limited", "right", "/"))).Lock(id)
		must(t, l.Connect(within(t)))
		_, err := l.Acquire(within(t))
		if !errors.Is(err, lock.ErrDenied) {
			t.Errorf("without %v: %v", c.mentions[0], err)
		} else {
			readable(t, err, c.mentions...)
		}
		eventuallyFree(t, id)
		must(t, l.Close())
	}
}

// limited returns a contender whose user may not read B.
func limited(t *testing.T, id lock.ID) (l lock.Lock, said func(string) int) {
	t.Helper()
	must(t, shared.AddUser(within(t), "limited", "right"))
	must(t, shared.SetPermissions(within(t), "limited", "/", ".*", ".*", ".*-[TW]$"))
	cfg, said := journal()
	cfg.URLs, cfg.Users = []string{shared.URLFor("limited", "right", "/")}, []string{"guest"}
	l = backend(t, cfg).Lock(id)
	t.Cleanup(func() { l.Close() })
	must(t, l.Connect(within(t)))
	return l, said
}

func TestHolderThatMayNotReadItsQueueSaysSoOnce(t *testing.T) {
	t.Parallel()
	id := fresh(lock.Mutex)
	first, h := holding(t, id, long)
	must(t, h.Release(within(t)))
	must(t, first.Close())
	l, said := limited(t, id)
	h, err := l.Acquire(within(t))
	must(t, err)
	rabbit.TakeBAfter(h, 0)
	must(t, h.Ready(within(t)))
	eventually(t, "it is said", func() bool { return said(id.Name+"-1-B") > 0 })
	over := time.Now().Add(1500 * time.Millisecond) // it asked again after half a second
	eventually(t, "it could be said again", func() bool { return time.Now().After(over) })
	if n := said("read permission"); n != 1 {
		t.Errorf("said %d times, not once", n)
	}
	must(t, h.Verify(within(t)))
	cut(t, id)
	<-h.Lost()
}

func TestNothingThatListensIsUnreachable(t *testing.T) {
	connectTo(t, lock.ErrUnreachable, []string{"refused", "127.0.0.1:1"}, "amqp://u:wr0ng@127.0.0.1:1")
}

// speaker is a server that is no broker: says greeting, then reads until the
// client has gone.
func speaker(t *testing.T, answer func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			answer(c)
			_, _ = io.Copy(io.Discard, c)
			c.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return "amqp://u:wr0ng@" + l.Addr().String()
}

func TestServerThatIsNoBrokerIsUnreachable(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(net.Conn){
		"HTTP": func(c net.Conn) {
			_, _ = bufio.NewReader(c).Peek(8)
			fmt.Fprint(c, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\nno")
		},
		"SSH":      func(c net.Conn) { fmt.Fprint(c, "SSH-2.0-OpenSSH_9.2p1\r\n") },
		"AMQP 1.0": amqp10,
		"hangs up": hangUp,
		"resets":   reset,
		"is mute":  func(net.Conn) {},
	} {
		t.Run(name, func(t *testing.T) {
			connectTo(t, lock.ErrUnreachable, []string{"no AMQP 0-9-1 broker answered"}, speaker(t, answer))
		})
	}
}

func amqp10(c net.Conn) {
	fmt.Fprint(c, "AMQP\x00\x01\x00\x00")
	c.Close()
}

func hangUp(c net.Conn) { c.Close() }

// reset waits for a byte: the client has its connection then.
func reset(c net.Conn) {
	_, _ = c.Read(make([]byte, 1))
	_ = c.(*net.TCPConn).SetLinger(0)
	c.Close()
}

// Whether the end is noticed in reading or in writing differs from one time to
// the next.
func TestServerThatHangsUpIsToldTheSameWayEachTime(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(net.Conn)
		scheme string
	}{
		"AMQP 1.0":          {amqp10, "amqp:"},
		"hangs up":          {hangUp, "amqp:"},
		"resets":            {reset, "amqp:"},
		"hangs up, for TLS": {hangUp, "amqps:"},
		"resets, for TLS":   {reset, "amqps:"},
	} {
		t.Run(name, func(t *testing.T) {
			url := c.scheme + strings.TrimPrefix(speaker(t, c.answer), "amqp:")
			for range 100 {
				connectTo(t, lock.ErrUnreachable, []string{"no AMQP 0-9-1 broker answered"}, url)
			}
		})
	}
}

func TestConnectEndsWithCtxWhenNobodyAnswers(t *testing.T) {
	l := backend(t, at(speaker(t, func(net.Conn) {}))).Lock(fresh(lock.Mutex))
	ctx, cancel := shortly()
	defer cancel()
	if err := l.Connect(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("connecting: %v", err)
	}
}

func TestLaterURLsAreTriedAfterTheFirst(t *testing.T) {
	must(t, shared.AddUser(within(t), "someone", "right"))
	id := fresh(lock.Mutex)
	for _, first := range []string{"amqp://127.0.0.1:1", shared.URLFor("someone", "wr0ng", "/")} {
		l := backend(t, at(first, shared.URL())).Lock(id)
		must(t, l.Connect(within(t)))
		h, err := l.Acquire(within(t))
		must(t, err)
		must(t, h.Release(within(t)))
		must(t, l.Close())
	}
	connectTo(t, lock.ErrDenied, []string{"password", "127.0.0.1:1"}, "amqp://127.0.0.1:1",
		shared.URLFor("someone", "wr0ng", "/"))
}

func TestLowerHeartbeatOfTheBrokerIsUnsafe(t *testing.T) {
	_, err := shared.Eval(within(t), `application:set_env(rabbit, heartbeat, 2).`)
	must(t, err)
	defer func() {
		_, err := shared.Eval(within(t), `application:set_env(rabbit, heartbeat, 60).`)
		must(t, err)
	}()
	connectTo(t, lock.ErrUnsafe, []string{"2s", "5s", "--heartbeat"}, shared.URL())
	cfg := at(shared.URL())
	cfg.Heartbeat = 2 * time.Second
	l := backend(t, cfg).Lock(fresh(lock.Mutex))
	defer l.Close()
	must(t, l.Connect(within(t)))
	h, err := l.Acquire(within(t))
	must(t, err)
	if h.Lease() != 4*time.Second {
		t.Errorf("a lease of %s with a heartbeat of 2s", h.Lease())
	}
	id := fresh(lock.Semaphore) // administration has no lease
	resize(t, shared, id, 1)
	resize(t, shared, id, 0)
}

func TestConnectionsAreNamedAfterWhatTheyDo(t *testing.T) {
	id := fresh(lock.Semaphore)
	resize(t, shared, id, 1)
	defer resize(t, shared, id, 0)
	_, _ = holder(t, shared, id)
	a := backend(t, at(shared.URL())).Administrator(id)
	defer a.Close()
	var names []string
	_, _, err := a.Resize(within(t), 0, func(present int) (int, error) {
		all, err := shared.Connections(within(t))
		must(t, err)
		for _, c := range all {
			if strings.Contains(c.ClientName, id.Name) {
				names = append(names, c.ClientName)
			}
		}
		return present, nil
	})
	must(t, err)
	slices.Sort(names)
	names = slices.Compact(names) // an earlier one may still be on its way out
	prefix := "berth semaphore " + id.Name + " @here pid 7 "
	want := []string{prefix + "(administration)", prefix + "(holding)"}
	if !slices.Equal(names, want) {
		t.Errorf("connections %q, want %q", names, want)
	}
}
