package broker

import (
	"net"
	"slices"
	"testing"
)

type pieces struct {
	net.Conn
	all []string
}

func (p *pieces) Write(data []byte) (int, error) {
	p.all = append(p.all, string(data))
	return len(data), nil
}

// A claim and the reading of the ledger are one piece: if the refusal of the claim came between them, the broker
// would close the connection.
func TestGatheredWritesGoOutTogether(t *testing.T) {
	var p pieces
	b := &Socket{Conn: &p}
	write := func(text string) {
		if n, err := b.Write([]byte(text)); n != len(text) || err != nil {
			t.Fatal(n, err)
		}
	}
	b.Begin(2)
	write("a")
	write("b")
	write("c")
	b.End()
	b.Begin(2)
	write("d")
	b.End() // there is no second
	b.Begin(0)
	write("e")
	write("f")
	write("g")
	b.End()
	if want := []string{"ab", "c", "d", "efg"}; !slices.Equal(p.all, want) {
		t.Errorf("written: %q, want %q", p.all, want)
	}
}
