// Package interop has berth contend for locks with an independent client, and has the prover judge what both have written
// down. The client is client.py, which knows docs/protocol.md and nothing of berth.
package interop
