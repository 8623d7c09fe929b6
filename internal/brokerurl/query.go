package brokerurl

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// parameters are what may follow the ? of a broker's URL: what amqp091-go reads
// (https://www.rabbitmq.com/docs/uri-query-parameters) but for the heartbeat,
// which is an option of its own, and the oldest version of TLS.
var parameters = append([]string{Login, "connection_timeout", "channel_max"}, aboutTLS...)

// minChannels is the lowest limit that channel_max may set, a few more than a
// connection opens.
const minChannels = 8

var mechanisms = []string{"plain", "external"}

// checkQuery finds mistakes now that would otherwise look like a broker that
// cannot be reached, and be waited out for ever. It shows keys and files, which
// are no secrets, and no other values.
func checkQuery(u *url.URL) error {
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return errors.New("has parameters that cannot be read; write them as ?KEY=VALUE&KEY=VALUE, with %26 " +
			"for an & in a value")
	}
	if query.Has("heartbeat") {
		return errors.New("sets a heartbeat; take it out of the URL and use --heartbeat")
	}
	for key, values := range query {
		switch {
		case !slices.Contains(parameters, key):
			return fmt.Errorf("has a parameter that is not known; choose %s, and write %%3F for a ? in a password",
				alternatives(parameters))
		case len(values) > 1:
			return fmt.Errorf("has %s more than once; keep one of them", key)
		case u.Scheme != "amqps" && slices.Contains(aboutTLS, key):
			return fmt.Errorf("has %s, which is about TLS; write amqps://HOST:5671, or leave it out", key)
		}
	}
	for key, words := range map[string][]string{Login: mechanisms, OldestVersion: versions} {
		if query.Has(key) && !slices.Contains(words, query.Get(key)) {
			return fmt.Errorf("has an unknown %s; choose %s", key, alternatives(words))
		}
	}
	for key, bits := range map[string]int{"connection_timeout": 31, "channel_max": 16} {
		if _, err := strconv.ParseUint(query.Get(key), 10, bits); query.Has(key) && err != nil {
			return fmt.Errorf("has a %s that is not a number from 0 to %d; correct it", key, 1<<bits-1)
		}
	}
	if n, err := strconv.Atoi(query.Get("channel_max")); err == nil && n > 0 && n < minChannels {
		return fmt.Errorf("has a channel_max that is too low for berth; make it %d at least, or 0 for no limit",
			minChannels)
	}
	return nil
}

// alternatives returns "a, b or c".
func alternatives(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
