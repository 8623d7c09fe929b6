package rabbit_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"berth/lock"
)

// outsider returns a channel of a user that may publish, and is no administrator.
func outsider(t *testing.T) *amqp.Channel {
	t.Helper()
	must(t, shared.AddUser(within(t), "stranger", "right"))
	must(t, shared.SetPermissions(within(t), "stranger", "/", ".*", ".*", ".*"))
	return channelOf(t, shared.URLFor("stranger", "right", "/"))
}

func channelOf(t *testing.T, url string) *amqp.Channel {
	t.Helper()
	conn, err := amqp.Dial(url)
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	ch, err := conn.Channel()
	must(t, err)
	return ch
}

// ask is a request as somebody else may make it.
func ask(user, content string) amqp.Publishing {
	return amqp.Publishing{UserId: user, CorrelationId: "x", Headers: amqp.Table{"content": content}}
}

func TestWhatIsNoRequestOfAnAdministratorChangesNothing(t *testing.T) {
	id := fresh(lock.Mutex)
	l, h := holding(t, id, long)
	next := refused(t, at(shared.URL()), id)
	untilWoken(t, next)
	awaitSuccessor(t, id)
	i := inspector(t, at(shared.URL()), id)
	verbs, asked := answering(t, l, says("one", 1)), answering(t, next, says("two", 0))
	for who, ch := range map[string]*amqp.Channel{"stranger": outsider(t), "guest": channelOf(t, shared.URL())} {
		returned := ch.NotifyReturn(make(chan amqp.Return, 100))
		requests := []amqp.Publishing{
			ask("", `{"request":"step-down"}`),
			ask(who, `{"request":"step-down"`),
			ask(who, `{"request":"STOP"}`),
			ask(who, `{"request":["step-down"]}`),
			ask(who, `{"request":null}`),
			ask(who, `"step-down"`),
			ask(who, strings.Repeat("[", 100_000)),
			ask(who, `{"request":"step-down","x":"`+strings.Repeat("x", 100_000)+`"}`),
			{UserId: who, Body: []byte(`{"request":"step-down"}`)},
			{UserId: who, Body: make([]byte, 1<<20)},
			{UserId: who, Headers: amqp.Table{"content": int64(7)}},
			{UserId: who, Headers: amqp.Table{"content": amqp.Table{"request": "step-down"}}},
			{UserId: who, ReplyTo: id.Name + "-1-T", Headers: amqp.Table{"content": `{"request":"step-down"}`}},
			{UserId: who, ReplyTo: "amq.rabbitmq.reply-to", Headers: amqp.Table{"content": `{"request":"go"}`}},
		}
		if who == "stranger" {
			requests = append(requests, ask(who, `{"request":"status"}`), ask(who, `{"request":"step-down"}`),
				ask(who, `{"request":"reload"}`), ask(who, `{"request":"reclaim","term":1}`))
		}
		_, err := ch.Consume("amq.rabbitmq.reply-to", "", true, false, false, false, nil)
		must(t, err)
		for _, r := range requests {
			for _, queue := range []string{id.Name + "-1-B", id.Name + "-1-T"} {
				must(t, ch.PublishWithContext(within(t), "", queue, true, false, r))
			}
		}
		// The successor has nothing to step down from.
		must(t, ch.PublishWithContext(within(t), "", id.Name+"-1-T", true, false, ask(who, `{"request":"step-down"}`)))
		_, err = ch.QueueDeclarePassive(id.Name+"-1-T", true, false, false, false, nil) // all of it has been routed
		must(t, err)
		if len(returned) > 0 {
			t.Errorf("%s: %v came back", who, <-returned)
		}
	}
	seen(t, i, "1 held by one next two; 1 wait") // is read after all of it
	for _, got := range append(verbs(), asked()...) {
		if got != lock.AskStatus {
			t.Errorf("accepted: %s", got)
		}
	}
	if n := len(verbs()); n > 20 {
		t.Errorf("asked %d times", n)
	}
	must(t, h.Verify(within(t)))
	must(t, h.Release(within(t)))
}

// A user of another name may ask if it is named, and nobody else may then.
func TestAdministratorsAreThoseThatAreNamed(t *testing.T) {
	t.Parallel()
	outsider(t)
	id := fresh(lock.Mutex)
	cfg := at(shared.URL())
	cfg.Heartbeat, cfg.Contention.Admins = long, []string{"stranger"}
	contenders := backend(t, cfg)
	l := contenders.Lock(id)
	t.Cleanup(func() { l.Close() })
	must(t, l.Connect(within(t)))
	h, err := l.Acquire(within(t))
	must(t, err)
	start(t, h)
	answering(t, l, says("one", 1))
	seen(t, inspector(t, at(shared.URL()), id), "1 held (its holder does not answer; the name of its connection to the broker has its host and pid); 0 wait")
	theirs := inspector(t, at(shared.URLFor("stranger", "right", "/")), id)
	seen(t, theirs, "1 held by one; 0 wait")
	contenders.SetAdmins(nil) // its own user again, while it holds the slot
	seen(t, inspector(t, at(shared.URL()), id), "1 held by one; 0 wait")
	seen(t, theirs, "1 held (its holder does not answer; the name of its connection to the broker has its host and pid); 0 wait")
}

// heap returns how much memory is in use.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Whether of a stranger or of an administrator, who is not even listened to.
func TestFloodOfRequestsCostsNoMemory(t *testing.T) {
	id := fresh(lock.Mutex)
	l, h := holding(t, id, long)
	next := refused(t, at(shared.URL()), id)
	woken := untilWoken(t, next)
	awaitSuccessor(t, id)
	foreign, admin := outsider(t), channelOf(t, shared.URL())
	for _, ch := range []*amqp.Channel{foreign, admin} {
		must(t, ch.Confirm(false))
		_, err := ch.Consume("amq.rabbitmq.reply-to", "", true, false, false, false, nil)
		must(t, err)
	}
	ctx := within(t)
	flood := func(n int) {
		for k := range n {
			for who, ch := range map[string]*amqp.Channel{"stranger": foreign, "guest": admin} {
				r := ask(who, `{"request":"status"}`)
				r.ReplyTo = "amq.rabbitmq.reply-to"
				queue := fmt.Sprintf("%s-1-%c", id.Name, "BT"[k%2])
				confirm, err := ch.PublishWithDeferredConfirmWithContext(ctx, "", queue, false, false, r)
				must(t, err)
				if k%100 == 0 {
					_, err = confirm.WaitContext(ctx)
					must(t, err)
				}
			}
		}
	}
	flood(2000)
	before := heap()
	flood(8_000)
	eventually(t, "memory is as before", func() bool { return heap() < before+4<<20 })
	if n := len(l.Requests()) + len(next.Requests()); n == 0 || n > 8 {
		t.Errorf("%d requests wait", n)
	}
	connections(t, id, 2)
	eventually(t, "nothing of it is in the ledger", func() bool {
		q, _, err := shared.Queue(within(t), "/", id.Name+"-1-T")
		must(t, err)
		return q.Messages <= 2
	})
	must(t, h.Verify(within(t)))
	must(t, h.Release(within(t)))
	must(t, <-woken)
}

// The owner of B may answer whatever it likes.
func TestHostileAnswersAreDropped(t *testing.T) {
	id := fresh(lock.Mutex)
	ch := channelOf(t, shared.URL())
	_, err := ch.QueueDeclare(id.Name+"-1-B", false, false, true, false, amqp.Table{"x-max-length": 0})
	must(t, err)
	asked, err := ch.Consume(id.Name+"-1-B", "", true, true, false, false, nil)
	must(t, err)
	answers := []amqp.Publishing{
		{Body: make([]byte, 1<<20)},
		{Headers: amqp.Table{"content": strings.Repeat("x", 100_000)}},
		{Headers: amqp.Table{"content": `{"holder":"` + strings.Repeat("x", 20_000) + `"}`}},
		{Headers: amqp.Table{"content": `{"holder":"evil"}`}, CorrelationId: "other"},
		{Headers: amqp.Table{"content": `{"holder":"evil"}`}, CorrelationId: "-1"},
		{},
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for d := range asked {
			for _, a := range answers {
				if a.CorrelationId == "" {
					a.CorrelationId = d.CorrelationId
				} else {
					a.CorrelationId = strings.Split(d.CorrelationId, "-")[0] + a.CorrelationId
				}
				if ch.Publish("", d.ReplyTo, false, false, a) != nil {
					return
				}
			}
			last := amqp.Publishing{CorrelationId: d.CorrelationId,
				Headers: amqp.Table{"content": `{"holder":"a\u001b[2Jb","slot":1}`}}
			for range 3 {
				_ = ch.Publish("", d.ReplyTo, false, false, last)
			}
		}
	}()
	i := inspector(t, at(shared.URL()), id)
	for range 10 {
		s, err := i.Look(within(t))
		must(t, err)
		if got := describe(s); got != "1 held by a?[2Jb; 0 wait" {
			t.Fatal(got)
		}
	}
	before := heap()
	for range 30 {
		_, err := i.Look(within(t))
		must(t, err)
	}
	eventually(t, "memory is as before", func() bool { return heap() < before+8<<20 })
	must(t, ch.Close())
	<-ended
}

// Under an alarm several cannot be asked at once, and what is held shows all the same.
func TestStatusUnderAnAlarm(t *testing.T) {
	id := fresh(lock.Semaphore)
	resize(t, shared, id, 2)
	defer resize(t, shared, id, 0)
	l, h := holding(t, id, long)
	answering(t, l, says("one", 1))
	i := inspector(t, at(shared.URL()), id)
	seen(t, i, "1 held by one, 2 free; 0 wait")
	raiseAlarm(t)
	for _, i := range []lock.Inspector{i, inspector(t, at(shared.URL()), id)} {
		eventually(t, "it is seen", func() bool {
			s, err := i.Look(within(t))
			must(t, err)
			return len(s.Slots) == 2 && s.Slots[0].State == lock.SlotHeld && s.Slots[1].State == lock.SlotFree &&
				strings.Contains(s.Slots[0].Problem, "berths cannot be asked")
		})
		s, err := i.Look(within(t))
		must(t, err)
		if got := s.Slots[0].Problem; got != "berths cannot be asked: the broker blocks publishers, because of an alarm" {
			t.Error(got)
		}
	}
	must(t, proven(within(t), h))
	must(t, shared.ClearMemoryAlarm(within(t)))
	seen(t, i, "1 held by one, 2 free; 0 wait")
}

// A single request is the one message of a connection that the broker takes then.
func TestHolderStepsDownUnderAnAlarm(t *testing.T) {
	id := fresh(lock.Mutex)
	l, _ := holding(t, id, long)
	answering(t, l, says("one", 1))
	i := inspector(t, at(shared.URL()), id)
	raiseAlarm(t)
	seen(t, i, "1 held by one; 0 wait")
	eventually(t, "the holder accepts it", func() bool {
		answer, err := i.Ask(within(t), 1, lock.AskStepDown)
		return err == nil && strings.Contains(string(answer), `"heeded":true`)
	})
}

// An asker that is gone is no error, and holds nothing up.
func TestAskerThatIsGoneIsNoError(t *testing.T) {
	t.Parallel()
	id := fresh(lock.Mutex)
	l, _ := holding(t, id, long)
	i := inspector(t, at(shared.URL()), id)
	looked := make(chan error, 1)
	go func() {
		_, err := i.Look(within(t))
		looked <- err
	}()
	r := <-l.Requests()
	must(t, <-looked)
	must(t, i.Close())
	must(t, r.Reply(within(t), []byte(`{}`)))
	if err := r.Reply(within(t), make([]byte, 1<<20)); err == nil {
		t.Error("an answer of any length is sent")
	}
	answering(t, l, says("one", 1)) // others are answered
	seen(t, inspector(t, at(shared.URL()), id), "1 held by one; 0 wait")
	must(t, l.Close())
	_ = r.Reply(within(t), []byte(`{}`))
}
