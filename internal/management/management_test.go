package management

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"berth/lock"
	"berth/test/authority"
)

// api returns the URL of what answers as the management plugin does.
func api(t *testing.T, answer func(w http.ResponseWriter, r *http.Request)) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(answer))
	t.Cleanup(server.Close)
	return server.URL
}

func item(name string, length int) string {
	return fmt.Sprintf(`{"name":%q,"arguments":{"x-max-length":%d,"x-overflow":"drop-head","x-queue-type":"classic"}}`,
		name, length)
}

func TestLocksAreFoundByNamesAndArguments(t *testing.T) {
	pages := []string{
		item("workers-1-A", 0) + "," + item("workers-2-A", 0) + "," + item("workers-1-B", 0) + "," +
			item("workers-1-T", 10000) + "," + item("importer-1-B", 0) + "," + item("importer-W", 100),
		item("mail-1-A", 1000) + `,{"name":"orders-1-A","arguments":{}},{"name":"-1-A","arguments":{}},` +
			item("batch-A-1", 0) + "," + item("amq.x-1-A", 0) + "," + item("cooks-K-1-A", 0) + "," +
			item("cooks-K-1-B", 0) + "," + item("cooks-K", 199998) + "," + item("cooks-K-A-1", 0) + "," +
			item("boss-Q-M-1-A", 0) + "," + item("lamp-Q-P-1-A", 0) + "," + item("pilots-Q-1-A", 0),
	}
	url := api(t, func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		if r.URL.EscapedPath() != "/at/api/queues/my%2Fvhost" || user != "u" || password != "p/w" {
			t.Errorf("asked for %s as %s:%s", r.URL.EscapedPath(), user, password)
		}
		number := map[string]int{"1": 0, "2": 1}[r.URL.Query().Get("page")]
		fmt.Fprintf(w, `{"page_count":2,"items":[%s]}`, pages[number])
	})
	broker := "amqp://u:p%2Fw@rabbit/my%2Fvhost"
	ids, err := Locks(t.Context(), Access{URL: url + "/at", Broker: broker})
	if want := `[mutex "boss" token-semaphore "cooks" mutex "importer" persistent-mutex "lamp" ` +
		`token-semaphore "pilots" semaphore "workers"]`; err != nil || fmt.Sprint(ids) != want {
		t.Errorf("got %v, %v, want %s", ids, err, want)
	}
	ids, err = Locks(t.Context(), Access{URL: url + "/at/", Broker: broker, NAL: true})
	if want := `[semaphore "batch" token-semaphore "cooks"]`; err != nil || fmt.Sprint(ids) != want {
		t.Errorf("in the other naming: got %v, %v, want %s", ids, err, want)
	}
}

// A broker's authority is that of its management plugin, as a rule, and no host trusts it by itself.
func TestAuthorityOfTheBrokerIsTrusted(t *testing.T) {
	ca := authority.New(t)
	ca.Sign("server", authority.Server, func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)} })
	pair, err := tls.LoadX509KeyPair(ca.File("server.pem"), ca.File("server.key"))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"page_count":0,"items":[]}`)
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	if _, err := Locks(t.Context(), Access{URL: server.URL, Broker: "amqps://h?cacertfile=" + ca.File("ca.pem")}); err != nil {
		t.Error(err)
	}
	for broker, says := range map[string]string{"amqps://h": "--tls-ca", "amqps://h?cacertfile=/no/such.pem": "/no/such.pem"} {
		if _, err := Locks(t.Context(), Access{URL: server.URL, Broker: broker}); !errors.Is(err, lock.ErrUnreachable) ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", broker, err)
		}
	}
}

func TestDefaultVhostAndOwnLogin(t *testing.T) {
	url := api(t, func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		if r.URL.EscapedPath() != "/api/queues/%2F" || user != "m" || password != "n" {
			t.Errorf("asked for %s as %s:%s", r.URL.EscapedPath(), user, password)
		}
		fmt.Fprint(w, `{"page_count":0,"items":[]}`)
	})
	url = strings.Replace(url, "http://", "http://m:n@", 1)
	for _, broker := range []string{"amqp://u:p@rabbit", "amqp://u:p@rabbit/", "amqp://u:p@rabbit/%2F"} {
		if ids, err := Locks(t.Context(), Access{URL: url, Broker: broker}); err != nil || len(ids) > 0 {
			t.Errorf("%s: got %v, %v", broker, ids, err)
		}
	}
}

func TestWhatIsNotTheAPIIsNamed(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	answering := func(status int, text string) string {
		return api(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://127.0.0.1:1/")
			w.WriteHeader(status)
			fmt.Fprint(w, text)
		})
	}
	for _, c := range []struct {
		url  string
		want error
	}{
		{gone.URL, lock.ErrUnreachable},
		{answering(401, ""), lock.ErrDenied},
		{answering(403, ""), lock.ErrDenied},
		{answering(404, ""), lock.ErrUnknown},
		{answering(302, ""), lock.ErrUnknown},
		{answering(200, "<html>"), lock.ErrUnknown},
		{answering(200, `{"page_count":1000000,"items":[]}`), lock.ErrUnknown},
		{answering(200, `{"items":[`+strings.Repeat(" ", maxBytes)+"]}"), lock.ErrUnknown},
	} {
		url := strings.Replace(c.url, "http://", "http://u:secret@", 1)
		_, err := Locks(t.Context(), Access{URL: url, Broker: "amqp://rabbit"})
		if !errors.Is(err, c.want) || strings.Contains(fmt.Sprint(err), "secret") {
			t.Errorf("%s: got %v, want %v", c.url, err, c.want)
		}
	}
}
