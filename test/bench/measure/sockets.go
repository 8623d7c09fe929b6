package measure

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Established returns how many connections a server on a TCP port of this network
// namespace has, over IPv4.
func Established(port int) (int, error) {
	const path = "/proc/net/tcp"
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	n, err := parseSockets(string(text), port)
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return n, err
}

// parseSockets counts the established connections whose own port it is; see
// proc_pid_net(5).
func parseSockets(table string, port int) (n int, err error) {
	const established = "01"
	for i, line := range strings.Split(strings.TrimSpace(table), "\n") {
		if i == 0 {
			continue // headings
		}
		fields := strings.Fields(line)
		if len(fields) < 4 {
			return 0, fmt.Errorf("%q has no state", line)
		}
		_, hex, _ := strings.Cut(fields[1], ":")
		own, err := strconv.ParseUint(hex, 16, 16)
		if err != nil {
			return 0, fmt.Errorf("%q has no port of its own: %w", line, err)
		}
		if int(own) == port && fields[3] == established {
			n++
		}
	}
	return n, nil
}
