package main

import (
	"fmt"
	"html"
	"strings"
	"time"
)

// pane is a terminal: its lines, each as it was printed, and when.
type pane struct {
	title   string
	columns int
	lines   []line
}

type line struct {
	at   time.Duration // since the recording began
	text string
}

func (p *pane) add(at time.Duration, text string) { p.lines = append(p.lines, line{at, text}) }

func (p *pane) shows(text string) bool {
	for _, l := range p.lines {
		if strings.Contains(l.text, text) {
			return true
		}
	}
	return false
}

// rows returns the lines, broken between words into as many columns as there are.
func (p *pane) rows() (all []line) {
	for _, l := range p.lines {
		text := l.text
		for len(text) > p.columns {
			at := strings.LastIndex(text[:p.columns], " ")
			if at <= 0 {
				at = p.columns
			}
			all = append(all, line{l.at, text[:at]})
			text = "  " + strings.TrimPrefix(text[at:], " ")
		}
		all = append(all, line{l.at, text})
	}
	return all
}

// Sizes in pixels. Most monospaced fonts are 0.6 of their size wide.
const (
	fontSize    = 14
	columnWidth = 8.45
	rowHeight   = 20
	barHeight   = 26 // with a pane's title
	padding     = 14
	gap         = 10 // between panes
)

// rest is how long the end of a recording stays, before it begins again.
const rest = 5 * time.Second

const style = `
text { font: %dpx ui-monospace, SFMono-Regular, Menlo, "DejaVu Sans Mono", "Liberation Mono", monospace; fill: #e6edf3; white-space: pre; }
.back { fill: #0d1117; stroke: #3d444d; }
.bar { fill: #2d333b; }
.title { fill: #adbac7; }
.prompt { fill: #7ee787; }
.log { fill: #9da7b3; }
.killed { fill: #ff7b72; }
@media (prefers-reduced-motion: reduce) { text { animation: none !important; } }
`

// draw returns panes below each other as SVG. What is printed later appears later, again and
// again; where nothing moves, the end is shown.
func draw(title string, panes ...*pane) string {
	width, height := 0, 0
	var end time.Duration
	for _, p := range panes {
		width = max(width, int(float64(p.columns)*columnWidth)+2*padding)
		height += barHeight + len(p.rows())*rowHeight + 2*padding + gap
		end = max(end, p.lines[len(p.lines)-1].at)
	}
	height -= gap
	var rules, body strings.Builder
	fmt.Fprintf(&rules, style, fontSize)
	top, known := 0, map[string]bool{}
	for _, p := range panes {
		rows := p.rows()
		fmt.Fprintf(&body, `<rect class="back" x="0.5" y="%d.5" width="%d" height="%d" rx="6"/>`+"\n",
			top, width-1, barHeight+len(rows)*rowHeight+2*padding-1)
		fmt.Fprintf(&body, `<rect class="bar" x="1" y="%d" width="%d" height="%d" rx="5"/>`+"\n", top+1, width-2, barHeight)
		fmt.Fprintf(&body, `<text class="title" x="%d" y="%d">%s</text>`+"\n", padding, top+18, html.EscapeString(p.title))
		for i, row := range rows {
			moving := ""
			if end > 0 {
				name := fmt.Sprintf("t%d", row.at.Milliseconds())
				if !known[name] {
					known[name] = true
					share := 100 * float64(row.at) / float64(end+rest)
					fmt.Fprintf(&rules, "@keyframes %s { from { opacity: 0; } %.2f%% { opacity: 0; } %.2f%%, to { opacity: 1; } }\n",
						name, share, share+0.01)
				}
				moving = fmt.Sprintf(` style="animation: %s %dms infinite"`, name, (end + rest).Milliseconds())
			}
			fmt.Fprintf(&body, `<text class="%s" x="%d" y="%d" xml:space="preserve"%s>%s</text>`+"\n", class(p, i, rows),
				padding, top+barHeight+padding+14+i*rowHeight, moving, html.EscapeString(row.text))
		}
		top += barHeight + len(rows)*rowHeight + 2*padding + gap
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" role="img">
<title>%[3]s</title>
<style>%[4]s</style>
%[5]s</svg>
`, width, height, html.EscapeString(title), rules.String(), body.String())
}

// class says what a row is: a line of berth's log begins with a date, and goes on in the rows
// that were printed at the same moment.
func class(p *pane, i int, rows []line) string {
	for i > 0 && rows[i-1].at == rows[i].at && rows[i].at > 0 {
		i--
	}
	text := rows[i].text
	switch {
	case strings.HasPrefix(text, "$ "):
		return "prompt"
	case text == "Killed":
		return "killed"
	case len(text) > 4 && strings.Trim(text[:4], "0123456789") == "" && text[4] == '-':
		return "log"
	}
	return "output"
}
