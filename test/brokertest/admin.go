package brokertest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Queue is a queue as an operator sees it.
type Queue struct {
	Vhost     string `json:"vhost"`
	Name      string `json:"name"`
	Durable   bool   `json:"durable"`
	Exclusive bool   `json:"exclusive"`
	Messages  int    `json:"messages"`  // ready and unacknowledged
	Unacked   int    `json:"unacked"`   // delivered, not acknowledged
	Consumers int    `json:"consumers"` // of all channels
}

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

// Queues returns all queues of a virtual host, but those that are just going,
// which have no numbers any more.
func (b *Broker) Queues(ctx context.Context, vhost string) ([]Queue, error) {
	var queues []Queue
	err := b.list(ctx, "list queues", &queues, `
		[begin
		   {resource, Vhost, queue, Name} = proplists:get_value(name, I),
		   #{vhost => Vhost, name => Name,
		     durable => proplists:get_value(durable, I),
		     exclusive => is_pid(proplists:get_value(owner_pid, I)),
		     messages => proplists:get_value(messages, I),
		     unacked => proplists:get_value(messages_unacknowledged, I),
		     consumers => proplists:get_value(consumers, I)}
		 end || I <- rabbit_amqqueue:info_all(%s, [name, durable, owner_pid, messages,
		                                           messages_unacknowledged, consumers]),
		        is_integer(proplists:get_value(consumers, I))]`, bin(vhost))
	return queues, err
}

// Connections returns all connections of clients.
func (b *Broker) Connections(ctx context.Context) ([]Connection, error) {
	var connections []Connection
	err := b.list(ctx, "list connections", &connections, `
		Text = fun(V) when is_binary(V) -> V; (_) -> <<>> end,
		%% A connection that is only just opening or closing has no answer, or
		%% half of one.
		One = fun(P) ->
		  try rabbit_networking:connection_info(P, [pid, name, user, vhost, state, client_properties]) of
		    I -> [#{pid => list_to_binary(pid_to_list(proplists:get_value(pid, I))),
		            name => Text(proplists:get_value(name, I)),
		            client_name => case lists:keyfind(<<"connection_name">>, 1, proplists:get_value(client_properties, I, [])) of
		                             {_, _, V} -> Text(V);
		                             false -> <<>>
		                           end,
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

// DeleteQueue deletes a queue, whatever is in it and whoever uses it, also one
// that is exclusive to a live connection. A queue that is not there is an
// error.
func (b *Broker) DeleteQueue(ctx context.Context, vhost, name string) error {
	return b.do(ctx, "delete queue "+name,
		`{ok, Queue} = rabbit_amqqueue:lookup(rabbit_misc:r(%s, queue, %s)),
		 {ok, _} = rabbit_amqqueue:delete(Queue, false, false, <<"operator">>)`, bin(vhost), bin(name))
}

// ForgetQueue makes the broker forget an exclusive queue and tell nobody: its
// consumers are not cancelled, its owner is told with its next question, and
// others can declare a queue of that name. The end of the owner's connection
// makes the broker forget that one as well.
func (b *Broker) ForgetQueue(ctx context.Context, vhost, name string) error {
	forget := "mnesia:dirty_delete(rabbit_queue, Name)"
	if b.Since(4, 0) {
		// Its files are there from the start, and in the way of the next one's.
		forget = `rabbit_db_queue:delete(Name, normal),
		 ok = file:del_dir_r(rabbit_classic_queue_index_v2:queue_dir(rabbit_vhost:msg_store_dir_path(%[1]s), Name))`
	}
	return b.do(ctx, "forget queue "+name,
		`Name = rabbit_misc:r(%[1]s, queue, %[2]s),
		 {ok, _} = rabbit_amqqueue:lookup(Name),
		 `+forget+`,
		 {error, not_found} = rabbit_amqqueue:lookup(Name)`, bin(vhost), bin(name))
}

// PurgeQueue removes every message that is ready in a queue; what somebody has
// and has not acknowledged stays. A queue that is not there is an error.
func (b *Broker) PurgeQueue(ctx context.Context, vhost, name string) error {
	return b.do(ctx, "purge queue "+name,
		`{ok, Queue} = rabbit_amqqueue:lookup(rabbit_misc:r(%s, queue, %s)),
		 {ok, _} = rabbit_amqqueue:purge(Queue)`, bin(vhost), bin(name))
}

// Fill publishes n messages with the body to a queue, through the default
// exchange. Where there is no such queue they are dropped.
func (b *Broker) Fill(ctx context.Context, vhost, name, body string, n int) error {
	publish := "rabbit_basic:publish(rabbit_exchange:lookup_or_die(Exchange), Key, [], Body)"
	if b.Since(4, 0) {
		publish = `begin
		  Content = rabbit_basic:build_content(rabbit_basic:properties([]), Body),
		  {ok, Message} = mc_amqpl:message(Exchange, Key, Content),
		  ok = rabbit_queue_type:publish_at_most_once(Exchange, Message)
		end`
	}
	return b.do(ctx, "fill queue "+name,
		`Exchange = rabbit_misc:r(%s, exchange, <<>>), Key = %s, Body = %s,
		 [`+publish+` || _ <- lists:seq(1, %d)]`, bin(vhost), bin(name), bin(body), n)
}

// RaiseMemoryAlarm sets the memory limit to nothing and returns once the alarm
// is there: connections that publish are blocked from now on.
func (b *Broker) RaiseMemoryAlarm(ctx context.Context) error {
	return b.setLimit(ctx, "memory", "vm_memory_monitor:set_vm_memory_high_watermark(0.0)", "true")
}

// ClearMemoryAlarm undoes RaiseMemoryAlarm and returns once the alarm is gone.
func (b *Broker) ClearMemoryAlarm(ctx context.Context) error {
	return b.setLimit(ctx, "memory", "vm_memory_monitor:set_vm_memory_high_watermark(0.9)", "false")
}

// RaiseDiskAlarm is RaiseMemoryAlarm with the limit of free disk space, which
// becomes more than any disk has.
func (b *Broker) RaiseDiskAlarm(ctx context.Context) error {
	return b.setLimit(ctx, "disk", "rabbit_disk_monitor:set_disk_free_limit(1 bsl 80)", "true")
}

// ClearDiskAlarm undoes RaiseDiskAlarm and returns once the alarm is gone.
func (b *Broker) ClearDiskAlarm(ctx context.Context) error {
	return b.setLimit(ctx, "disk", "rabbit_disk_monitor:set_disk_free_limit(1000000)", "false")
}

// setLimit sets the limit of a resource and waits until it is true or false
// that there is an alarm.
func (b *Broker) setLimit(ctx context.Context, resource, set, alarm string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := b.do(ctx, "set the "+resource+" limit", "%s", set)
	for err == nil {
		var now string
		if now, err = b.Eval(ctx, `[] =/= [x || {{resource_limit, `+resource+`, _}, _} <- rabbit_alarm:get_alarms()]`); now == alarm {
			return nil
		}
		if !pause(ctx, 5*time.Millisecond) {
			return fmt.Errorf("cannot set the %s limit: alarm is %s, not %s: %w", resource, now, alarm, ctx.Err())
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
	code = fmt.Sprintf(code, args...)
	code = "iolist_to_binary(rabbit_json:encode(begin " + code + " end))"
	text, err := b.Eval(ctx, code)
	// The broker's own lists fail with badarg when something goes away while
	// they are made (pg_local looks up what it has just seen).
	bounded, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	for err != nil && strings.Contains(err.Error(), "badarg") && pause(bounded, 10*time.Millisecond) {
		text, err = b.Eval(ctx, code)
	}
	if err == nil {
		err = json.Unmarshal([]byte(text), into)
	}
	if err != nil {
		return fmt.Errorf("cannot %s: %w", what, err)
	}
	return nil
}
