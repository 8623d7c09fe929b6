package brokertest

import (
	"context"
	"fmt"
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

// Queues returns all queues of a virtual host, but those that are just going,
// which have no numbers any more.
func (b *Broker) Queues(ctx context.Context, vhost string) ([]Queue, error) {
	return b.queues(ctx, "list queues", fmt.Sprintf("rabbit_amqqueue:list(%s)", bin(vhost)))
}

// Queue returns one queue of a virtual host, and whether it is there. It does not
// ask the others for their numbers, as Queues does, and so suits a test that asks
// again and again on a broker that many share.
func (b *Broker) Queue(ctx context.Context, vhost, name string) (q Queue, found bool, err error) {
	queues, err := b.queues(ctx, "look up queue "+name, fmt.Sprintf(
		"case rabbit_amqqueue:lookup(%s) of {ok, Found} -> [Found]; {error, not_found} -> [] end", resource(vhost,
			name)))
	if err != nil || len(queues) == 0 {
		return Queue{}, false, err
	}
	return queues[0], true, nil
}

// queues returns those queues of an Erlang list that have numbers.
func (b *Broker) queues(ctx context.Context, what, list string) (queues []Queue, err error) {
	err = b.list(ctx, what, &queues, `
		Info = fun(Queue) ->
		  try rabbit_amqqueue:info(Queue, [name, durable, owner_pid, messages, messages_unacknowledged, consumers])
		  catch _:_ -> [] end %% it is just going
		end,
		[begin
		   {resource, Vhost, queue, Name} = proplists:get_value(name, I),
		   #{vhost => Vhost, name => Name,
		     durable => proplists:get_value(durable, I),
		     exclusive => is_pid(proplists:get_value(owner_pid, I)),
		     messages => proplists:get_value(messages, I),
		     unacked => proplists:get_value(messages_unacknowledged, I),
		     consumers => proplists:get_value(consumers, I)}
		 end || I <- [Info(Queue) || Queue <- %s], is_integer(proplists:get_value(consumers, I))]`, list)
	return queues, err
}

// DeleteQueue deletes a queue, with all that is in it and however it is used, also one
// that is exclusive to a live connection. A queue that is not there is an
// error.
func (b *Broker) DeleteQueue(ctx context.Context, vhost, name string) error {
	return b.do(ctx, "delete queue "+name,
		`{ok, Queue} = rabbit_amqqueue:lookup(%s),
		 {ok, _} = rabbit_amqqueue:delete(Queue, false, false, <<"operator">>)`, resource(vhost, name))
}

// LeadQueue makes the node the leader of a quorum queue.
func (b *Broker) LeadQueue(ctx context.Context, vhost, name string) error {
	return b.do(ctx, "lead queue "+name,
		`{ok, Queue} = rabbit_amqqueue:lookup(%s),
		 {Ra, _} = amqqueue:get_pid(Queue),
		 Lead = fun Lead(Tries) when Tries > 0 ->
		   case ra_leaderboard:lookup_leader(Ra) of
		     {_, Leader} when Leader =:= node() -> ok;
		     _ -> rabbit_quorum_queue:transfer_leadership(Queue, node()), timer:sleep(100), Lead(Tries - 1)
		   end
		 end,
		 ok = Lead(50)`, resource(vhost, name))
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
		 Vhost = rabbit_vhost:msg_store_dir_path(` + bin(vhost) + `),
		 ok = file:del_dir_r(rabbit_classic_queue_index_v2:queue_dir(Vhost, Name))`
	}
	return b.do(ctx, "forget queue "+name,
		`Name = %s,
		 {ok, _} = rabbit_amqqueue:lookup(Name),
		 `+forget+`,
		 {error, not_found} = rabbit_amqqueue:lookup(Name)`, resource(vhost, name))
}

// PurgeQueue removes every message that is ready in a queue; what somebody has
// and has not acknowledged stays. A queue that is not there is an error.
func (b *Broker) PurgeQueue(ctx context.Context, vhost, name string) error {
	return b.do(ctx, "purge queue "+name,
		`{ok, Queue} = rabbit_amqqueue:lookup(%s), {ok, _} = rabbit_amqqueue:purge(Queue)`, resource(vhost, name))
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

// HideQueue makes a durable queue look as one does whose node is down, in a cluster
// on Mnesia: messages to it are returned, and a client that looks it up is told that its
// home node is down. ShowQueue undoes it.
func (b *Broker) HideQueue(ctx context.Context, vhost, name string) error {
	return b.do(ctx, "hide queue "+name,
		`Name = %s,
		 [Queue] = mnesia:dirty_read(rabbit_queue, Name),
		 ok = persistent_term:put(Name, Queue),
		 ok = mnesia:dirty_delete(rabbit_queue, Name)`, resource(vhost, name))
}

// ShowQueue brings a queue back that HideQueue has hidden.
func (b *Broker) ShowQueue(ctx context.Context, vhost, name string) error {
	return b.do(ctx, "show queue "+name,
		`Name = %s,
		 ok = mnesia:dirty_write(rabbit_queue, persistent_term:get(Name)),
		 true = persistent_term:erase(Name)`, resource(vhost, name))
}

// resource returns a queue's name as RabbitMQ has it inside.
func resource(vhost, name string) string {
	return fmt.Sprintf("rabbit_misc:r(%s, queue, %s)", bin(vhost), bin(name))
}
