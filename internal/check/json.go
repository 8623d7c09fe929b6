package check

import (
	"encoding/json"
	"io"
	"strings"
	"time"

	"berth/internal/logging"
	"berth/internal/timing"
)

// The keys of the JSON report are stable; durations are in milliseconds.
type (
	jsonReport struct {
		Safe     bool         `json:"safe"` // no timing breaks the promise
		OK       bool         `json:"ok"`   // there is no problem at all
		Lock     *jsonLock    `json:"lock,omitempty"`
		Local    bool         `json:"local"`
		Timings  *jsonTimings `json:"timings,omitempty"` // not for local locks
		Timeline []jsonMoment `json:"timeline,omitempty"`
		Hooks    *jsonHooks   `json:"hooks,omitempty"`
		Health   *jsonHealth  `json:"health,omitempty"`     // if there are checks
		MaxRun   int64        `json:"max_run_ms,omitempty"` // of the command
		Command  *jsonCommand `json:"command,omitempty"`    // unless it is like berth in everything
		Broker   *jsonBroker  `json:"broker,omitempty"`     // with --connect

		Management *jsonManagement `json:"management,omitempty"` // with --management-url

		Problems []string `json:"problems"`
		Warnings []string `json:"warnings"`
		Advice   []string `json:"advice"`
	}
	jsonLock struct {
		Kind string `json:"kind"`
		Name string `json:"name"`
	}
	jsonTimings struct {
		Heartbeat      int64 `json:"heartbeat_ms"`
		VerifyInterval int64 `json:"verify_interval_ms"`
		VerifyTimeout  int64 `json:"verify_timeout_ms"`
		Loss           int64 `json:"loss_ms"`
		Margin         int64 `json:"margin_ms"`
		Needed         int64 `json:"needed_ms"`
		Lease          int64 `json:"lease_ms"`
		Deadline       int64 `json:"deadline_ms"`
		Handover       int64 `json:"handover_ms"`
		FreedLeast     int64 `json:"freed_least_ms"`
		FreedMost      int64 `json:"freed_most_ms"`
		FailoverMost   int64 `json:"failover_most_ms"`
	}
	jsonMoment struct {
		At     int64        `json:"at_ms"`
		Event  timing.Event `json:"event"`
		Signal string       `json:"signal,omitempty"`
		Late   bool         `json:"late,omitempty"`
	}
	jsonHooks struct {
		OnAcquire int64 `json:"on_acquire_ms"` // how long it may take, 0: there is none
		OnRelease int64 `json:"on_release_ms"`
		OnLost    int64 `json:"on_lost_ms"`
		Turnover  int64 `json:"turnover_ms"`
		Ending    int64 `json:"ending_ms"` // of berth, stop sequence included
	}
	jsonHealth struct {
		Interval     int64 `json:"interval_ms"`
		Timeout      int64 `json:"timeout_ms"`
		Retries      int   `json:"retries"`
		StartPeriod  int64 `json:"start_period_ms"`
		WhileWaiting bool  `json:"while_waiting"`
		Noticed      int64 `json:"noticed_most_ms"` // until a command that hangs is unhealthy
		Ended        int64 `json:"ended_most_ms"`   // and until it is dead
	}
	jsonBroker struct {
		URL           string   `json:"url"`
		Product       string   `json:"product"`
		Version       string   `json:"version"`
		Platform      string   `json:"platform"`
		Cluster       string   `json:"cluster"`
		TLS           *jsonTLS `json:"tls,omitempty"`  // not without TLS
		Login         string   `json:"login"`          // plain or external
		User          string   `json:"user,omitempty"` // by which the broker knows berth, if that is known
		Heartbeat     int64    `json:"heartbeat_ms"`
		Slots         *int     `json:"slots,omitempty"`         // 0: the lock does not exist
		QueueType     string   `json:"queue_type,omitempty"`    // of a lock that exists
		Runner        string   `json:"runner"`                  // a command line: what a user needs who runs
		Administrator string   `json:"administrator,omitempty"` // and who administers, too
	}
)

type jsonTLS struct {
	Version string `json:"version"`
	Cipher  string `json:"cipher"`
	Server  string `json:"server"` // the subject of its certificate
	Until   string `json:"until"`  // that is valid, in UTC
}

// WriteJSON prints the report for programs, as one object.
func (r *Report) WriteJSON(w io.Writer) error {
	out := jsonReport{
		Safe:     r.cfg.Local || r.cfg.Timings().Check() == nil,
		OK:       len(r.Problems) == 0,
		Local:    r.cfg.Local,
		Problems: []string{},
		Warnings: append([]string{}, r.Warnings...),
		Advice:   append([]string{}, r.Advice...),
	}
	for _, problem := range r.Problems {
		out.Problems = append(out.Problems, logging.OneLine(problem))
	}
	if r.cfg.Lock.Name != "" {
		out.Lock = &jsonLock{string(r.cfg.Lock.Kind), r.cfg.Lock.Name}
	}
	if !r.cfg.Local {
		out.Timings, out.Timeline = r.jsonTimings(), r.jsonTimeline()
	}
	out.Health, out.MaxRun = r.jsonHealth(), ms(r.cfg.MaxRun)
	out.Hooks, out.Command, out.Broker = r.jsonHooks(), r.command(), r.jsonBroker()
	out.Management = r.jsonManagement()
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(out)
}

func (r *Report) jsonTimings() *jsonTimings {
	t := r.cfg.Timings()
	least, most := t.Freed()
	return &jsonTimings{
		Heartbeat: ms(t.Heartbeat), VerifyInterval: ms(t.VerifyInterval), VerifyTimeout: ms(t.VerifyTimeout),
		Loss: ms(t.Loss), Margin: ms(timing.Margin), Needed: ms(t.Needed()), Lease: ms(t.Lease()),
		Deadline: ms(t.Deadline()), Handover: ms(t.Handover()),
		FreedLeast: ms(least), FreedMost: ms(most), FailoverMost: ms(t.Failover(r.cfg.HookTimes())),
	}
}

func (r *Report) jsonTimeline() []jsonMoment {
	var line []jsonMoment
	for _, m := range timing.Timeline(r.cfg.Timings(), r.cfg.Loss) {
		line = append(line, jsonMoment{ms(m.At), m.Event, m.Signal, m.Late})
	}
	return line
}

func (r *Report) jsonHooks() *jsonHooks {
	if len(r.cfg.Hooks) == 0 {
		return nil
	}
	h := r.cfg.HookTimes()
	return &jsonHooks{OnAcquire: ms(h.OnAcquire), OnRelease: ms(h.OnRelease), OnLost: ms(h.OnLost),
		Turnover: ms(h.Turnover()), Ending: ms(h.Ending(r.cfg.Stop.Duration()))}
}

func (r *Report) jsonHealth() *jsonHealth {
	h := r.cfg.Health
	if h.Command == nil {
		return nil
	}
	return &jsonHealth{Interval: ms(h.Interval), Timeout: ms(h.Timeout), Retries: h.Retries,
		StartPeriod: ms(h.StartPeriod), WhileWaiting: h.WhileWaiting, Noticed: ms(h.Noticed()),
		Ended: ms(h.Noticed() + r.cfg.Stop.Duration())}
}

func (r *Report) jsonBroker() *jsonBroker {
	f := r.broker
	if f == nil {
		return nil
	}
	out := &jsonBroker{URL: f.Broker, Product: f.Product, Version: f.Version,
		Platform: f.Platform, Cluster: f.Cluster, Heartbeat: ms(f.Heartbeat), QueueType: string(f.QueueType),
		Runner: f.Runner, Administrator: f.Administrator, Login: strings.ToLower(f.Login), User: f.User}
	if f.TLS != nil {
		out.TLS = &jsonTLS{f.TLS.Version, f.TLS.Cipher, f.TLS.Server, f.TLS.Until.UTC().Format(time.RFC3339)}
	}
	if f.Slots >= 0 {
		out.Slots = &f.Slots
	}
	return out
}

func ms(d time.Duration) int64 { return d.Milliseconds() }
