package brokertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/test/process"
)

// settings is the node's rabbitmq.conf, with room for the port. The disk and
// memory limits are out of the way of a small or full machine; alarms are for
// RaiseMemoryAlarm and RaiseDiskAlarm. Without a name of its own the node looks
// the host's name up for each connection: where a DNS server has to be asked for
// it, and its answer is lost, a login takes more than five seconds.
const settings = `listeners.tcp.1 = 127.0.0.1:%d
log.console = false
cluster_name = berth
log.file.level = info
disk_free_limit.absolute = 1MB
vm_memory_high_watermark.relative = 0.9
`

// boot is what the Erlang machine evaluates before RabbitMQ starts. RabbitMQ looks for its own attributes in each module
// of each application that is loaded, Erlang's too, which have none. Without a list of them, 700 modules are loaded only
// once they are called, and a start takes a third less of the processor.
const boot = `
Load = fun(Name) ->
  case code:where_is_file(Name ++ ".app") of
    non_existing -> ok;
    File ->
      {ok, [{application, App, Properties}]} = file:consult(File),
      ok = application:load({application, App, lists:keyreplace(modules, 1, Properties, {modules, []})})
  end
end,
lists:foreach(Load, ["asn1", "compiler", "crypto", "inets", "mnesia", "os_mon", "public_key", "runtime_tools", "ssl",
  "syntax_tools", "tools", "xmerl"]).
`

// prepare makes the directory of a new broker and chooses its ports. One that will
// join the cluster of a peer has its cookie and its port mapper.
func prepare(peer *Broker) (*Broker, error) {
	program, err := server()
	if err != nil {
		return nil, err
	}
	ports, err := FreePorts(3)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "berth-broker-")
	if err != nil {
		return nil, fmt.Errorf("cannot make a directory for a broker: %w", err)
	}
	b := &Broker{
		dir: dir, program: program, port: ports[0], epmdPort: ports[1], distPort: ports[2],
		cookie: fmt.Sprintf("%016X", rand.Uint64()),
	}
	if peer != nil {
		b.epmdPort, b.cookie = peer.epmdPort, peer.cookie
	}
	err = errors.Join(
		os.WriteFile(b.path("rabbitmq.conf"), fmt.Appendf(nil, settings, b.port), 0o600),
		os.WriteFile(b.path("boot"), []byte(boot), 0o600),
		os.WriteFile(b.path("advanced.config"), []byte("[].\n"), 0o600),
		os.WriteFile(b.path("enabled_plugins"), []byte("[].\n"), 0o600),
		os.WriteFile(b.path(".erlang.cookie"), []byte(b.cookie), 0o400),
	)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot write a broker's configuration: %w", err), os.RemoveAll(dir))
	}
	if err := b.choosePlugins(); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot choose a broker's plugins: %w", err), os.RemoveAll(dir))
	}
	return b, nil
}

// plugins are those of RabbitMQ that tests enable, with what they need.
var plugins = []string{"rabbitmq_auth_backend_oauth2", "rabbitmq_auth_mechanism_ssl", "rabbitmq_management",
	"rabbitmq_management_agent", "rabbitmq_prelaunch", "rabbitmq_web_dispatch"}

// choosePlugins makes a directory with plugins and the libraries that are beside them, and no others: a node looks into
// each one for each module that it loads. Where they are is known of Debian's own RabbitMQ only.
func (b *Broker) choosePlugins() error {
	all, err := filepath.Glob(filepath.Join(filepath.Dir(b.program), "../lib/rabbitmq_server-*/plugins/*"))
	if err != nil || len(all) == 0 {
		return err
	}
	if err := os.Mkdir(b.path("plugins"), 0o700); err != nil {
		return err
	}
	for _, dir := range all {
		name, _, _ := strings.Cut(filepath.Base(dir), "-")
		if strings.HasPrefix(name, "rabbitmq_") && !slices.Contains(plugins, name) {
			continue
		}
		if err := os.Symlink(dir, b.path("plugins/"+filepath.Base(dir))); err != nil {
			return err
		}
	}
	b.plugins = b.path("plugins")
	return nil
}

// path returns a path below the broker's directory.
func (b *Broker) path(name string) string { return filepath.Join(b.dir, name) }

// name is the node's.
func (b *Broker) name() string { return fmt.Sprintf("berth%d@localhost", b.port) }

// environment is all that the broker's processes get. Nothing is inherited
// but PATH: a developer's RABBITMQ_ or ERL_ variables must not matter here.
func (b *Broker) environment() []string {
	all := []string{
		"PATH=" + os.Getenv("PATH") + ":/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=" + b.dir,
		"LANG=C.UTF-8",
		"ERL_EPMD_PORT=" + strconv.Itoa(b.epmdPort),
		"ERL_EPMD_ADDRESS=127.0.0.1",
		"ERL_CRASH_DUMP_SECONDS=0",
		"ERL_AFLAGS=-eval ok=file:eval(boot)", // before RabbitMQ's own; in the working directory
		"RABBITMQ_NODENAME=" + b.name(),
		"RABBITMQ_DIST_PORT=" + strconv.Itoa(b.distPort),
		"RABBITMQ_MNESIA_BASE=" + b.path("data"),
		"RABBITMQ_LOG_BASE=" + b.path("log"),
		"RABBITMQ_SCHEMA_DIR=" + b.path("schema"),
		"RABBITMQ_GENERATED_CONFIG_DIR=" + b.path("config"),
		"RABBITMQ_PID_FILE=" + b.path("pid"),
		"RABBITMQ_CONFIG_FILE=" + b.path("rabbitmq.conf"),
		"RABBITMQ_ADVANCED_CONFIG_FILE=" + b.path("advanced.config"),
		"RABBITMQ_ENABLED_PLUGINS_FILE=" + b.path("enabled_plugins"),
		"RABBITMQ_CONF_ENV_FILE=/dev/null",
		// Two schedulers that do not spin: an idle node leaves the processor alone.
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=+S 2:2 +sbwt none +sbwtdcpu none +sbwtdio none",
		// With this the start script becomes the node instead of its parent.
		"RABBITMQ_ALLOW_INPUT=1",
	}
	if b.plugins != "" {
		all = append(all, "RABBITMQ_PLUGINS_DIR="+b.plugins)
	}
	return all
}

// startEpmd starts the Erlang port mapper and waits until it accepts
// connections; a node that found none would start one that outlives it.
func (b *Broker) startEpmd(ctx context.Context) (*process.Process, error) {
	out, err := os.Create(b.path("epmd.out"))
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd := exec.Command("epmd", "-port", strconv.Itoa(b.epmdPort), "-address", "127.0.0.1")
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = b.environment(), b.dir, out, out
	p, err := process.Start(cmd)
	if err != nil {
		return nil, err
	}
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(b.epmdPort))
	err = awaitAnswer(ctx, addr, p.Done(), func(net.Conn) error { return nil })
	if err != nil {
		p.End(0)
		return nil, fmt.Errorf("cannot start epmd: %w", err)
	}
	return p, nil
}

// spawnNode starts the Erlang machine, with a control connected to it.
func (b *Broker) spawnNode() (*node, error) {
	out, err := os.OpenFile(b.path("stdout"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	ctl, theirs, err := newControl()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(b.program, "-noinput", "-start_epmd", "false",
		"-kernel", "inet_dist_use_interface", "{127,0,0,1}", "-eval", controlLoop)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = b.environment(), b.dir, out, out
	cmd.ExtraFiles = theirs
	p, err := process.Start(cmd)
	for _, f := range theirs {
		f.Close()
	}
	if err != nil {
		ctl.close()
		return nil, err
	}
	return &node{proc: p, ctl: ctl}, nil
}

// logTail returns the last lines that the node wrote, to its log and elsewhere.
func (b *Broker) logTail() string {
	const most = 60
	files, _ := filepath.Glob(b.path("log/*.log"))
	var lines []string
	for _, f := range append(files, b.path("stdout")) {
		text, _ := os.ReadFile(f)
		all := strings.Split(strings.TrimSpace(string(text)), "\n")
		lines = append(lines, all[max(0, len(all)-most):]...)
	}
	return strings.Join(lines, "\n")
}

// FreePorts returns n ports of 127.0.0.1 that nobody listens on. They are below
// the range from which the kernel serves outgoing connections, so that none of
// those takes the port of a node that is being restarted.
func FreePorts(n int) ([]int, error) {
	const low, high = 12000, 32000
	var ports []int
	for range 1000 {
		port := low + rand.IntN(high-low)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		defer l.Close() // held until all are found, so that they differ
		if ports = append(ports, port); len(ports) == n {
			return ports, nil
		}
	}
	return nil, fmt.Errorf("no %d free ports from %d to %d on 127.0.0.1; end what listens there", n, low, high)
}

// awaitReady waits until a broker answers the protocol header at addr with its
// first frame: connection.start, a method frame (1) on channel 0 with class and
// method 10 (AMQP 0-9-1, sections 2.2.4, 4.2.3 and 1.4).
func awaitReady(ctx context.Context, addr string, dead <-chan struct{}) error {
	return awaitAnswer(ctx, addr, dead, func(c net.Conn) error {
		if _, err := c.Write([]byte("AMQP\x00\x00\x09\x01")); err != nil {
			return err
		}
		var frame [11]byte // type, channel (2), size (4), class (2), method (2)
		if _, err := io.ReadFull(c, frame[:]); err != nil {
			return err
		}
		if frame[0] != 1 || string(frame[7:]) != "\x00\x0a\x00\x0a" {
			return fmt.Errorf("unexpected first frame % x", frame)
		}
		return nil
	})
}

// awaitAnswer tries to connect to addr until ask succeeds on a connection. It
// gives up when ctx ends or the process that should answer is dead.
func awaitAnswer(ctx context.Context, addr string, dead <-chan struct{}, ask func(net.Conn) error) error {
	for {
		err := askOnce(ctx, addr, ask)
		if err == nil {
			return nil
		}
		select {
		case <-dead:
			return errors.New("its process has ended")
		default:
		}
		if !pause(ctx, 20*time.Millisecond) {
			return fmt.Errorf("no answer from %s: %w (%w)", addr, err, ctx.Err())
		}
	}
}

// askOnce connects to addr and calls ask, with a deadline on both.
func askOnce(ctx context.Context, addr string, ask func(net.Conn) error) error {
	const patience = 5 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	deadline, _ := ctx.Deadline()
	if err := c.SetDeadline(deadline); err != nil {
		return err
	}
	return ask(c)
}

// pause waits for d and reports whether ctx is still good.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
