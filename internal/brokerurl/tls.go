package brokerurl

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"berth/internal/pemfile"
)

// Login is the parameter that says how berth logs in: one of mechanisms.
const Login = "auth_mechanism"

// The parameters that are about TLS.
const (
	Authorities   = "cacertfile"             // a file: who may have signed the broker's certificate
	Certificate   = "certfile"               // a file: berth's own certificate
	Key           = "keyfile"                // a file: its key
	ServerName    = "server_name_indication" // that the broker's certificate has to have, if it is not the host
	OldestVersion = "tls_min_version"        // one of versions
)

var (
	files    = []string{Authorities, Certificate, Key}
	aboutTLS = append(slices.Clone(files), ServerName, OldestVersion)
	versions = []string{"1.2", "1.3"}
)

// Complete has each amqps:// URL say this, which is one of the parameters about TLS or Login; that also goes for
// amqp:// URLs. What a URL says by itself has to be the same.
func (p *Place) Complete(key, value string) error {
	if p.Local {
		return errors.New("needs a broker: locks on this host have neither TLS nor a login; leave it out")
	}
	value, err := p.absolute(key, value)
	if err != nil {
		return err
	}
	used := false
	for i, broker := range p.Brokers {
		u, err := url.Parse(broker)
		if err != nil || u.Scheme != "amqps" && key != Login {
			continue
		}
		query := u.Query()
		if own := query.Get(key); query.Has(key) && own != value {
			return fmt.Errorf("contradicts the URL of %s, which has %s=%s; keep one of them", u.Host, key, own)
		}
		query.Set(key, value)
		p.Brokers[i], used = withQuery(broker, query), true
	}
	if !used && len(p.Brokers) > 0 {
		return errors.New("is for amqps:// URLs, and there is none; write amqps://HOST:5671/VHOST for a broker with TLS")
	}
	if p.completed == nil {
		p.completed = map[string]string{}
	}
	p.completed[key] = value
	return nil
}

func withQuery(text string, query url.Values) string {
	before, _, _ := strings.Cut(text, "?")
	return before + "?" + query.Encode()
}

// absolute returns the absolute path of a file, which is read again for each connection: berth does not stay in its
// working directory. Other values are returned as they are.
func (p *Place) absolute(key, value string) (string, error) {
	if !slices.Contains(files, key) || value == "" || filepath.IsAbs(value) {
		return value, nil
	}
	path, err := filepath.Abs(filepath.Join(p.dir, value))
	if err != nil {
		return "", fmt.Errorf("names a file whose directory cannot be found out: %w; give its absolute path", err)
	}
	return path, nil
}

// CheckTLS finds mistakes in the files that the complete URLs name, as the connections will read them. The
// certificates have to be valid at that moment.
func (p *Place) CheckTLS(now time.Time) error {
	for _, broker := range p.Brokers {
		u, err := url.Parse(broker)
		if err != nil || u.Scheme != "amqps" {
			continue
		}
		if err := checkFiles(u.Query(), now); err != nil {
			return fmt.Errorf("cannot speak TLS with %s: %w", u.Host, err)
		}
	}
	return nil
}

func checkFiles(query url.Values, now time.Time) error {
	if path := query.Get(Authorities); path != "" {
		all, err := pemfile.Authorities(path)
		if err != nil {
			return err
		}
		for _, c := range all {
			if err = pemfile.Valid(c, now); err == nil {
				break
			}
		}
		if err != nil {
			return fmt.Errorf("no certificate in %s is valid now, and the last one %w; put that of the broker's authority "+
				"into it", path, err)
		}
	}
	cert, key := query.Get(Certificate), query.Get(Key)
	switch {
	case cert == "" && key == "" && query.Get(Login) == "external":
		return errors.New("a login with a certificate needs one; give --tls-cert and --tls-key, or --login plain")
	case cert == "" && key == "":
		return nil
	case key == "":
		return fmt.Errorf("the certificate %s has no key; give --tls-key too", cert)
	case cert == "":
		return fmt.Errorf("the key %s has no certificate; give --tls-cert too", key)
	}
	pair, err := pemfile.Pair(cert, key)
	if err != nil {
		return err
	}
	if err := pemfile.Valid(pair.Leaf, now); err != nil {
		return fmt.Errorf("the certificate %s (%s) %w; replace it and its key", cert, pair.Leaf.Subject, err)
	}
	return nil
}
