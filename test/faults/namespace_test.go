package faults

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// namespace is a network namespace that is tied to this one by a cable, both ends
// of which can be made to drop every packet. Nothing in it can reach anything but
// this host.
type namespace struct {
	t                    testing.TB
	name, outside, local string // outside: the cable's end here; local: its address
	cut                  bool   // every packet is dropped
}

// newNamespace needs root.
func newNamespace(t testing.TB) *namespace {
	t.Helper()
	n := sequence.Add(1)
	tag := fmt.Sprintf("%x", (os.Getpid()<<8|int(n)&0xff)&0xffffff)
	ns := &namespace{t: t, name: "faults" + tag, outside: "fo" + tag}
	net := fmt.Sprintf("10.213.%d", n%250)
	ns.local = net + ".1"
	ns.ip("netns", "add", ns.name)
	t.Cleanup(func() { ns.ip("netns", "delete", ns.name) }) // the cable goes with it
	ns.ip("link", "add", ns.outside, "type", "veth", "peer", "name", "eth0", "netns", ns.name)
	ns.ip("address", "add", ns.local+"/30", "dev", ns.outside)
	ns.ip("link", "set", ns.outside, "up")
	ns.ip("-n", ns.name, "address", "add", net+".2/30", "dev", "eth0")
	ns.ip("-n", ns.name, "link", "set", "eth0", "up")
	ns.ip("-n", ns.name, "link", "set", "lo", "up")
	return ns
}

// drop makes both ends drop what they should send, until heal: a queue without a place.
func (ns *namespace) drop() {
	if ns.cut {
		return
	}
	ns.cut = true
	ns.run("tc", "qdisc", "replace", "dev", ns.outside, "root", "pfifo", "limit", "0")
	ns.run("tc", "-n", ns.name, "qdisc", "replace", "dev", "eth0", "root", "pfifo", "limit", "0")
}

func (ns *namespace) heal() {
	if !ns.cut {
		return
	}
	ns.cut = false
	ns.run("tc", "qdisc", "delete", "dev", ns.outside, "root")
	ns.run("tc", "-n", ns.name, "qdisc", "delete", "dev", "eth0", "root")
}

func (ns *namespace) ip(args ...string) { ns.run("ip", args...) }

func (ns *namespace) run(name string, args ...string) {
	ns.t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		ns.t.Errorf("%s %s: %v: %s; faults between network namespaces need root and iproute2", name,
			strings.Join(args, " "), err, out)
	}
}
