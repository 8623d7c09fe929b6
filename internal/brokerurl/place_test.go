package brokerurl

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// file returns the path of a file with a text.
func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// nodes returns the place of these URLs.
func nodes(t *testing.T, urls ...string) Place {
	t.Helper()
	var p Place
	for _, text := range urls {
		if err := p.Add(text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	return p
}

func TestWhatIsAPlace(t *testing.T) {
	for text, want := range map[string]Place{
		"local":             {Local: true},
		"local:///run/b":    {Local: true, Directory: "/run/b"},
		"amqp://h:1":        {Brokers: []string{"amqp://h:1"}},
		"amqp://h:65535":    {Brokers: []string{"amqp://h:65535"}},
		"amqp://[::1]":      {Brokers: []string{"amqp://[::1]"}},
		"amqp://[::1]:5672": {Brokers: []string{"amqp://[::1]:5672"}},
		"amqps://u:p@h/%2Fv?connection_timeout=2147483647": {
			Brokers: []string{"amqps://u:p@h/%2Fv?connection_timeout=2147483647"}},
		"amqp://h?auth_mechanism=external&channel_max=8": {
			Brokers: []string{"amqp://h?auth_mechanism=external&channel_max=8"}},
	} {
		got := nodes(t, text)
		if got.Local != want.Local || got.Directory != want.Directory || !slices.Equal(got.Brokers, want.Brokers) {
			t.Errorf("%s: %+v", text, got)
		}
	}
}

func TestWhatIsNoPlace(t *testing.T) {
	for text, want := range map[string]string{
		"local:///d?x=1": "three slashes", "local:///d#x": "three slashes", "local://u@/d": "three slashes",
		"local://h/d": "three slashes", "local:d": "three slashes", "amqp://u:p@:1": "write amqp://HOST:PORT/VHOST",
		"amqp://h:0": "from 1 to 65535", "amqp://h:65536": "from 1 to 65535", "amqp://h:99999999999999999999": "from 1 to 65535",
		"amqps://h?connection_timeout=2147483648": "from 0 to 2147483647", "amqps://h?channel_max=65536": "from 0 to 65535",
		"amqps://h?channel_max=-1": "from 0 to 65535", "amqps://h?channel_max=": "from 0 to 65535",
		"amqp://h?cacertfile=x":              "write amqps://",
		"amqps://h?x=1":                      "server_name_indication or tls_min_version, and write %3F",
		"amqps://h?tls_min_version=":         "choose 1.2 or 1.3",
		"amqps://h?certfile=a&certfile=b":    "certfile more than once",
		"amqps://h?heartbeat=1&heartbeat=2":  "--heartbeat",
		"amqps://h/v@w":                      "%40 for an @ in a vhost",
		"amqps://h?server_name_indication=@": "%40 for an @ in a vhost",
	} {
		var p Place
		if err := p.Add(text); err == nil || !strings.Contains(err.Error(), want) || len(p.Brokers) > 0 || p.Local {
			t.Errorf("%s: %v, %+v", text, err, p)
		}
	}
}

func TestURLsOfATextAreSeparated(t *testing.T) {
	for text, want := range map[string][]string{
		"amqp://a":                          {"amqp://a"},
		" amqp://a,\n":                      {"amqp://a"},
		"amqp://a, amqps://b\tlocal:///c":   {"amqp://a", "amqps://b", "local:///c"},
		"amqp://a local":                    {"amqp://a", "local"},
		"local,amqp://a":                    {"local", "amqp://a"},
		"amqp://a local,x":                  {"amqp://a", "local,x"},
		"amqp://u:a localhost@h":            {"amqp://u:a localhost@h"},
		"amqp://u:a,b c@h amqp://d":         {"amqp://u:a,b c@h", "amqp://d"},
		"amqp://aamqp://b":                  {"amqp://aamqp://b"},
		"amqp://a local\namqp://u:p local@": {"amqp://a", "local", "amqp://u:p local@"},
	} {
		if got := Split(text); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestWhatBeginsAsAURLDoes(t *testing.T) {
	for text, want := range map[string]bool{
		"amqp://": true, "AMQPS://h": true, "amqp:/h": false, "http://": false, "x amqp://": false,
	} {
		if BeginsLikeOne(text) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
	for text, want := range map[string]string{"local:": "local:", "@h": "***@h", "amqp://@h": "amqp://***@h"} {
		if got := Redact(text); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}

func TestPasswordCompletesURLsWithAUserAlone(t *testing.T) {
	p := nodes(t, "amqp://h", "amqp://u@a", "amqp://v:own@b", "amqp://w@c")
	if err := p.AddPassword(file(t, "sesame\r\n")); err != nil {
		t.Fatal(err)
	}
	if want := []string{"amqp://h", "amqp://u:sesame@a", "amqp://v:own@b", "amqp://w:sesame@c"}; !slices.Equal(p.Brokers, want) {
		t.Errorf("%q", p.Brokers)
	}
	for want, c := range map[string]struct {
		p    Place
		file string
	}{
		"for a URL that names a user and no password": {nodes(t, "amqp://h", "amqp://v:own@b"), file(t, "sesame")},
		"locks on this host have no password":         {nodes(t, "local"), file(t, "sesame")},
		"names an empty file":                         {nodes(t, "amqp://u@a"), file(t, "\n")},
		"cannot be read: no such file or directory":   {nodes(t, "amqp://u@a"), "/does/not/exist"},
	} {
		before := slices.Clone(c.p.Brokers)
		if err := c.p.AddPassword(c.file); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "sesame") || strings.Contains(err.Error(), "/does/not") {
			t.Errorf("%v, want %q", err, want)
		}
		if !slices.Equal(c.p.Brokers, before) {
			t.Errorf("%s: %q", want, c.p.Brokers)
		}
	}
}

func TestFileWithoutAURLIsNotRepeated(t *testing.T) {
	var p Place
	for text, want := range map[string]string{"sesame": "names a file without a URL", "": "names an empty file"} {
		if urls, err := p.ReadFile(file(t, text)); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "sesame") || urls != nil {
			t.Errorf("%q, %v", urls, err)
		}
	}
	if _, err := p.ReadFile("/does/not/exist"); err == nil {
		t.Error("there is none")
	}
}

func TestFilesThatAreReadAgainMayBeWrong(t *testing.T) {
	urls := file(t, "amqp://u:p@one")
	for name, c := range map[string]struct {
		source Source
		says   []string
	}{
		"no URLs":      {Source{BrokerFile: "/does/not/exist"}, []string{"/does/not/exist cannot be read"}},
		"a wrong URL":  {Source{BrokerFile: file(t, "amqp://u:sesame@h:0")}, []string{"file: amqp://***@h:0 has a port"}},
		"this host":    {Source{BrokerFile: file(t, "local")}, []string{"names no RabbitMQ any more"}},
		"no password":  {Source{URLs: []string{"amqp://u@h"}, PasswordFile: "/does/not/exist"}, []string{"/does/not/exist cannot"}},
		"wrong before": {Source{URLs: []string{"amqp://h:0"}, PasswordFile: "/p"}, []string{"/p: amqp://h:0 has a port"}},
		"another parameter": {Source{BrokerFile: file(t, "amqps://u:sesame@h?auth_mechanism=plain"),
			Parameters: map[string]string{Login: "external"}}, []string{"file: auth_mechanism=external contradicts"}},
	} {
		got, err := c.source.Read()
		if err == nil || got != nil {
			t.Errorf("%s: %q, %v", name, got, err)
			continue
		}
		for _, text := range c.says {
			if !strings.Contains(err.Error(), text) || strings.Contains(err.Error(), "sesame") {
				t.Errorf("%s: %v does not say %q", name, err, text)
			}
		}
	}
	if got, err := (Source{BrokerFile: urls}).Read(); err != nil || !slices.Equal(got, []string{"amqp://u:p@one"}) {
		t.Errorf("%q, %v", got, err)
	}
}

// What was relative to the working directory is so for ever, also once berth has left it.
func TestFilesOfURLsThatAreReadAgainStayWhereTheyWere(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.WriteFile("urls", []byte("amqps://h?cacertfile=ca.pem"), 0o600); err != nil {
		t.Fatal(err)
	}
	var p Place
	urls, err := p.ReadFile("urls")
	if err == nil {
		err = p.Add(urls[0])
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir("/")
	again, err := p.Source().Read()
	if err != nil || !slices.Equal(again, p.Brokers) || !strings.Contains(again[0], filepath.Base(dir)) {
		t.Errorf("%q is read again as %q, %v", p.Brokers, again, err)
	}
}

func TestWhatCannotBeReadAgainIsNotTried(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	feed := func() {
		if f, err := os.OpenFile(pipe, os.O_WRONLY, 0); err == nil {
			_, _ = f.WriteString("amqp://u@h")
			_ = f.Close()
		}
	}
	var p Place
	go feed()
	urls, err := p.ReadFile(pipe)
	if err != nil || !slices.Equal(urls, []string{"amqp://u@h"}) {
		t.Fatalf("%q, %v", urls, err)
	}
	if s := p.Source(); s.Changes() {
		t.Errorf("%+v", s)
	}
	// A password from a pipe completes URLs of a file, which nobody can complete again.
	p = nodes(t, "amqp://u@h")
	p.brokerFile = file(t, "amqp://u@h")
	go feed()
	if err := p.AddPassword(pipe); err != nil {
		t.Fatal(err)
	}
	if s := p.Source(); s.Changes() {
		t.Errorf("%+v", s)
	}
	p = nodes(t, "amqp://h")
	if err := p.Complete(Login, "plain"); err != nil {
		t.Fatal(err)
	}
	if s := p.Source(); !reflect.DeepEqual(s, Source{}) {
		t.Errorf("%+v", s)
	}
	if got := again("/does/not/exist"); got != "" {
		t.Error(got)
	}
}

// They are in the file, with passwords: nobody else is told of them.
func TestURLsOfAFileAreReadThereAlone(t *testing.T) {
	var p Place
	urls, err := p.ReadFile(file(t, "amqp://u@h"))
	if err == nil {
		err = errors.Join(p.Add(urls[0]), p.AddPassword(file(t, "sesame")))
	}
	if err != nil {
		t.Fatal(err)
	}
	if s := p.Source(); s.URLs != nil || s.BrokerFile == "" || s.PasswordFile == "" {
		t.Errorf("%+v", s)
	}
}

func TestLoginWithACertificateNeedsAllOfIt(t *testing.T) {
	for query, want := range map[string]string{
		"auth_mechanism=external":             "a login with a certificate needs one",
		"auth_mechanism=external&certfile=/c": "the certificate /c has no key",
		"auth_mechanism=external&keyfile=/k":  "the key /k has no certificate",
		"cacertfile=/does/not/exist":          "with h: /does/not/exist cannot be read",
	} {
		p := nodes(t, "amqp://a", "amqps://h?"+query)
		if err := p.CheckTLS(time.Now()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", query, err, want)
		}
	}
}

func TestPlacesAreTheSameButForTheLogin(t *testing.T) {
	for _, c := range []struct {
		a, b []string
		same bool
	}{
		{[]string{"amqp://u:p@h/v"}, []string{"amqp://w@h/v?channel_max=9"}, true},
		{[]string{"amqp://h/v"}, []string{"amqp://h/w"}, false},
		{[]string{"amqp://h/v"}, []string{"amqps://h/v"}, false},
		{[]string{"amqp://h"}, []string{"amqp://i"}, false},
		{[]string{"amqp://h", "amqp://i"}, []string{"amqp://h"}, false},
		{[]string{"local"}, []string{"local"}, true},
		{[]string{"local"}, []string{"amqp://h"}, false},
		{[]string{"local"}, nil, false},
		{[]string{"local:///a"}, []string{"local:///b"}, false},
	} {
		if Same(nodes(t, c.a...), nodes(t, c.b...)) != c.same {
			t.Errorf("%q and %q: %v", c.a, c.b, !c.same)
		}
	}
}
