package runbooks_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/breakwater-k8s/breakwater/e2e/prometheus"
)

// alertMonitor queries the alerts in Prometheus.
type alertMonitor struct {
	*prometheus.Prometheus
}

// activeAlerts returns the alerts whose expressions are true, regardless of their "for" duration.
func (m alertMonitor) activeAlerts() ([]string, error) {
	rules, err := m.Rules()
	if err != nil {
		return nil, err
	}
	if len(rules) == 0 {
		return nil, errors.New("no rules exist")
	}
	active := []string{}
	for _, rule := range rules {
		if rule.Health != "ok" {
			return nil, fmt.Errorf("%s is %s %s", rule.Name, rule.Health, rule.LastError)
		}
		if rule.IsActive() {
			active = append(active, rule.Name)
		}
	}
	return active, nil
}

// waitForAlert waits until an alert is active, or is not if want is false.
func (m alertMonitor) waitForAlert(t *testing.T, alert string, want bool) {
	t.Helper()
	deadline := time.Now().Add(45 * time.Second)
	for {
		active, err := m.activeAlerts()
		if err == nil && slices.Contains(active, alert) == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is active: %v, want %v; active alerts: %q, %v", alert, !want, want, active, err)
		}
		<-time.After(100 * time.Millisecond)
	}
}
