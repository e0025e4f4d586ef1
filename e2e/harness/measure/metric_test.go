package measure

import "testing"

func TestSumOfSeriesWithLabels(t *testing.T) {
	const metrics = "# HELP reviews_total Reviews.\n# TYPE reviews_total counter\nreviews_total{cell=\"a b\",result=\"denied\"} 2\n" +
		"reviews_total{cell=\"a b\",result=\"admitted\"} 3e+00\nreviews_total_other 7\nup 1\n"
	for labels, want := range map[string]float64{"": 5, `cell="a b"`: 5, `result="denied"`: 2, `result="none"`: 0} {
		if got := Sum(metrics, "reviews_total", labels); got != want {
			t.Errorf("Sum(%s) = %v, want %v", labels, got, want)
		}
	}
	for labels, value := range Series(metrics, "up") {
		if labels != "" || value != 1 {
			t.Errorf("Series() yields %q, %v, want no labels and 1", labels, value)
		}
	}
}
