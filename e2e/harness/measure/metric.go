package measure

import (
	"iter"
	"strconv"
	"strings"
)

// Series returns the series of a metric in the text format of Prometheus: the text of their labels, such as code="429",verb="DELETE", and their
// values. It skips what is not a number.
func Series(metrics, name string) iter.Seq2[string, float64] {
	return func(yield func(string, float64) bool) {
		for line := range strings.Lines(metrics) {
			line = strings.TrimSpace(line)
			end := strings.LastIndex(line, " ")
			base, labels, _ := strings.Cut(line[:max(end, 0)], "{")
			if number, err := strconv.ParseFloat(line[end+1:], 64); base == name && err == nil && !yield(strings.TrimSuffix(labels, "}"), number) {
				return
			}
		}
	}
}

// Sum returns the sum of a metric's series whose labels contain the text, such as result="written"; "" means all.
func Sum(metrics, name, labels string) (sum float64) {
	for own, number := range Series(metrics, name) {
		if strings.Contains(own, labels) {
			sum += number
		}
	}
	return sum
}
