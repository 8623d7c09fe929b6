package rabbit

import "net"

// Cluster is a simulated cluster. Its methods may be called from several goroutines; each has taken effect when it
// returns. Those that change something return before clients have heard of it.
type Cluster struct{}

// New starts a cluster. Its user is guest, with the password guest, who may do anything in the vhost "/".
func New(Config) *Cluster { return &Cluster{} }

// Close ends all nodes, connections and goroutines of the cluster.
func (c *Cluster) Close() {}

// Serve has a node serve the connection, whose other end is a client's. Errors: ErrDown; the connection is closed then.
func (c *Cluster) Serve(node int, conn net.Conn) error { return ErrDown }

// Queues returns all queues, in the order of their names.
func (c *Cluster) Queues() []Queue { return nil }

// Queue returns that queue, and whether it exists.
func (c *Cluster) Queue(name string) (Queue, bool) { return Queue{}, false }

// Connections returns all connections that are logged in, in the order in which they were made.
func (c *Cluster) Connections() []Connection { return nil }

// DeleteQueue deletes a queue, as an operator does: not if it is exclusive. It reports whether it did.
func (c *Cluster) DeleteQueue(name string) bool { return false }

// LoseQueue deletes a queue without the word of its owner, exclusive or not, as defects of brokers have done. It reports
// whether it did.
func (c *Cluster) LoseQueue(name string) bool { return false }

// CrashQueue crashes the process of a classic queue, which is started again with what it had on disk. It reports whether
// it did.
func (c *Cluster) CrashQueue(name string) bool { return false }

// PurgeQueue removes the messages that are ready. It reports whether there is such a queue.
func (c *Cluster) PurgeQueue(name string) bool { return false }

// CloseConnection closes a connection, as an operator does: the client is told 320, and the reason. It reports whether
// there was one.
func (c *Cluster) CloseConnection(id int, reason string) bool { return false }

// CloseConnections closes all connections like CloseConnection.
func (c *Cluster) CloseConnections(reason string) {}

// Stop stops a node in order: connections are closed with 320, and what is durable is kept.
func (c *Cluster) Stop(node int) {}

// Kill kills a node: connections end without a word, and what is durable is kept as far as it was on disk.
func (c *Cluster) Kill(node int) {}

// Start starts a node that was stopped or killed.
func (c *Cluster) Start(node int) {}

// Restart kills a node and starts it at once. With lost, nothing that the node has confirmed since the last Flush was on
// disk: queues, messages and deletions.
func (c *Cluster) Restart(node int, lost bool) {}

// Flush has all of a node on disk.
func (c *Cluster) Flush(node int) {}

// Hang stops all processes of a node, as SIGSTOP does: it accepts connections, and answers nothing.
func (c *Cluster) Hang(node int) {}

// Resume ends Hang.
func (c *Cluster) Resume(node int) {}

// Split cuts the cluster into these groups of nodes, which do not hear of each other. A node that is in none is alone.
func (c *Cluster) Split(groups ...[]int) {}

// Heal ends Split.
func (c *Cluster) Heal() {}

// Alarm raises or ends an alarm of memory or disk.
func (c *Cluster) Alarm(on bool) {}

// SetPolicy sets what holds for queues whose name matches the regular expression, in place of the policy of that pattern;
// nil takes it away. Keys are RabbitMQ's: max-length, overflow, message-ttl, expires, delivery-limit, consumer-timeout.
func (c *Cluster) SetPolicy(pattern string, definition map[string]any) {}

// SetUser makes a user, or changes the password. Connections stay.
func (c *Cluster) SetUser(name, password string) {}

// SetPermissions says which queues the user may configure, write to and read from, as regular expressions.
func (c *Cluster) SetPermissions(user, configure, write, read string) {}
