package main

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"berth/test/brokertest"
)

// packaged returns a file of packaging.
func packaged(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../../packaging/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// list returns a list of a YAML file that is written as one of JSON.
func list(t *testing.T, text, key string) (words []string) {
	t.Helper()
	found := regexp.MustCompile(`(?s)\n *` + key + `: (\[.*?\])\n`).FindStringSubmatch(text)
	if found == nil {
		t.Fatalf("there is no list %s", key)
	}
	if err := json.Unmarshal([]byte(found[1]), &words); err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	return words
}

func TestContainersAreConfiguredSafely(t *testing.T) {
	t.Parallel()
	compose, deployment := packaged(t, "docker/compose.yaml"), packaged(t, "kubernetes/deployment.yaml")
	for name, line := range map[string][]string{
		"compose":    append(list(t, compose, "entrypoint"), list(t, compose, "command")...),
		"deployment": list(t, deployment, "command"),
	} {
		cmd := exec.Command(built.berth, append([]string{"check"}, line[2:]...)...)
		cmd.Env = append(environment(), "BERTH_BROKER=amqp://rabbit")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", name, err, out)
		}
	}
}

// api stands for the part of Kubernetes' API that knows where connections go.
type api struct {
	*httptest.Server
	mu sync.Mutex
	to string
}

const sliceOfImporter = "/apis/discovery.k8s.io/v1/namespaces/here/endpointslices/importer"

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var patch struct {
		Endpoints []struct {
			Addresses  []string
			Conditions struct{ Ready bool }
		}
	}
	if r.Method != http.MethodPatch || r.URL.Path != sliceOfImporter || r.Header.Get("Authorization") != "Bearer 4711" ||
		r.Header.Get("Content-Type") != "application/merge-patch+json" || json.NewDecoder(r.Body).Decode(&patch) != nil {
		http.Error(w, "no", http.StatusForbidden)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.to = ""
	for _, e := range patch.Endpoints {
		if e.Conditions.Ready {
			a.to += strings.Join(e.Addresses, " ")
		}
	}
}

func (a *api) traffic() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.to
}

// pods are those of packaging/kubernetes, without Kubernetes.
type pods struct {
	*place
	api   *api
	line  []string
	ready string // path
}

func newPods(t *testing.T) *pods {
	t.Helper()
	place, _ := onBroker(t) // waiters of this host have no order
	p := &pods{place: place, api: &api{}}
	p.api.Server = httptest.NewTLSServer(p.api)
	t.Cleanup(p.api.Close)
	deployment := packaged(t, "kubernetes/deployment.yaml")
	p.line = list(t, deployment, "command")
	p.ready = regexp.MustCompile(`readinessProbe:\n *httpGet: {path: (\S+),`).FindStringSubmatch(deployment)[1]
	p.program("importer", "exec sleep 1000")
	p.program("traffic", strings.NewReplacer("/var/run/secrets/kubernetes.io/serviceaccount", p.dir,
		"https://kubernetes.default.svc", p.api.URL).Replace(packaged(t, "kubernetes/traffic")))
	for name, text := range map[string]string{
		"token": "4711", "namespace": "here",
		"ca.crt": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.api.Certificate().Raw})),
	} {
		if err := os.WriteFile(p.path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// pod is one of them.
type pod struct {
	running
	ip string
}

// add starts a pod, and waits until it is ready.
func (p *pods) add() pod {
	p.t.Helper()
	ports, err := brokertest.FreePorts(1)
	if err != nil {
		p.t.Fatal(err)
	}
	on := fmt.Sprintf("127.0.0.1:%d", ports[0])
	line := strings.Split(strings.NewReplacer(":9420", on, "/traffic/traffic", p.path("bin/traffic"),
		"/usr/bin/importer", p.path("bin/importer"), "/usr/bin/berth", built.berth).
		Replace(strings.Join(p.line, "\n")), "\n")
	all := pod{ip: fmt.Sprintf("10.0.0.%d", p.started+1)}
	all.running = p.launch(line, "POD_IP="+all.ip)
	p.await("a pod that is ready", func() bool {
		answer, err := http.Get("http://" + on + p.ready)
		if err != nil {
			return false
		}
		answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	})
	return all
}

// remove ends a pod cleanly.
func (p *pods) remove(old pod) {
	p.t.Helper()
	if err := old.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	select {
	case <-old.Done():
	case <-time.After(patience):
		p.t.Fatalf("a pod does not end within %s of TERM", patience)
	}
}

// awaitActive waits until the pod's command runs, and connections go to it.
func (p *pods) awaitActive(one pod) {
	p.t.Helper()
	p.awaitSaid("command started", one.running)
	if to := p.api.traffic(); to != one.ip {
		p.t.Errorf("%s is active, and connections go to %q", one.ip, to)
	}
}

// A rollout, as a Deployment with maxSurge 1 and maxUnavailable 0 does it: it waits until the new pod is ready.
func TestRolloutOfTwoPodsEnds(t *testing.T) {
	t.Parallel()
	p := newPods(t)
	first := p.add()
	p.awaitActive(first)
	second := p.add()
	third := p.add()
	p.remove(first)
	p.awaitActive(second)
	fourth := p.add()
	p.remove(second)
	p.awaitActive(third)
	if err := third.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p.awaitActive(fourth)
	p.remove(fourth)
	if to := p.api.traffic(); to != "" {
		t.Errorf("nobody is left, and connections go to %s", to)
	}
}
