package measure

import (
	"strconv"
	"strings"
)

// Metric returns the sum of a metric's series whose labels contain the text, such as result="written"; "" means all.
func (p *Process) Metric(name, labels string) float64 {
	p.Helper()
	raw, err := p.get(p.metrics, "/metrics")
	p.must(err)
	sum := 0.0
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimSpace(line)
		end := strings.LastIndex(line, " ")
		if base, own, _ := strings.Cut(line[:max(end, 0)], "{"); base == name && strings.Contains(own, labels) {
			number, err := strconv.ParseFloat(line[end+1:], 64)
			p.must(err)
			sum += number
		}
	}
	return sum
}
