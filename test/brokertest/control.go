package brokertest

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// controlLoop is what the node runs to serve a control. A packet is a length (4
// bytes, by the port's packet option), a number (8 bytes), and text: Erlang
// expressions in requests; in answers a 0 and the value, or a 1 and what went
// wrong. At end of file the node ends.
const controlLoop = `
spawn(fun() ->
  Port = open_port({fd, 3, 4}, [{packet, 4}, binary, eof]),
  Text = fun(V) when is_binary(V) -> V;
            (V) -> unicode:characters_to_binary(io_lib:format("~0tp", [V])) end,
  Run = fun(Code) ->
    {ok, Tokens, _} = erl_scan:string(unicode:characters_to_list(Code)),
    {ok, Parsed} = erl_parse:parse_exprs(Tokens),
    {value, V, _} = erl_eval:exprs(Parsed, []),
    V
  end,
  Serve = fun(Next) ->
    receive
      {Port, {data, <<Number:64, Code/binary>>}} ->
        Answer = try Run(Code) of V -> [0, Text(V)]
                 catch Class:Reason -> [1, Text({Class, Reason})] end,
        port_command(Port, [<<Number:64>>, Answer]),
        Next(Next);
      {Port, eof} -> erlang:halt(0)
    end
  end,
  Serve(Serve)
end).`

// maxAnswer is the longest answer that a control accepts, in bytes.
const maxAnswer = 4 << 20

// control evaluates Erlang expressions in a node.
type control struct {
	mu     sync.Mutex // one request at a time
	out    *os.File
	in     *os.File
	buf    *bufio.Reader // of in
	number uint64        // of the last request
	broken error         // set once a request was cut short
}

// newControl returns a control and the node's ends of its pipes, which the
// caller passes to the node as descriptors 3 and 4, and closes.
func newControl() (*control, []*os.File, error) {
	theirIn, out, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	in, theirOut, err := os.Pipe()
	if err != nil {
		return nil, nil, errors.Join(err, theirIn.Close(), out.Close())
	}
	c := &control{out: out, in: in, buf: bufio.NewReaderSize(in, maxAnswer+12)}
	return c, []*os.File{theirIn, theirOut}, nil
}

// close ends the control, and a request that is under way.
func (c *control) close() {
	c.out.Close()
	c.in.Close()
}

// eval evaluates code and returns its value as text.
func (c *control) eval(ctx context.Context, code string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken != nil {
		return "", c.broken
	}
	deadline, _ := ctx.Deadline()
	if err := errors.Join(ctx.Err(), c.out.SetDeadline(deadline), c.in.SetDeadline(deadline)); err != nil {
		return "", err
	}
	defer context.AfterFunc(ctx, func() {
		c.out.SetDeadline(time.Unix(1, 0))
		c.in.SetDeadline(time.Unix(1, 0))
	})()
	c.number++
	packet := binary.BigEndian.AppendUint32(nil, uint32(8+len(code)))
	packet = binary.BigEndian.AppendUint64(packet, c.number)
	if n, err := c.out.Write(append(packet, code...)); err != nil {
		if n > 0 {
			c.broken = fmt.Errorf("an earlier request was cut short: %w", err)
		}
		return "", err
	}
	return c.answer()
}

// answer reads up to the answer to the last request. Answers to earlier ones,
// whose deadline passed, are dropped.
func (c *control) answer() (string, error) {
	for {
		// Peek keeps what has come when the deadline passes in between.
		head, err := c.buf.Peek(4)
		if err != nil {
			return "", err
		}
		size := 4 + int(binary.BigEndian.Uint32(head))
		packet, err := c.buf.Peek(size)
		if err != nil {
			return "", err
		}
		number, failed, text := binary.BigEndian.Uint64(packet[4:]), packet[12] != 0, string(packet[13:])
		if _, err := c.buf.Discard(size); err != nil {
			return "", err
		}
		switch {
		case number != c.number:
			continue
		case failed:
			return "", errors.New(text)
		}
		return text, nil
	}
}

// Eval evaluates Erlang expressions in the node and returns the value of the
// last one: a binary as it is, anything else as Erlang writes it. It gives up
// when ctx ends, and after 20 s.
func (b *Broker) Eval(ctx context.Context, code string) (string, error) {
	n, err := b.running()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if !strings.HasSuffix(code, ".") {
		code += "."
	}
	text, err := n.ctl.eval(ctx, code)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("the broker does not answer: %w", err)
	}
	return text, err
}

// bin returns the text as an Erlang binary.
func bin(text string) string {
	return "<<" + strings.Trim(strings.ReplaceAll(fmt.Sprint([]byte(text)), " ", ","), "[]") + ">>"
}
