package brokertest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Connection is a client's connection as an operator sees it.
type Connection struct {
	PID        string `json:"pid"`         // the Erlang process that serves it
	Name       string `json:"name"`        // "127.0.0.1:40000 -> 127.0.0.1:5672"
	ClientName string `json:"client_name"` // connection_name of the client's properties, or ""
	User       string `json:"user"`
	Vhost      string `json:"vhost"`
	State      string `json:"state"` // "running", "blocked", ...
}

// AddUser makes a user that may log in and has no permission. It changes the
// password of one that is there.
func (b *Broker) AddUser(ctx context.Context, user, password string) error {
	return b.do(ctx, "add user "+user,
		`case rabbit_auth_backend_internal:exists(%s) of
		   true -> ok = rabbit_auth_backend_internal:change_password(%[1]s, %[2]s, <<"operator">>);
		   false -> ok = rabbit_auth_backend_internal:add_user(%[1]s, %[2]s, <<"operator">>)
		 end`, bin(user), bin(password))
}

// AddVhost makes a virtual host. Nobody has a permission in it yet.
func (b *Broker) AddVhost(ctx context.Context, vhost string) error {
	return b.do(ctx, "add virtual host "+vhost, `ok = rabbit_vhost:add(%s, <<"operator">>)`, bin(vhost))
}

// SetPermissions sets what a user may do in a virtual host: three regular
// expressions for names of queues and exchanges. An empty one permits nothing.
func (b *Broker) SetPermissions(ctx context.Context, user, vhost, configure, write, read string) error {
	return b.do(ctx, "set permissions of user "+user,
		`ok = rabbit_auth_backend_internal:set_permissions(%s, %s, %s, %s, %s, <<"operator">>)`,
		bin(user), bin(vhost), bin(configure), bin(write), bin(read))
}

// Connections returns all connections of clients.
func (b *Broker) Connections(ctx context.Context) ([]Connection, error) {
	var connections []Connection
	err := b.list(ctx, "list connections", &connections, `
		Text = fun(V) when is_binary(V) -> V; (_) -> <<>> end,
		Name = fun(Properties) ->
		  case lists:keyfind(<<"connection_name">>, 1, Properties) of {_, _, V} -> Text(V); false -> <<>> end
		end,
		%% A connection that is only just opening or closing has no answer, or
		%% half of one.
		One = fun(P) ->
		  try rabbit_networking:connection_info(P, [pid, name, user, vhost, state, client_properties]) of
		    I -> [#{pid => list_to_binary(pid_to_list(proplists:get_value(pid, I))),
		            name => Text(proplists:get_value(name, I)),
		            client_name => Name(proplists:get_value(client_properties, I, [])),
		            user => Text(proplists:get_value(user, I)),
		            vhost => Text(proplists:get_value(vhost, I)),
		            state => atom_to_binary(proplists:get_value(state, I), utf8)}]
		  catch _:_ -> []
		  end
		end,
		lists:append([One(P) || P <- rabbit_networking:connections()])`)
	return connections, err
}

// CloseConnections closes the connections whose name or client-provided name
// contains the text, all with "", the way rabbitmqctl close_connection does:
// clients get a connection.close with code 320. It returns how many there were.
func (b *Broker) CloseConnections(ctx context.Context, text string) (int, error) {
	connections, err := b.Connections(ctx)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, c := range connections {
		if !strings.Contains(c.Name, text) && !strings.Contains(c.ClientName, text) {
			continue
		}
		// One that has gone in the meantime is as good as closed.
		err := b.do(ctx, "close connection "+c.Name,
			`catch rabbit_networking:close_connection(list_to_pid(%q), "closed by an operator")`, c.PID)
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// Channels returns how many channels clients have open.
func (b *Broker) Channels(ctx context.Context) (int, error) {
	return b.number(ctx, "count channels", "length(rabbit_channel:list())")
}

// PID returns the process ID of the node's Erlang machine, once all of the node has
// started: it answers clients a moment before.
func (b *Broker) PID(ctx context.Context) (int, error) {
	return b.number(ctx, "find the broker's process", "rabbit:await_startup(), list_to_binary(os:getpid())")
}

// number evaluates code whose value is a number.
func (b *Broker) number(ctx context.Context, what, code string) (int, error) {
	text, err := b.Eval(ctx, code)
	if err != nil {
		return 0, fmt.Errorf("cannot %s: %w", what, err)
	}
	return strconv.Atoi(text)
}

// RaiseMemoryAlarm sets the memory limit to nothing and returns once the alarm
// is there: connections that publish are blocked from now on.
func (b *Broker) RaiseMemoryAlarm(ctx context.Context) error { return b.limitMemory(ctx, "0.0", true) }

// ClearMemoryAlarm undoes RaiseMemoryAlarm and returns once the alarm is gone.
func (b *Broker) ClearMemoryAlarm(ctx context.Context) error { return b.limitMemory(ctx, "0.9", false) }

// RaiseDiskAlarm is RaiseMemoryAlarm with the limit of free disk space, which
// becomes more than any disk has.
func (b *Broker) RaiseDiskAlarm(ctx context.Context) error { return b.limitDisk(ctx, "1 bsl 80", true) }

// ClearDiskAlarm undoes RaiseDiskAlarm and returns once the alarm is gone.
func (b *Broker) ClearDiskAlarm(ctx context.Context) error { return b.limitDisk(ctx, "1000000", false) }

func (b *Broker) limitMemory(ctx context.Context, share string, alarm bool) error {
	return b.limit(ctx, "memory", "vm_memory_monitor:set_vm_memory_high_watermark("+share+")", alarm)
}

func (b *Broker) limitDisk(ctx context.Context, bytes string, alarm bool) error {
	return b.limit(ctx, "disk", "rabbit_disk_monitor:set_disk_free_limit("+bytes+")", alarm)
}

// limit sets the limit of a resource and waits until there is an alarm, or none.
func (b *Broker) limit(ctx context.Context, resource, set string, alarm bool) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := b.do(ctx, "set the "+resource+" limit", "%s", set)
	for err == nil {
		var now string
		now, err = b.Eval(ctx, `[] =/= [x || {{resource_limit, `+resource+`, _}, _} <- rabbit_alarm:get_alarms()]`)
		if now == strconv.FormatBool(alarm) {
			return nil
		}
		if !pause(ctx, 5*time.Millisecond) {
			return fmt.Errorf("cannot set the %s limit: alarm is %s, not %t: %w", resource, now, alarm, ctx.Err())
		}
	}
	return err
}

// do evaluates code, a format for its arguments, for its effect.
func (b *Broker) do(ctx context.Context, what, code string, args ...any) error {
	if _, err := b.Eval(ctx, fmt.Sprintf(code, args...)); err != nil {
		return fmt.Errorf("cannot %s: %w", what, err)
	}
	return nil
}

// list evaluates code whose value is a list of maps, into a slice of structs.
func (b *Broker) list(ctx context.Context, what string, into any, code string, args ...any) error {
	code = "iolist_to_binary(rabbit_json:encode(begin " + fmt.Sprintf(code, args...) + " end))"
	bounded, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	for {
		text, err := b.Eval(ctx, code)
		if err == nil {
			return json.Unmarshal([]byte(text), into)
		}
		// The broker's own lists fail with badarg when something goes away while
		// they are made (pg_local looks up what it has just seen).
		if !strings.Contains(err.Error(), "badarg") || !pause(bounded, 10*time.Millisecond) {
			return fmt.Errorf("cannot %s: %w", what, err)
		}
	}
}

// EnablePlugin starts one of plugins, until the node ends.
func (b *Broker) EnablePlugin(ctx context.Context, name string) error {
	file := b.path("enabled_plugins")
	if err := os.WriteFile(file, fmt.Appendf(nil, "[%s].\n", name), 0o600); err != nil {
		return err
	}
	_, err := b.Eval(ctx, fmt.Sprintf("{ok, _, _} = rabbit_plugins:ensure(%q).", file))
	return err
}

// EnableManagement starts the management plugin, and returns the URL of its API. Call it once: it stays for the life of
// the Broker.
func (b *Broker) EnableManagement(ctx context.Context) (string, error) {
	ports, err := FreePorts(1)
	if err != nil {
		return "", err
	}
	listener := fmt.Sprintf(`[{ip, "127.0.0.1"}, {port, %d}]`, ports[0])
	forRestarts := fmt.Appendf(nil, "[{rabbitmq_management, [{tcp_config, %s}]}].\n", listener)
	if err := os.WriteFile(b.path("advanced.config"), forRestarts, 0o600); err != nil {
		return "", err
	}
	err = b.do(ctx, "set the port of the management plugin",
		"ok = application:set_env(rabbitmq_management, tcp_config, %s, [{persistent, true}])", listener)
	if err == nil {
		err = b.EnablePlugin(ctx, "rabbitmq_management")
	}
	return fmt.Sprintf("http://127.0.0.1:%d", ports[0]), err
}
