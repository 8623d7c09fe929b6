package wire

import (
	"reflect"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func FuzzOrderIsReadAsItIsWritten(f *testing.F) {
	f.Add(Order{Op: OpStart, Vars: []string{"A=1\n2", "B="}, Deadline: 1 << 60, Last: true}.appendTo(nil))
	f.Add(Order{Op: OpWill, Will: []byte("will")}.appendTo(nil))
	f.Add(Order{Op: OpSignal, Signal: unix.SIGTERM, Scope: Tree}.appendTo(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		var o, again Order
		if o.parse(data) != nil {
			return
		}
		if err := again.parse(o.appendTo(nil)); err != nil || !reflect.DeepEqual(again, o) {
			t.Errorf("%+v is read as %+v, %v", o, again, err)
		}
		size := len(o.Op) + len(o.Scope) + len(o.Will) + len(o.Vars)
		for _, v := range o.Vars {
			size += len(v)
		}
		if size > len(data) {
			t.Errorf("%d bytes are read as %d", len(data), size)
		}
	})
}

func FuzzEventIsReadAsItIsWritten(f *testing.F) {
	f.Add(Event{Kind: Exited, Status: 0x0f, Left: true}.appendTo(nil))
	f.Add(Event{Kind: NotStarted, Pid: -1, Errno: unix.ENOENT, Terminal: true}.appendTo(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		var e, again Event
		if e.parse(data) != nil {
			return
		}
		if err := again.parse(e.appendTo(nil)); err != nil || again != e {
			t.Errorf("%+v is read as %+v, %v", e, again, err)
		}
	})
}

func FuzzCommandIsReadAsItIsWritten(f *testing.F) {
	f.Add(Command{Path: "/bin/true", Args: []string{"true"}, Env: []string{"A=1\n2"}}.appendTo(nil))
	f.Add(Command{
		Cgroup: "/sys/fs/cgroup/a b", Credential: &syscall.Credential{Uid: 1000, Gid: 100, Groups: []uint32{4}},
		Namespace: true, Aside: true, Blocked: 0x280000, Dir: "/srv", Enter: "/", Numbered: []string{"LISTEN_PID"},
		Args: []string{""},
	}.appendTo(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		var c, again Command
		if c.parse(data) != nil {
			return
		}
		if err := again.parse(c.appendTo(nil)); err != nil || !reflect.DeepEqual(again, c) {
			t.Errorf("%+v is read as %+v, %v", c, again, err)
		}
	})
}
