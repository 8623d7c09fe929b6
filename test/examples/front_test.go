package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// pasted returns the commands of a section of README.md: its indented lines.
func pasted(t *testing.T, heading string) string {
	t.Helper()
	all, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(all), "\n"+heading+"\n")
	if !found {
		t.Fatalf("README.md has no %q", heading)
	}
	section, _, _ = strings.Cut(section, "\n#")
	var lines strings.Builder
	for _, line := range regexp.MustCompile(`(?m)^    (.*)$`).FindAllStringSubmatch(section, -1) {
		lines.WriteString(line[1] + "\n")
	}
	return lines.String()
}

func TestReadmeIsRightForWhoHasNoBroker(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "")
	p.program("make", "true")
	p.env = append(p.env, "HOME="+p.dir)
	said := p.run(pasted(t, "### One minute, no broker") + "wait")
	if !strings.Contains(said, "\nmy turn\n") {
		t.Errorf("the second command did not run: %s", said)
	}
}

// What rabbitmqctl is told is enough for every lock of the page.
func TestReadmeIsRightForWhoHasABroker(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "")
	p.program("rabbitmqctl", `echo "$@" >>rabbitmqctl.log`)
	for _, name := range []string{"importer", "importer-v2", "worker"} {
		if err := os.WriteFile(p.path(name), []byte("#!/bin/sh\necho $0 runs\nexec sleep 1000\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	administer, use, _ := strings.Cut(pasted(t, "### With RabbitMQ"), "export ")
	p.run(administer)
	log, err := os.ReadFile(p.path("rabbitmqctl.log"))
	if want := "add_vhost locks\nadd_user berth secret\n" +
		"set_permissions -p locks berth .* ^amq\\.default$ .*\n"; err != nil || string(log) != want {
		t.Fatalf("rabbitmqctl is called with %s (%v)", log, err)
	}
	if err := rabbit.AddVhost(t.Context(), "locks"); err != nil {
		t.Fatal(err)
	}
	if err := rabbit.AddUser(t.Context(), "berth", "secret"); err != nil {
		t.Fatal(err)
	}
	if err := rabbit.SetPermissions(t.Context(), "berth", "locks", ".*", `^amq\.default$`, ".*"); err != nil {
		t.Fatal(err)
	}
	use = "export " + strings.NewReplacer("@localhost", "@"+rabbit.Addr(), "sleep 60", "echo runs").Replace(use)
	if said := p.run(use); !strings.Contains(said, "safe, and the broker can carry it") || !strings.Contains(said, "\nruns\n") {
		t.Errorf("a mutex: %s", said)
	}
	p.env = append(p.env, "BERTH_BROKER="+rabbit.URLFor("berth", "secret", "locks"))

	uses := pasted(t, "## Use it")
	line := func(text string) string {
		t.Helper()
		found := regexp.MustCompile(`(?m)^berth ` + regexp.QuoteMeta(text) + `[^#\n]*`).FindString(uses)
		if found == "" {
			t.Fatalf("README.md has no berth %s", text)
		}
		return found
	}
	p.run(line("semaphore create"))
	var workers []running
	for range 5 {
		workers = append(workers, p.start(line("run --semaphore")))
	}
	p.run(line("semaphore resize"))
	for _, worker := range workers {
		p.awaitSaid("./worker runs", worker)
	}
	holder := p.start("berth run --mutex importer -- ./importer")
	p.awaitSaid("./importer runs", holder)
	watch := p.start(line("status"))
	p.awaitSaid("held", watch)
	standby := p.start("berth run --mutex importer -- ./importer")
	p.awaitSaid("next in line", standby)
	p.run(line("step-down"))
	p.awaitSaid("./importer runs", standby)
	p.awaitSaid("./importer-v2 runs", p.start(line("run --mutex importer --takeover")))

	cluster := regexp.MustCompile("\\*\\*On a cluster\\*\\*, add `([^`]+)`").FindStringSubmatch(pageText(t))
	if cluster == nil {
		t.Fatal("README.md has no lock that survives the loss of a node")
	}
	p.run("berth run --mutex clustered --try " + cluster[1] + " -- true")
}

// pageText returns README.md with each paragraph on one line.
func pageText(t *testing.T) string {
	t.Helper()
	all, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(string(all)), " ")
}
