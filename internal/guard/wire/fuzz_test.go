package wire

import (
	"reflect"
	"slices"
	"strings"
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

// lines are texts without a NUL, which no argument or variable can have.
func lines(text string) []string {
	return strings.Split(strings.ReplaceAll(text, "\x00", ""), "\n")
}

func FuzzArgumentsAreReadAsTheyAreWritten(f *testing.F) {
	f.Add(strings.Join(Args{Conn: 3, Path: "/bin/true", Command: []string{"true"}}.Strings(), "\n"))
	f.Add("berth-guard\n57\n/sys/fs/cgroup/a b\n1000,100,4\nown\naside\n280000\n/srv\nLISTEN_PID\n-\n-\n\nown")
	f.Fuzz(func(t *testing.T, text string) {
		a, err := ParseArgs(lines(text))
		if err != nil {
			return
		}
		again, err := ParseArgs(a.Strings())
		if err != nil || !reflect.DeepEqual(again, a) {
			t.Errorf("%+v is read as %+v, %v", a, again, err)
		}
	})
}

func FuzzCommandGetsItsEnvironment(f *testing.F) {
	f.Add("A=GOGC=1\nGOGC=1\nGOMAXPROCS=2\nB")
	f.Add(kept + "GOGC=off")
	f.Fuzz(func(t *testing.T, text string) {
		want := lines(text)
		if got := CommandEnv(GuardEnv(want)); !slices.Equal(got, want) {
			t.Errorf("%q is handed on as %q", want, got)
		}
	})
}
