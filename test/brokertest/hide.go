package brokertest

import "context"

// HideQueue makes a durable queue look as one does whose node is down, in a cluster
// on Mnesia: messages to it are returned, and whoever looks it up is told that its
// home node is down. ShowQueue undoes it.
func (b *Broker) HideQueue(ctx context.Context, vhost, name string) error {
	return b.do(ctx, "hide queue "+name,
		`Name = rabbit_misc:r(%s, queue, %s),
		 [Queue] = mnesia:dirty_read(rabbit_queue, Name),
		 ok = persistent_term:put(Name, Queue),
		 ok = mnesia:dirty_delete(rabbit_queue, Name)`, bin(vhost), bin(name))
}

// ShowQueue brings a queue back that HideQueue has hidden.
func (b *Broker) ShowQueue(ctx context.Context, vhost, name string) error {
	return b.do(ctx, "show queue "+name,
		`Name = rabbit_misc:r(%s, queue, %s),
		 ok = mnesia:dirty_write(rabbit_queue, persistent_term:get(Name)),
		 true = persistent_term:erase(Name)`, bin(vhost), bin(name))
}
