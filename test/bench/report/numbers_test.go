package report

import (
	"math"
	"testing"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		samples []float64
		want    float64
	}{
		{[]float64{7}, 7},
		{[]float64{9, 1, 5}, 5},
		{[]float64{10, 1, 2, 3}, 2.5},
	} {
		if got := median(c.samples); got != c.want {
			t.Errorf("the median of %v is %v, not %v", c.samples, got, c.want)
		}
	}
	if got := median(nil); !math.IsNaN(got) {
		t.Errorf("the median of nothing is %v", got)
	}
}

func TestMedianLeavesSamplesInOrder(t *testing.T) {
	samples := []float64{3, 1, 2}
	median(samples)
	if samples[0] != 3 || samples[1] != 1 {
		t.Errorf("samples have become %v", samples)
	}
}

func TestNumbersHaveThreeDigitsThatMeanSomething(t *testing.T) {
	for x, want := range map[float64]string{
		0: "0", 12345.6: "12346", 100: "100", 99.96: "100", 99.94: "99.9", 12.34: "12.3", 9.996: "10.0", 9.994: "9.99",
		1: "1.00", 0.9996: "1.00", 0.5: "0.500", 0.0730: "0.0730", 0.1: "0.100",
	} {
		if got := number(x); got != want {
			t.Errorf("%v is written %q, not %q", x, got, want)
		}
	}
	for x, want := range map[float64]string{
		540.6: "541x", 12.4: "12x", 9.96: "10x", 3.64: "3.6x", 0.991: "0.99x", 0.0146: "0.015x",
	} {
		if got := ratio(x); got != want {
			t.Errorf("ratio %v is written %q, not %q", x, got, want)
		}
	}
}

func TestCells(t *testing.T) {
	base := &Result{Samples: []float64{1, 2, 3}}
	for _, c := range []struct {
		name    string
		r, base *Result
		want    string
	}{
		{"base", base, nil, "2.00"},
		{"twice and a half", &Result{Samples: []float64{5}}, base, "5.00 (2.5x)"},
		{"nothing", &Result{Samples: []float64{0}}, base, "0"},
		{"of nothing", &Result{Samples: []float64{5}}, &Result{Samples: []float64{0}}, "5.00"},
		{"of words", &Result{Samples: []float64{5}}, &Result{Text: "never"}, "5.00"},
		{"words", &Result{Text: "never", Samples: []float64{1}}, base, "never"},
		{"not measured", nil, base, ""},
		{"no samples", &Result{}, base, ""},
	} {
		if got := new(Measure).cell(c.r, c.base); got != c.want {
			t.Errorf("%s: %q, not %q", c.name, got, c.want)
		}
	}
}
