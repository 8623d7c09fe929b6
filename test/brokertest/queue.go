package brokertest

import "context"

// Queue returns one queue of a virtual host, and whether it is there. It does not
// ask the others for their numbers, as Queues does, and so suits a test that asks
// again and again on a broker that many share.
func (b *Broker) Queue(ctx context.Context, vhost, name string) (q Queue, found bool, err error) {
	var queues []Queue
	err = b.list(ctx, "look up queue "+name, &queues, `
		case rabbit_amqqueue:lookup(rabbit_misc:r(%s, queue, %s)) of
		  {ok, Queue} ->
		    I = try rabbit_amqqueue:info(Queue, [durable, owner_pid, messages, messages_unacknowledged, consumers])
		        catch exit:{noproc, _} -> [] end, % it is just going
		    [#{vhost => %[1]s, name => %[2]s,
		       durable => proplists:get_value(durable, I),
		       exclusive => is_pid(proplists:get_value(owner_pid, I)),
		       messages => proplists:get_value(messages, I),
		       unacked => proplists:get_value(messages_unacknowledged, I),
		       consumers => proplists:get_value(consumers, I)}
		     || is_integer(proplists:get_value(consumers, I))];
		  {error, not_found} -> []
		end`, bin(vhost), bin(name))
	if err != nil || len(queues) == 0 {
		return Queue{}, false, err
	}
	return queues[0], true, nil
}
