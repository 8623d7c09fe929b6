// Command single-consumer handles the messages of a queue one after the other, in their
// order. It is to run under berth, so that nobody else handles one at the same time:
//
//	export BERTH_BROKER=amqp://berth:secret@rabbit/locks AMQP_URL=amqp://orders:secret@rabbit
//	berth run --mutex orders-consumer --stop "TERM 30s, KILL" -- single-consumer -queue orders -journal orders.log
//
// On TERM it stops consuming, finishes and acknowledges what it has, and ends. Then the
// next one starts. If it is killed, or berth kills it, what it has not acknowledged is
// delivered to the next one: a message can be handled again, and never by two at once.
//
// Copy it, and put your work in place of handle.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	dialTimeout = 10 * time.Second

	// refusedFor is how long a consumer waits for the broker to notice that the last
	// one is gone: three heartbeats where its host fell silent.
	refusedFor = time.Minute

	// alive is how often a journal tells of a message that takes its time.
	alive = 5 * time.Millisecond
)

// consumer is what the command line says, and the journal.
type consumer struct {
	name, queue  string
	singleActive bool // without berth, for comparison
	leaveAtOnce  bool
	prefetch     int
	heartbeat    time.Duration
	journal      *os.File
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "single-consumer:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	var c consumer
	var file string
	host, _ := os.Hostname()
	flag.StringVar(&c.name, "name", host, "what the journal calls this host")
	flag.StringVar(&c.queue, "queue", "orders", "the queue, which is made if it is not there")
	flag.StringVar(&file, "journal", "", "the file that says what is done; standard output if it is left out")
	flag.IntVar(&c.prefetch, "prefetch", 20, "how many messages may wait here")
	flag.DurationVar(&c.heartbeat, "heartbeat", 5*time.Second, "as berth's, so that the broker notices both losses")
	flag.BoolVar(&c.singleActive, "single-active", false, "do without berth: be one of several, of which RabbitMQ "+
		"has one consume")
	flag.BoolVar(&c.leaveAtOnce, "leave-at-once", false, "on TERM finish one message, and give the others back")
	flag.Parse()
	c.journal = os.Stdout
	if file != "" {
		var err error
		if c.journal, err = os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644); err != nil {
			return err
		}
		defer c.journal.Close()
	}
	url := os.Getenv("AMQP_URL") // berth keeps its own, BERTH_BROKER, from its command
	if url == "" {
		return errors.New("no broker; set AMQP_URL=amqp://USER:PASSWORD@HOST/VHOST")
	}
	conn, err := amqp.DialConfig(url, amqp.Config{
		Heartbeat: c.heartbeat, Dial: amqp.DefaultDial(dialTimeout),
		Properties: amqp.Table{"connection_name": "single-consumer " + c.queue + " @" + c.name},
	})
	if err != nil {
		return fmt.Errorf("cannot connect to the broker: %w", err)
	}
	defer conn.Close()
	return c.consume(ctx, conn)
}

// consume handles messages until ctx ends.
func (c *consumer) consume(ctx context.Context, conn *amqp.Connection) error {
	channel, messages, err := c.begin(ctx, conn)
	switch {
	case ctx.Err() != nil:
		return nil // nothing has come
	case err != nil:
		return fmt.Errorf("cannot consume from queue %s: %w", c.queue, err)
	}
	told := ctx.Done()
	for {
		select {
		case <-told:
			if c.leaveAtOnce {
				return nil // the broker gives what is left here to the next one
			}
			told = nil
			if err := channel.Cancel(c.name, false); err != nil {
				return fmt.Errorf("cannot stop consuming: %w", err)
			}
		case message, more := <-messages:
			switch {
			case !more && told == nil && !conn.IsClosed():
				return nil // all that was here is acknowledged
			case !more:
				return errors.New("the broker has ended the consumer, or is gone")
			}
			if err := c.handle(message.Body); err != nil {
				return err // not acknowledged: somebody will do it
			}
			if err := message.Ack(false); err != nil {
				return fmt.Errorf("cannot acknowledge a message: %w", err)
			}
		}
	}
}

// begin makes the queue and consumes from it. The consumer is exclusive: one that
// lived a moment ago may still have messages that come before those in the queue, and
// the broker lets the next one in when it has them back.
func (c *consumer) begin(ctx context.Context, conn *amqp.Connection) (*amqp.Channel, <-chan amqp.Delivery, error) {
	for end := time.Now().Add(refusedFor); ; {
		channel, err := conn.Channel()
		if err != nil {
			return nil, nil, err
		}
		if err := channel.Qos(c.prefetch, 0, false); err != nil {
			return nil, nil, err
		}
		_, err = channel.QueueDeclare(c.queue, true, false, false, false, c.arguments())
		if err != nil {
			return nil, nil, err
		}
		messages, err := channel.Consume(c.queue, c.name, false, !c.singleActive, false, false, nil)
		var refusal *amqp.Error
		if !errors.As(err, &refusal) || refusal.Code != amqp.AccessRefused || time.Now().After(end) {
			return channel, messages, err
		}
		select {
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (c *consumer) arguments() amqp.Table {
	if c.singleActive {
		return amqp.Table{"x-single-active-consumer": true}
	}
	return nil
}

// handle stands for your work. It takes as long as the message says, "17 200ms" for
// number 17, and notes when it begins, that it goes on, and that it is done.
func (c *consumer) handle(body []byte) error {
	number, text, _ := strings.Cut(string(body), " ")
	work, _ := time.ParseDuration(text) // none is none
	if err := c.note("begin", number); err != nil {
		return err
	}
	for ; work > alive; work -= alive {
		time.Sleep(alive)
		if err := c.note("at", number); err != nil {
			return err
		}
	}
	time.Sleep(work)
	return c.note("done", number)
}

// note writes a line in one piece, beside others who write into the same file.
func (c *consumer) note(what, number string) error {
	_, err := fmt.Fprintf(c.journal, "%s %d %s %s %d\n", c.name, os.Getpid(), what, number, time.Now().UnixNano())
	return err
}
