package broker

import "encoding/binary"

// layout says of what values something consists: a digit for so many bytes, s for a short string, l for a long one, t for
// a table, a for an array.
type layout string

// properties are those of a message, in the order of their flags, which begin with the highest bit.
const properties layout = "sst11ssss8ssss"

// fields are the types of what tables and arrays consist of, as far as amqp091-go 1.16 knows them: RabbitMQ takes L, too.
var fields = map[byte]byte{'V': '0', 'b': '1', 'B': '1', 't': '1', 's': '2', 'u': '2', 'I': '4', 'i': '4', 'f': '4',
	'D': '5', 'l': '8', 'd': '8', 'T': '8', 'S': 'l', 'x': 'l', 'F': 't', 'A': 'a'}

// How deep tables may be nested, and how much may be in one: far more than berth or a broker puts there, and less than
// amqp091-go 1.16 reads (32, and 8192). RabbitMQ limits neither.
const (
	maxNested = 10
	maxFields = 1000
)

// fits reports whether the values are as long as they say, and can be read: amqp091-go reads on beyond the end of the
// frame.
func (l layout) fits(data []byte) bool {
	rest, fits := l.behind(data)
	return fits && len(rest) == 0
}

// behind returns what follows the values; false if they do not fit.
func (l layout) behind(data []byte) (rest []byte, fits bool) {
	for i := range len(l) {
		if data, fits = behind(l[i], data, 0); !fits {
			return nil, false
		}
	}
	return data, true
}

// readable reports whether the properties that a content header says it has can be read.
func readable(header []byte) bool {
	has, flags := make([]byte, 0, len(properties)), binary.BigEndian.Uint16(header[12:])
	for i := range len(properties) {
		if flags&(1<<15>>i) != 0 {
			has = append(has, properties[i])
		}
	}
	_, fits := layout(has).behind(header[bare.size:])
	return fits
}

// behind returns what follows a value of that kind, in so many tables and arrays; false if it does not fit.
func behind(kind byte, data []byte, nested int) (rest []byte, fits bool) {
	begin, n := 0, int(kind-'0')
	switch {
	case kind == 's' && len(data) > 0:
		n = 1 + int(data[0])
	case kind >= 'a' && len(data) >= 4:
		begin, n = 4, 4+int(binary.BigEndian.Uint32(data))
	}
	if n > len(data) {
		return nil, false
	}
	fits = kind != 't' && kind != 'a' || filled(kind, data[begin:n], nested+1)
	return data[n:], fits
}

// filled reports whether a table or an array consists of fields that can be read.
func filled(kind byte, data []byte, nested int) bool {
	for n := 0; len(data) > 0; n++ {
		fits := n < maxFields && nested <= maxNested
		if fits && kind == 't' {
			data, fits = behind('s', data, nested)
		}
		if !fits || len(data) == 0 || fields[data[0]] == 0 {
			return false
		}
		if data, fits = behind(fields[data[0]], data[1:], nested); !fits {
			return false
		}
	}
	return true
}
