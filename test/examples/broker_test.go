package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// onBroker makes a place whose locks and messages are in a virtual host of their own.
func onBroker(t *testing.T) (p *place, url string) {
	t.Helper()
	vhost := t.Name()
	if err := rabbit.AddVhost(t.Context(), vhost); err != nil {
		t.Fatal(err)
	}
	if err := rabbit.SetPermissions(t.Context(), "guest", vhost, ".*", ".*", ".*"); err != nil {
		t.Fatal(err)
	}
	url = rabbit.URLFor("guest", "guest", vhost)
	return newPlace(t, url), url
}

// builds has the page's command that builds the consumer be there, without waiting for it.
func (p *place) builds(to string) {
	p.t.Helper()
	p.program("go", fmt.Sprintf(`[ "$*" = "build -o %s ./examples/single-consumer" ] && cp --remove-destination %s %[1]s`,
		to, built.consumer))
}

// send publishes messages with these numbers, and waits until the broker has them.
func send(t *testing.T, url string, from, to int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	conn, err := amqp.Dial(url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	channel, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if err := channel.Confirm(false); err != nil {
		t.Fatal(err)
	}
	for n := from; n <= to; n++ {
		confirmed, err := channel.PublishWithDeferredConfirmWithContext(ctx, "", queue, true, false,
			amqp.Publishing{Body: fmt.Append(nil, n)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := confirmed.WaitContext(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// handled returns the numbers of the messages that a journal has as done, in order.
func handled(journal string) (all []string) {
	for _, found := range regexp.MustCompile(`(?m)^\S+ \d+ done (\d+) \d+$`).FindAllStringSubmatch(journal, -1) {
		all = append(all, found[1])
	}
	return all
}

// numbers returns those from one to another.
func numbers(from, to int) (all []string) {
	for n := from; n <= to; n++ {
		all = append(all, fmt.Sprint(n))
	}
	return all
}

func TestSingleConsumerIsHandedOver(t *testing.T) {
	t.Parallel()
	p, url := onBroker(t)
	p.builds("single-consumer")
	first := p.start(block(t, "single-consumer"))
	p.awaitSaid("command started", first)
	second := p.start(block(t, "single-consumer"))
	p.awaitSaid("next in line", second)
	journal := func() string {
		text, _ := os.ReadFile(p.path("orders.log"))
		return string(text)
	}
	awaitDone := func(to int) {
		t.Helper()
		p.await("all messages", func() bool { return slices.Equal(handled(journal()), numbers(1, to)) })
	}
	p.await("the queue", func() bool {
		_, made, _ := rabbit.Queue(t.Context(), t.Name(), queue)
		return made
	})
	send(t, url, 1, 50)
	awaitDone(50)
	p.run(block(t, "hand-over"))
	p.awaitSaid("command started", second)
	send(t, url, 51, 100)
	awaitDone(100)
	if !strings.Contains(first.said(), "asked to step down") {
		t.Error("the first one was not asked")
	}
}

// dockerfile is what the example says.
type dockerfile struct {
	user  string
	line  []string // entry point and arguments
	files [][2]string
}

func readDockerfile(t *testing.T, path string) (d dockerfile) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		instruction, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		var words []string
		switch instruction {
		case "", "#":
			continue
		case "FROM":
			if rest != "berth" {
				t.Errorf("FROM %s", rest)
			}
		case "COPY":
			from, to, _ := strings.Cut(rest, " ")
			d.files = append(d.files, [2]string{from, to})
		case "USER":
			d.user = rest
		case "ENTRYPOINT", "CMD":
			if err := json.Unmarshal([]byte(rest), &words); err != nil {
				t.Errorf("%s: %v", line, err)
			}
			d.line = append(d.line, words...)
		default:
			t.Errorf("this test does not know %s", instruction)
		}
	}
	return d
}

// A container as far as the kernel makes one: the image's root, PIDs of its own, and the
// image's user. docker itself is not needed.
func TestContainerHandsOverWhenItIsStopped(t *testing.T) {
	t.Parallel()
	if out, err := exec.Command("unshare", "--pid", "--fork", "--mount-proc", "true").CombinedOutput(); err != nil {
		t.Fatalf("cannot make a PID namespace, which needs root: %v: %s", err, out)
	}
	p, url := onBroker(t)
	p.builds("examples/container/single-consumer")
	p.program("docker", `echo "$AMQP_URL $@" >>docker.log`)
	p.run(block(t, "container-build") + "\n" + block(t, "container-run"))
	log, _ := os.ReadFile(p.path("docker.log"))
	if want := " build -f packaging/docker/Dockerfile -t berth dist\n build -t orders examples/container\n" +
		" run --rm -e BERTH_BROKER -e AMQP_URL=" + url + " orders\n"; string(log) != want {
		t.Errorf("docker is called with %s", log)
	}
	d := readDockerfile(t, p.path("examples/container/Dockerfile"))
	root := p.path("root")
	if out, err := exec.Command("../../packaging/image.sh", built.berth, root).CombinedOutput(); err != nil {
		t.Fatalf("image.sh: %v: %s", err, out)
	}
	for _, file := range d.files {
		from, to := p.path("examples/container/"+file[0]), filepath.Join(root, file[1])
		if out, err := exec.Command("cp", from, to).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	user, group, _ := strings.Cut(d.user, ":")
	line := slices.Concat([]string{"unshare", "--pid", "--fork", "--kill-child", "--mount", "--root", root,
		"--mount-proc", "--setuid", user, "--setgid", group}, d.line)
	first := p.launch(line, "AMQP_URL="+url)
	p.awaitSaid("command started", first)
	second := p.launch(line, "AMQP_URL="+url)
	p.awaitSaid("next in line", second)
	p.await("the queue", func() bool {
		_, made, _ := rabbit.Queue(t.Context(), t.Name(), queue)
		return made
	})
	send(t, url, 1, 3)
	p.await("messages", func() bool { return slices.Equal(handled(first.said()), numbers(1, 3)) })
	stop(t, first)
	send(t, url, 4, 6)
	p.await("messages", func() bool { return slices.Equal(handled(second.said()), numbers(4, 6)) })
	stop(t, second)
}

// stop sends TERM to process 1 of a container, as docker stop does, and waits for the
// end. unshare itself ignores it.
func stop(t *testing.T, r running) {
	t.Helper()
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", r.PID()))
	if err != nil {
		t.Fatal(err)
	}
	var inside int
	if _, err := fmt.Sscan(string(children), &inside); err != nil {
		t.Fatalf("the container has no process: %q", children)
	}
	if err := syscall.Kill(inside, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-r.Done():
	case <-time.After(patience):
		t.Fatalf("the container does not end within %s of TERM", patience)
	}
}
