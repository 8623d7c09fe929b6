package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// get returns what a server answers on HTTP, within 10 s.
func get(ctx context.Context, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %s: %s", url, response.Status, body)
	}
	return string(body), err
}

// awaitServer waits until a server answers on url what ready accepts.
func (a *arena) awaitServer(ctx context.Context, server *process, name, url string, ready func(body string) bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		body, err := get(ctx, url)
		if err == nil && ready(body) {
			return nil
		}
		select {
		case <-server.done:
			return fmt.Errorf("%s has ended; the end of its log:\n%s", name, tail(a.serverLog(name)))
		default:
		}
		if sleep(ctx, 50*time.Millisecond) != nil {
			return fmt.Errorf("%s is not ready: %w; the end of its log:\n%s", name, ctx.Err(), tail(a.serverLog(name)))
		}
	}
}

// eachMetric calls f for every line of a text in Prometheus' format:
//
//	name{label="value"} number
func eachMetric(text string, f func(name, labels string, value float64)) error {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		space := strings.LastIndexByte(line, ' ')
		if space < 0 {
			return fmt.Errorf("cannot read metric %q", line)
		}
		value, err := strconv.ParseFloat(line[space+1:], 64)
		if err != nil {
			return fmt.Errorf("cannot read metric %q: %w", line, err)
		}
		name, labels, _ := strings.Cut(line[:space], "{")
		f(name, labels, value)
	}
	return nil
}
