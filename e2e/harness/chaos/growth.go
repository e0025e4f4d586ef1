package chaos

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

const (
	// judgedAfter is how long a soak must last for its growth to be judged: caches fill in the first minutes.
	judgedAfter = 10 * time.Minute
	// maxGrowth is the most growth in percent that is not judged as a leak.
	maxGrowth = 25
)

// Growth is what grew in a soak.
type Growth struct {
	Minutes float64      `json:"minutes"`
	Figures []GrowthFact `json:"figures"`
}

// GrowthFact compares the last third of a soak with the first, both without the warm-up.
type GrowthFact struct {
	Kind    string  `json:"kind"`
	Of      string  `json:"of"`
	First   float64 `json:"first"`
	Last    float64 `json:"last"`
	Percent float64 `json:"percent"`
}

// thirds returns the first and the last third of the values, without the first quarter, which is the warm-up.
func thirds[T any](values []T) (first, last []T) {
	values = values[len(values)/4:]
	third := len(values) / 3
	return values[:third], values[len(values)-third:]
}

// growth compares the samples of a soak of that duration.
func (s *samples) growth(long time.Duration) *Growth {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := &Growth{Minutes: long.Minutes()}
	for at, values := range s.values {
		first, last := thirds(values)
		g.add(at.kind, at.of, mean(first), mean(last))
	}
	slices.SortFunc(g.Figures, func(a, b GrowthFact) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Of, b.Of)) })
	first, last := thirds(s.removals)
	g.add(removalsKind, "clients", p99(slices.Concat(first...)), p99(slices.Concat(last...)))
	return g
}

// add adds a figure. A soak that is too short for both thirds has none.
func (g *Growth) add(kind, of string, first, last float64) {
	if first > 0 && last > 0 {
		g.Figures = append(g.Figures, GrowthFact{Kind: kind, Of: of, First: first, Last: last, Percent: 100 * (last/first - 1)})
	}
}

func mean(values []float64) (sum float64) {
	for _, value := range values {
		sum += value / float64(len(values))
	}
	return sum
}

// p99 returns milliseconds.
func p99(durations []time.Duration) float64 {
	if len(durations) == 0 {
		return 0
	}
	slices.Sort(durations)
	return float64(durations[len(durations)*99/100].Microseconds()) / 1000
}

// worst returns the growth in percent of the figure of these kinds that grew most.
func (g *Growth) worst(kinds ...string) (percent float64, ok bool) {
	for _, f := range g.Figures {
		if slices.Contains(kinds, f.Kind) && (!ok || f.Percent > percent) {
			percent, ok = f.Percent, true
		}
	}
	return percent, ok
}

// Worst returns the growth in percent of memory, goroutines, etcd and the p99 of removals: of each, the figure that grew most. Figures
// without enough samples are missing.
func (g *Growth) Worst() map[string]float64 {
	worst := map[string]float64{}
	for name, kinds := range map[string][]string{
		"memory": {memoryKind, heapKind}, "goroutines": {goroutinesKind}, "etcd": {etcdKind}, "p99": {removalsKind},
	} {
		if percent, ok := g.worst(kinds...); ok {
			worst[name] = percent
		}
	}
	return worst
}

// Err returns what leaked. A short soak, and a change of latency, prove nothing.
func (g *Growth) Err() error {
	if g.Minutes < judgedAfter.Minutes() {
		return nil
	}
	var all []error
	worst := g.Worst()
	for _, name := range slices.Sorted(maps.Keys(worst)) {
		if name != "p99" && worst[name] > maxGrowth {
			all = append(all, fmt.Errorf("%s grew by %.0f %% in a soak of %.0f minutes, want at most %d %%", name, worst[name], g.Minutes, maxGrowth))
		}
	}
	return errors.Join(all...)
}

// Table writes the figures as a table, without the numbers of keys that did not change.
func (g *Growth) Table(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintf(table, "soak of %.0f minutes\tof\tfirst third\tlast third\tgrowth\n", g.Minutes)
	for _, f := range g.Figures {
		if strings.HasPrefix(f.Kind, keysKind) && f.First == f.Last {
			continue
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%.1f\t%.1f\t%+.1f %%\n", f.Kind, f.Of, f.First, f.Last, f.Percent)
	}
	return table.Flush()
}
