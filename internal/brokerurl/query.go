package brokerurl

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// parameters are what may follow the ? of a broker's URL: what amqp091-go reads
// (https://www.rabbitmq.com/docs/uri-query-parameters) but for the heartbeat,
// which is an option of its own.
var parameters = []string{
	"auth_mechanism", "cacertfile", "certfile", "keyfile", "server_name_indication", "connection_timeout",
	"channel_max",
}

// leastChannels is the lowest limit that channel_max may set, a few more than a
// connection opens.
const leastChannels = 8

var mechanisms = []string{"plain", "amqplain", "external"}

// checkQuery finds mistakes now that would otherwise look like a broker that
// cannot be reached, and be waited out for ever. It shows keys and files, which
// are no secrets, and no other values.
func checkQuery(text string) error {
	query, err := url.ParseQuery(text)
	if err != nil {
		return errors.New("has parameters that cannot be read; write them as ?KEY=VALUE&KEY=VALUE, with %26 " +
			"for an & in a value")
	}
	if query.Has("heartbeat") {
		return errors.New("sets a heartbeat; take it out of the URL and use --heartbeat")
	}
	for key := range query {
		if !slices.Contains(parameters, key) {
			return fmt.Errorf("has a parameter that is not known; choose %s, and write %%3F for a ? in a password",
				alternatives(parameters))
		}
	}
	for _, mechanism := range query["auth_mechanism"] {
		if !slices.Contains(mechanisms, strings.ToLower(mechanism)) {
			return fmt.Errorf("has an auth_mechanism that is not known; choose %s", alternatives(mechanisms))
		}
	}
	for key, bits := range map[string]int{"connection_timeout": 31, "channel_max": 16} {
		if _, err := strconv.ParseUint(query.Get(key), 10, bits); query.Has(key) && err != nil {
			return fmt.Errorf("has a %s that is not a number from 0 to %d; correct it", key, 1<<bits-1)
		}
	}
	if n, err := strconv.Atoi(query.Get("channel_max")); err == nil && n > 0 && n < leastChannels {
		return fmt.Errorf("has a channel_max that is too low for berth; make it %d at least, or 0 for no limit",
			leastChannels)
	}
	return checkCertificates(query)
}

// alternatives returns "a, b or c".
func alternatives(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// withAbsoluteFiles returns the URL with the absolute paths of its files, which
// are read again for each connection: berth does not stay in its working
// directory.
func withAbsoluteFiles(u *url.URL, text string) (string, error) {
	query, changed := u.Query(), false
	for _, key := range []string{"cacertfile", "certfile", "keyfile"} {
		if path := query.Get(key); path != "" && !filepath.IsAbs(path) {
			path, err := filepath.Abs(path)
			if err != nil {
				return "", fmt.Errorf("has a %s whose directory cannot be found out: %v; give its absolute path", key,
					err)
			}
			query.Set(key, path)
			changed = true
		}
	}
	if !changed {
		return text, nil
	}
	before, _, _ := strings.Cut(text, "?")
	return before + "?" + query.Encode(), nil
}

// checkCertificates reads the files of the URL, as the connection will.
func checkCertificates(query url.Values) error {
	if path := query.Get("cacertfile"); path != "" {
		data, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("has a cacertfile that cannot be used: %v; give a file that you may read", err)
		}
		if !x509.NewCertPool().AppendCertsFromPEM(data) {
			return fmt.Errorf("has a cacertfile without a certificate: %s; give one in PEM", path)
		}
	}
	cert, key := query.Get("certfile"), query.Get("keyfile")
	if (cert == "") != (key == "") {
		return errors.New("has one of certfile and keyfile; give both or none")
	}
	if cert == "" {
		return nil
	}
	if _, err := tls.LoadX509KeyPair(cert, key); err != nil {
		return fmt.Errorf("has a certfile and a keyfile that cannot be used: %v; give a pair in PEM that you may "+
			"read", err)
	}
	return nil
}
