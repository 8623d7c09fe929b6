package rabbit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/rpc"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"berth/test/brokertest"
	"berth/test/process"
	_ "berth/test/simulation/rabbit" // so that results are not taken from the cache when it has changed
)

// simulatedBroker is the program that simulated brokers are, which buildSimulated makes. It is built without the race
// detector, which would have it answer as late as a busy broker.
var simulatedBroker string

func buildSimulated(dir string) error {
	simulatedBroker = filepath.Join(dir, "broker")
	said, err := exec.Command("go", "build", "-buildvcs=false", "-o", simulatedBroker, "berth/test/simulation/broker").
		CombinedOutput()
	if err != nil {
		return fmt.Errorf("cannot build a simulated broker: %w: %s", err, said)
	}
	return nil
}

// simulated is a simulated RabbitMQ of one node that listens as a real one does. It is a process of its own, which has
// its share of the processors however many tests run. simulate starts it.
type simulated struct {
	addr     string
	process  *process.Process
	operator *rpc.Client
}

// simulate starts a simulated broker. The caller stops it.
func simulate() (*simulated, error) {
	cmd := exec.Command(simulatedBroker)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p, err := process.Start(cmd)
	if err != nil {
		return nil, err
	}
	s := &simulated{process: p, operator: rpc.NewClient(pipes{out, in})}
	if err := s.ask("Addr", struct{}{}, &s.addr); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot start a simulated broker: %w", err), s.Stop())
	}
	return s, nil
}

// pipes are both ways between two processes.
type pipes struct {
	io.ReadCloser
	io.WriteCloser
}

func (p pipes) Close() error { return errors.Join(p.ReadCloser.Close(), p.WriteCloser.Close()) }

// Stop ends it, and returns once it is over.
func (s *simulated) Stop() error {
	err := s.operator.Close() // at which it ends
	s.process.End(5 * time.Second)
	return err
}

// ask has its operator do something, and answer.
func (s *simulated) ask(what string, with, answer any) error {
	call := s.operator.Go("Operator."+what, with, answer, make(chan *rpc.Call, 1))
	select {
	case <-call.Done:
		return call.Error
	case <-time.After(patience):
		return fmt.Errorf("the simulated broker has not done %q within %s", what, patience)
	}
}

// do is ask without an answer.
func (s *simulated) do(what string, with any) error { return s.ask(what, with, &struct{}{}) }

// ofQueue has its operator do something to a queue.
func (s *simulated) ofQueue(what, name string) error {
	found := false
	if err := s.ask(what, name, &found); err != nil || found {
		return err
	}
	return fmt.Errorf("there is no queue %s", name)
}

func (s *simulated) Addr() string { return s.addr }

func (s *simulated) URL() string { return s.URLFor("guest", "guest", "/") }

func (s *simulated) URLFor(user, password, vhost string) string {
	return fmt.Sprintf("amqp://%s@%s/%s", url.UserPassword(user, password), s.addr, url.PathEscape(vhost))
}

func (s *simulated) Since(major, minor int) bool { return major < 4 || major == 4 && minor <= 3 }

func (s *simulated) Kill9() error { return s.do("Kill", struct{}{}) }

func (s *simulated) Restart(ctx context.Context) error { return s.RestartInPlace(ctx, 0) }

// RestartInPlace ends connections as an orderly stop does, unless it is down already.
func (s *simulated) RestartInPlace(_ context.Context, stopped time.Duration) error {
	if err := s.do("Stop", struct{}{}); err != nil {
		return err
	}
	time.Sleep(stopped)
	return s.do("Start", struct{}{})
}

func (s *simulated) Pause() error { return s.do("Hang", true) }

func (s *simulated) Continue() error { return s.do("Hang", false) }

func (s *simulated) RaiseMemoryAlarm(context.Context) error { return s.do("Alarm", true) }

func (s *simulated) ClearMemoryAlarm(context.Context) error { return s.do("Alarm", false) }

func (s *simulated) AddUser(_ context.Context, user, password string) error {
	return s.do("SetUser", [2]string{user, password})
}

func (s *simulated) SetPermissions(_ context.Context, user, vhost, configure, write, read string) error {
	if vhost != "/" {
		return fmt.Errorf("no vhost %q is simulated", vhost)
	}
	return s.do("SetPermissions", [4]string{user, configure, write, read})
}

func (s *simulated) Connections(context.Context) (all []brokertest.Connection, err error) {
	err = s.ask("Connections", struct{}{}, &all)
	return all, err
}

func (s *simulated) CloseConnections(_ context.Context, text string) (n int, err error) {
	err = s.ask("CloseConnections", text, &n)
	return n, err
}

func (s *simulated) Queues(_ context.Context, vhost string) (all []brokertest.Queue, err error) {
	err = s.ask("Queues", "", &all)
	for i := range all {
		all[i].Vhost = vhost
	}
	return all, err
}

func (s *simulated) Queue(_ context.Context, vhost, name string) (brokertest.Queue, bool, error) {
	var all []brokertest.Queue
	if err := s.ask("Queues", name, &all); err != nil || len(all) == 0 {
		return brokertest.Queue{}, false, err
	}
	all[0].Vhost = vhost
	return all[0], true, nil
}

func (s *simulated) DeleteQueue(_ context.Context, _, name string) error {
	return s.ofQueue("RemoveQueue", name)
}

func (s *simulated) ForgetQueue(_ context.Context, _, name string) error {
	return s.ofQueue("LoseQueue", name)
}

func (s *simulated) PurgeQueue(_ context.Context, _, name string) error {
	return s.ofQueue("PurgeQueue", name)
}
