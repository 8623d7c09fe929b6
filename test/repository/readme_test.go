package repository

import (
	"fmt"
	"html"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"berth/internal/check"
	"berth/internal/config"
)

// The README's figures are those of the page that it links, rounded: of berth on RabbitMQ, etcdctl lock and flock.
func TestReadmeHasTheFiguresOfThePerformancePage(t *testing.T) {
	for row, of := range map[string]string{
		"`kill -9`: next command, s |":  "Wrapper killed (SIGKILL): until the standby's command starts",
		"... orphans, overlaps |":       "Wrapper killed (SIGKILL): its command runs beside the standby's, or for good",
		"start, ms |":                   "From exec to the command's first instruction, lock free",
		"... new lock |":                "From exec to the command's first instruction, lock never used",
		"handover, ms |":                "Handover: the holder's command ends, the waiter's starts",
		"processor time, ms |":          "Processor time of a run: all of the wrapper, without its command",
		"... server |":                  "Processor time of a run: the server",
		"memory, waiter, KiB |":         "Private memory of a waiter",
		"... holder |":                  "Private memory of a holder, without its command",
		"20 idle waiters, messages/s |": "20 idle waiters: messages to the server",
		"... without keepalives |":      "20 idle waiters: messages both ways that are no keepalives",
		"12 contenders, commands/s |":   "12 contenders, one slot: commands run",
	} {
		short := strings.Split(behind(t, "README.md", row), "|")
		long := columns.Split(strings.TrimSpace(behind(t, "docs/performance.txt", of)), -1)
		long = append(long[1:2], long[3:]...) // without the unit, and berth on one host
		for i, cell := range short {
			short, long := number.FindAllString(cell, -1), number.FindAllString(ratio.ReplaceAllString(long[i], ""), -1)
			if strings.HasPrefix(strings.TrimSpace(cell), "never") {
				continue // which the page says of how many
			}
			if len(short) != len(long) {
				t.Errorf("README.md: %s %s, and docs/performance.txt has %s", row, cell, long)
				continue
			}
			for i, figure := range short {
				_, fraction, _ := strings.Cut(figure, ".")
				exact, err := strconv.ParseFloat(long[i], 64)
				if scale := math.Pow10(len(fraction)); err != nil || figure != fmt.Sprintf("%.*f", len(fraction), math.Round(exact*scale)/scale) {
					t.Errorf("README.md: %s %s, and docs/performance.txt has %s (%v)", row, figure, long[i], err)
				}
			}
		}
	}
}

// Somebody who has never seen berth reads it to the end.
func TestReadmeIsShort(t *testing.T) {
	text, _, _ := strings.Cut(read(t, "README.md"), "\n## More\n")
	if n := len(strings.Fields(text)); n > 1000 {
		t.Errorf("README.md has %d words before its links, more than 1000", n)
	}
}

// `make picture` writes both again.
func TestPicturesShowWhatBerthPrints(t *testing.T) {
	cfg, err := config.LoadCheck(config.Input{Flags: map[string][]string{"mutex": {"importer"}}})
	if err != nil {
		t.Fatal(err)
	}
	var report strings.Builder
	if err := check.New(cfg).WriteText(&report); err != nil {
		t.Fatal(err)
	}
	const last = "earliest start of another holder\n"
	timeline, _, found := strings.Cut(report.String(), last)
	if !found || !strings.Contains(shows(t, "docs/check.svg"), timeline+last) {
		t.Errorf("docs/check.svg does not show %s", timeline+last)
	}
	var code strings.Builder
	for _, source := range sources(t, isNoTest) {
		code.WriteString(source)
	}
	shown := strings.Join(strings.Fields(shows(t, "docs/takeover.svg")), " ")
	messages := regexp.MustCompile(`berth: ([^=]+): lock=importer`).FindAllStringSubmatch(shown, -1)
	if len(messages) < 3 {
		t.Errorf("docs/takeover.svg shows %d messages only", len(messages))
	}
	for _, message := range messages {
		if !strings.Contains(code.String(), strconv.Quote(message[1])) {
			t.Errorf("docs/takeover.svg shows %q, which berth does not print", message[1])
		}
	}
}

// shows returns the text of a picture of terminals, line by line.
func shows(t *testing.T, picture string) string {
	t.Helper()
	var text strings.Builder
	for _, line := range regexp.MustCompile(`<text [^>]*>(.*)</text>`).FindAllStringSubmatch(read(t, picture), -1) {
		text.WriteString(html.UnescapeString(line[1]) + "\n")
	}
	return text.String()
}

var (
	ratio   = regexp.MustCompile(`\([0-9.]+x\)`)
	columns = regexp.MustCompile(`  +`)
	number  = regexp.MustCompile(`\b[0-9]+(\.[0-9]+)?\b`)
)

// behind returns what a row of a table has behind its name.
func behind(t *testing.T, page, row string) string {
	t.Helper()
	_, rest, found := strings.Cut(read(t, page), "\n"+row)
	if !found {
		t.Fatalf("%s has no row %s", page, row)
	}
	rest, _, _ = strings.Cut(rest, "\n")
	return strings.TrimSuffix(rest, "|")
}
