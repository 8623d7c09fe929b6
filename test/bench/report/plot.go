package report

import (
	"encoding/xml"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// The picture has panels in two columns; a panel has a title, a row for each
// program and an axis.
const (
	columns     = 2
	columnWidth = 520
	margin      = 20
	labelWidth  = 150 // the program's name, left of the axis
	valueWidth  = 120 // its median, right of it
	titleHeight = 30
	rowHeight   = 20
	axisHeight  = 26
	panelGap    = 14
)

// style has the background go with the text, whether it is light or dark where
// the picture is looked at.
const style = `
text { font: 12px system-ui, -apple-system, "Segoe UI", "Liberation Sans", sans-serif; fill: #1f2328; }
.back { fill: #ffffff; }
.title { font-weight: 600; }
.tick { font-size: 10px; fill: #59636e; text-anchor: middle; }
.value { font-variant-numeric: tabular-nums; }
.words { text-anchor: end; stroke: #ffffff; stroke-width: 4; paint-order: stroke; }
.grid { stroke: #d1d9e0; }
.range { stroke: #59636e; stroke-width: 3; stroke-linecap: round; opacity: 0.45; }
.dot { fill: #59636e; }
.ours.range { stroke: #0969da; }
.ours.dot { fill: #0969da; }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc; }
.back { fill: #0d1117; }
.words { stroke: #0d1117; }
.tick { fill: #9198a1; }
.grid { stroke: #3d444d; }
.range { stroke: #9198a1; }
.dot { fill: #9198a1; }
.ours.range { stroke: #4493f8; }
.ours.dot { fill: #4493f8; }
}
`

// plot draws the medians of a section's measures that are to be drawn, with lines
// from the least sample to the most; "" if there are none.
func (r *Report) plot(section string) string {
	panels, programs := r.section(section)
	panels = slices.DeleteFunc(panels, func(m *Measure) bool { return !m.Plot })
	if len(panels) == 0 {
		return ""
	}
	panelHeight := titleHeight + rowHeight*len(programs) + axisHeight + panelGap
	rows := (len(panels) + columns - 1) / columns
	width, height := columns*columnWidth+margin, rows*panelHeight+2*margin-panelGap
	var s strings.Builder
	fmt.Fprintf(&s,
		`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" role="img">`,
		width, height)
	fmt.Fprintf(&s, "\n<title>Medians on logarithmic axes</title>\n<style>%s</style>\n", style)
	fmt.Fprintf(&s, `<rect class="back" width="%d" height="%d" rx="6"/>`+"\n", width, height)
	for i, m := range panels {
		x, y := margin+i%columns*columnWidth, margin+i/columns*panelHeight
		fmt.Fprintf(&s, `<g transform="translate(%d %d)">`+"\n", x, y)
		m.panel(&s, programs)
		s.WriteString("</g>\n")
	}
	s.WriteString("</svg>\n")
	return s.String()
}

// panel draws one measure, from 0, 0 on.
func (m *Measure) panel(s *strings.Builder, programs []string) {
	better := ", less is better"
	if m.More {
		better = ", more is better"
	}
	fmt.Fprintf(s, `<text class="title" y="12">%s</text>`+"\n", escape(m.Title))
	from, to := float64(labelWidth), float64(columnWidth-margin-valueWidth)
	bottom := titleHeight + rowHeight*len(programs)
	var all []float64
	for _, one := range m.Results {
		all = append(all, one.Samples...)
	}
	a := newAxis(all, from, to)
	for _, v := range a.ticks() {
		fmt.Fprintf(s, `<line class="grid" x1="%.1f" x2="%.1[1]f" y1="%d" y2="%d"/>`+"\n", a.at(v), titleHeight-6,
			bottom)
		fmt.Fprintf(s, `<text class="tick" x="%.1f" y="%d">%s</text>`+"\n", a.at(v), bottom+13, tickLabel(v))
	}
	fmt.Fprintf(s, `<text class="tick" style="text-anchor:start" x="%.0f" y="%d">%s</text>`+"\n",
		to+8, bottom+13, escape(m.Unit+better))
	for i, program := range programs {
		y := titleHeight + rowHeight*i + rowHeight/2
		fmt.Fprintf(s, `<text y="%d">%s</text>`+"\n", y+4, escape(program))
		class := ""
		if strings.HasPrefix(program, "berth") {
			class = " ours"
		}
		m.find(program).row(s, a, y, class)
	}
}

// row draws what was measured of one program.
func (one *Result) row(s *strings.Builder, a axis, y int, class string) {
	switch {
	case one == nil:
		return
	case one.Text != "":
		// It may be a sentence, for which there is no room beside the axis.
		fmt.Fprintf(s, `<text class="words" x="%.0f" y="%d">%s</text>`+"\n", a.to, y+4, escape(one.Text))
		return
	case len(one.Samples) == 0:
		return
	}
	middle := median(one.Samples)
	fmt.Fprintf(s, `<text class="value" x="%.0f" y="%d">%s</text>`+"\n", a.to+8, y+4, number(middle))
	if middle <= 0 {
		return // a logarithmic axis has no place for it
	}
	fmt.Fprintf(s, `<line class="range%s" x1="%.1f" x2="%.1f" y1="%d" y2="%[4]d"/>`+"\n",
		class, a.at(slices.Min(one.Samples)), a.at(slices.Max(one.Samples)), y)
	fmt.Fprintf(s, `<circle class="dot%s" cx="%.1f" cy="%d" r="4.5"/>`+"\n", class, a.at(middle), y)
}

// escape writes text for XML.
func escape(text string) string {
	var s strings.Builder
	_ = xml.EscapeText(&s, []byte(text)) // to a string: it cannot fail
	return s.String()
}

// axis is logarithmic, from one end of a plot to the other.
type axis struct {
	low, high float64 // values
	from, to  float64 // where these are in the picture
}

// newAxis has room for all values above 0. Of others there may be any number.
func newAxis(values []float64, from, to float64) axis {
	low, high := math.Inf(1), 0.0
	for _, v := range values {
		if v > 0 {
			low, high = min(low, v), max(high, v)
		}
	}
	if high == 0 {
		low, high = 1, 10
	}
	// A little room on both sides, so that no dot sits on an end.
	return axis{low: low / 1.3, high: high * 1.3, from: from, to: to}
}

// at returns where a value is.
func (a axis) at(v float64) float64 {
	share := math.Log(v/a.low) / math.Log(a.high/a.low)
	return a.from + min(1, max(0, share))*(a.to-a.from)
}

// ticks returns the values to mark: powers of ten, and what lies between them if
// these are fewer than two.
func (a axis) ticks() []float64 {
	for _, steps := range [][]float64{{1}, {1, 3}, {1, 2, 5}, {1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9}} {
		var found []float64
		for power := math.Floor(math.Log10(a.low)); power <= math.Ceil(math.Log10(a.high)); power++ {
			for _, step := range steps {
				if v := step * math.Pow(10, power); v >= a.low && v <= a.high {
					found = append(found, v)
				}
			}
		}
		if len(found) > 1 {
			return found
		}
	}
	return nil
}

// tickLabel writes a tick with no more digits than it needs.
func tickLabel(v float64) string {
	v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', 2, 64), 64)
	return strconv.FormatFloat(v, 'f', -1, 64)
}
