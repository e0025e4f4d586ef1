package operate_test

import (
	"fmt"
	"strings"

	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/prometheus"
)

// monitor queries Prometheus for a test.
type monitor struct {
	*prometheus.Prometheus
}

// waitForValue waits until an expression has a value.
func (m monitor) waitForValue(expression string, waitForValue float64) {
	m.Helper()
	m.Eventually(func() string {
		now, err := m.Query(expression)
		if err != nil || len(now) != 1 || now[0].Float() != waitForValue {
			return fmt.Sprintf("%s is %+v, want %v: %v", expression, now, waitForValue, e2e.ErrorText(err))
		}
		return ""
	})
}

// expectHealthyRules checks that all rules can be evaluated, and that no alert is active.
func (m monitor) expectHealthyRules() {
	m.Helper()
	var rules []prometheus.Rule
	m.Eventually(func() string {
		var err error
		rules, err = m.Rules()
		m.Must(err)
		for _, rule := range rules {
			if rule.Health == "unknown" {
				return rule.Name + " was not evaluated yet"
			}
		}
		return ""
	})
	for _, rule := range rules {
		if rule.Health != "ok" || rule.LastError != "" {
			m.Errorf("rule %s: %s %s", rule.Name, rule.Health, rule.LastError)
		}
		// Reviews of a storm are slow while other tests use the CPU, so alerts about their duration may be pending.
		isBusy := strings.HasPrefix(rule.Name, "BreakwaterReviewBurn") && rule.State == "pending"
		if rule.IsActive() && !isBusy {
			m.Errorf("%s is %s", rule.Name, rule.State)
		}
	}
	if len(rules) < 25 {
		m.Errorf("%d rules: %v", len(rules), rules)
	}
}
