package config

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

//go:generate go test -run TestDocumentationHasTheTableOfOptions -args -update

var update = flag.Bool("update", false, "write the table of options into docs/configuration.md")

const documentation = "../../docs/configuration.md"

// optionsTable returns the table as docs/configuration.md has it.
func optionsTable() string {
	var b strings.Builder
	b.WriteString("| flag | variable | key | default | meaning |\n| --- | --- | --- | --- | --- |\n")
	cell := func(text string) string {
		if text == "" {
			return ""
		}
		return "`" + strings.ReplaceAll(text, "|", "\\|") + "`"
	}
	for _, o := range RunOptions() {
		written := o.Flag()
		if o.Value != "" && written != "" {
			written += " " + o.Value
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", cell(written), cell(o.Env()), cell(o.Key()), cell(o.Default), o.Usage)
	}
	return b.String()
}

func TestDocumentationHasTheTableOfOptions(t *testing.T) {
	source, err := os.ReadFile(documentation)
	if err != nil {
		t.Fatal(err)
	}
	marked := regexp.MustCompile(`(?s)(<!-- options: [^\n]* -->\n)(.*)(<!-- end of options -->\n)`)
	found := marked.FindSubmatch(source)
	if found == nil {
		t.Fatalf("%s has no place for the table", documentation)
	}
	want := optionsTable()
	if string(found[2]) == want {
		return
	}
	if !*update {
		t.Fatalf("the table in %s is out of date; run: go generate ./internal/config", documentation)
	}
	begin, end := found[1], found[3]
	text := strings.Replace(string(source), string(found[0]), string(begin)+want+string(end), 1)
	if err := os.WriteFile(documentation, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
