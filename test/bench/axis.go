package main

import (
	"math"
	"strconv"
)

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

// ticks returns the values to mark: powers of ten, and if these are less than two
// 2 and 5 times them as well.
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

// tickLabel writes a tick without digits that mean nothing.
func tickLabel(v float64) string {
	v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', 2, 64), 64)
	return strconv.FormatFloat(v, 'f', -1, 64)
}
