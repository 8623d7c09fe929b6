package web

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// observers is where rules and dashboard are.
const observers = "../../../packaging/observe"

// promtool runs Prometheus' own tool.
func promtool(t *testing.T, dir, input string, args ...string) {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		t.Fatal("promtool is missing; install Debian's package prometheus: scripts/deps.sh does")
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = dir
	cmd.Stdin = strings.NewReader(input)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func TestEachAlertFiresOnWhatItIsFor(t *testing.T) {
	promtool(t, observers, "", "check", "rules", "alerts.yml")
	promtool(t, observers, "", "test", "rules", "alerts_test.yml")
	tests := content(t, "alerts_test.yml")
	for _, found := range regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(content(t, "alerts.yml"), -1) {
		if !strings.Contains(tests, `{alertname="`+found[1]+`", alertstate="firing"}`) {
			t.Errorf("no test has %s fire", found[1])
		}
	}
}

func TestRulesAndDashboardKnowTheMetrics(t *testing.T) {
	known := make(map[string]bool)
	for _, f := range families {
		known[f.name] = true
		if f.histogram != nil {
			known[f.name+"_bucket"] = true
		}
	}
	for _, file := range []string{"alerts.yml", "alerts_test.yml", "grafana-dashboard.json"} {
		for _, name := range regexp.MustCompile(`\bberth_\w+`).FindAllString(content(t, file), -1) {
			if !known[name] {
				t.Errorf("%s uses %s, which does not exist", file, name)
			}
		}
	}
}

// The dashboard's expressions, with what Grafana puts in, have to be ones for Prometheus.
func TestDashboardAsksWhatPrometheusUnderstands(t *testing.T) {
	var dashboard struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	if err := json.Unmarshal([]byte(content(t, "grafana-dashboard.json")), &dashboard); err != nil {
		t.Fatal(err)
	}
	filled := strings.NewReplacer("$__rate_interval", "1m", "$lock", "m")
	rules := "groups:\n- name: dashboard\n  rules:\n"
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			expr, err := json.Marshal(filled.Replace(target.Expr))
			if err != nil {
				t.Fatal(err)
			}
			rules += "  - record: x\n    labels: {n: " + string(expr) + "}\n    expr: " + string(expr) + "\n"
		}
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "dashboard.yml"), []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, dir, "", "check", "rules", "dashboard.yml")
}

func content(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(observers, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
