package metrictable

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// RecordingRegistry is a registry that records its collectors. A usual registry does not expose collectors without values.
type RecordingRegistry struct {
	*prometheus.Registry
	collectors []prometheus.Collector
}

// NewRecordingRegistry returns an empty Registered.
func NewRecordingRegistry() *RecordingRegistry {
	return &RecordingRegistry{Registry: prometheus.NewPedanticRegistry()}
}

// Register implements prometheus.Registerer.
func (r *RecordingRegistry) Register(c prometheus.Collector) error {
	r.collectors = append(r.collectors, c)
	return r.Registry.Register(c)
}

// MustRegister implements prometheus.Registerer.
func (r *RecordingRegistry) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		if err := r.Register(c); err != nil {
			panic(err)
		}
	}
}

// Check reports each difference between the registered metrics and the rows of the file at path for which belongs is true.
func (r *RecordingRegistry) Check(t testing.TB, path string, belongs func(name string) bool, more ...string) {
	t.Helper()
	rows, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, complaint := range r.Differences(rows, belongs, more...) {
		t.Error(complaint)
	}
}

// Prefix returns a function that reports whether a name has the prefix.
func Prefix(prefix string) func(name string) bool {
	return func(name string) bool { return strings.HasPrefix(name, prefix) }
}

// Differences describes how the registered metrics differ from the rows for which belongs is true. more are labels that the owner of the
// registry adds to all metrics.
func (r *RecordingRegistry) Differences(rows map[string]Row, belongs func(name string) bool, more ...string) (complaints []string) {
	isRegistered := map[string]bool{}
	for _, c := range r.collectors {
		for _, description := range descriptionsOf(c) {
			name, labels := parseDescription(description)
			isRegistered[name] = true
			row, documented := rows[name]
			if !documented {
				complaints = append(complaints, name+" is not in the table")
				continue
			}
			complaints = append(complaints, row.Differences(kindOf(c), append(labels, more...))...)
		}
	}
	for name := range rows {
		if belongs(name) && !isRegistered[name] {
			complaints = append(complaints, name+" is in the table, and is not registered")
		}
	}
	slices.Sort(complaints)
	return complaints
}

// Differences describes how a metric with that kind and those labels differs from the row. An empty kind is unknown.
func (row Row) Differences(kind string, labels []string) (complaints []string) {
	if kind != "" && kind != row.Kind {
		complaints = append(complaints, fmt.Sprintf("%s is a %s, and a %s in the table", row.Name, kind, row.Kind))
	}
	want := slices.Sorted(slices.Values(row.Labels))
	if have := slices.Sorted(slices.Values(labels)); !slices.Equal(have, want) {
		complaints = append(complaints, fmt.Sprintf("%s has the labels %q, and in the table %q", row.Name, have, want))
	}
	return complaints
}

func descriptionsOf(c prometheus.Collector) []string {
	descriptions, all := make(chan *prometheus.Desc), []string{}
	go func() {
		defer close(descriptions)
		c.Describe(descriptions)
	}()
	for d := range descriptions {
		all = append(all, d.String())
	}
	return all
}

// parseDescription parses the printed form of a description, because prometheus.Desc does not export its name and labels.
func parseDescription(printed string) (name string, labels []string) {
	parts := regexp.MustCompile(`fqName: "([^"]*)".*constLabels: \{([^}]*)\}, variableLabels: \{([^}]*)\}`).FindStringSubmatch(printed)
	if parts == nil {
		return printed, nil
	}
	for _, constant := range regexp.MustCompile(`(\w+)="`).FindAllStringSubmatch(parts[2], -1) {
		labels = append(labels, constant[1])
	}
	return parts[1], append(labels, strings.FieldsFunc(parts[3], func(r rune) bool { return r == ',' })...)
}

// kindOf returns the kind of a collector's metrics. It is empty for an unusual collector without metrics.
func kindOf(c prometheus.Collector) string {
	switch c.(type) {
	case *prometheus.CounterVec:
		return "counter"
	case *prometheus.GaugeVec:
		return "gauge"
	case *prometheus.HistogramVec:
		return "histogram"
	}
	metrics, kind := make(chan prometheus.Metric), ""
	go func() {
		defer close(metrics)
		c.Collect(metrics)
	}()
	for m := range metrics {
		written := &dto.Metric{}
		switch err := m.Write(written); {
		case err != nil:
		case written.Counter != nil:
			kind = "counter"
		case written.Gauge != nil:
			kind = "gauge"
		case written.Histogram != nil:
			kind = "histogram"
		}
	}
	return kind
}
