package runbooks_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/breakwater-k8s/breakwater/e2e/prometheus"
)

// monitor is what tests ask of Prometheus.
type monitor struct {
	*prometheus.Prometheus
}

// active are the alerts whose expressions are true, for however long.
func (m monitor) active() ([]string, error) {
	rules, err := m.Rules()
	if err != nil {
		return nil, err
	}
	if len(rules) == 0 {
		return nil, errors.New("there are no rules")
	}
	active := []string{}
	for _, rule := range rules {
		if rule.Health != "ok" {
			return nil, fmt.Errorf("%s is %s %s", rule.Name, rule.Health, rule.LastError)
		}
		if rule.Active() {
			active = append(active, rule.Name)
		}
	}
	return active, nil
}

// await waits until an alert is active, or is not.
func (m monitor) await(t *testing.T, alert string, want bool) {
	t.Helper()
	deadline := time.Now().Add(45 * time.Second)
	for {
		active, err := m.active()
		if err == nil && slices.Contains(active, alert) == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is active: %v, want %v: active are %q, %v", alert, !want, want, active, err)
		}
		<-time.After(100 * time.Millisecond)
	}
}
