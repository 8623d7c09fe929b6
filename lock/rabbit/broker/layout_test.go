package broker

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"
)

// with is the header of a message with a table, in which there are those bytes.
func with(fields []byte) []byte {
	table := append(binary.BigEndian.AppendUint32(nil, uint32(len(fields))), fields...)
	return framed(frameHeader, 1, slices.Concat([]byte{0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x20, 0}, table)...)
}

// nested nests a field, one that has no name, in arrays.
func nested(depth int, field ...byte) []byte {
	for range depth {
		field = append(binary.BigEndian.AppendUint32([]byte{'A'}, uint32(len(field))), field...)
	}
	return append([]byte{0}, field...)
}

// What RabbitMQ takes of a stranger, and amqp091-go cannot read, is dropped. What berth and a broker say is passed on.
func TestPropertiesThatCannotBeReadAreDropped(t *testing.T) {
	for name, c := range map[string]struct {
		fields []byte
		passed bool
	}{
		"none": {nil, true},
		"of every type": {slices.Concat([]byte("\x01aV\x00bx\x00Bx\x00tx\x00sxx\x00uxx\x00Ixxxx\x00ixxxx\x00fxxxx\x00Dxxxxx"),
			[]byte("\x00lxxxxxxxx\x00dxxxxxxxx\x00Txxxxxxxx\x00S\x00\x00\x00\x01x\x00x\x00\x00\x00\x01x\x00F\x00\x00\x00\x02\x00V")), true},
		"nested":                  {nested(maxNested-1, 'V'), true},
		"many":                    {bytes.Repeat([]byte{0, 'V'}, maxFields), true},
		"of another type":         {[]byte{0, 'L', 0, 0, 0, 0, 0, 0, 0, 0}, false},
		"of another type, nested": {nested(1, 'L', 0, 0, 0, 0, 0, 0, 0, 0), false},
		"nested deeper":           {nested(maxNested, 'V'), false},
		"more":                    {bytes.Repeat([]byte{0, 'V'}, maxFields+1), false},
		"more, nested":            {nested(1, bytes.Repeat([]byte{'V'}, maxFields+1)...), false},
		"without a type":          {[]byte{0}, false},
		"longer than the table":   {[]byte{0, 'S', 0, 0, 0, 9}, false},
		"negative":                {[]byte{0, 'x', 0xFF, 0xFF, 0xFF, 0xFF}, false},
		"array that is longer":    {[]byte{0, 'A', 0, 0, 0, 9, 'V'}, false},
		"name that is longer":     {[]byte{9, 'V'}, false},
		"length without an end":   {[]byte{0, 'S', 0, 0}, false},
		"number without an end":   {[]byte{0, 'I', 0, 0}, false},
	} {
		t.Run(name, func(t *testing.T) {
			large := calls(0, 10, 30, 0, 0, 0, 1, 0, 0, 0, 0) // frames of 64 KiB
			begin := slices.Concat(starts, large, opens, delivers)
			want := content(1, 0, 0)
			if c.passed {
				want = with(c.fields)
			}
			got, err := passed(t, 0, bytes.NewReader(slices.Concat(begin, with(c.fields), beat)))
			if want = slices.Concat(begin, want, beat); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%v; passed on: %q, want %q", err, got, want)
			}
		})
	}
}
