//go:build tools

// Package tools pins Prometheus, which tests ask what rules and dashboards ask, and promtool, which tests the rules.
package tools

import (
	_ "github.com/prometheus/prometheus/cmd/prometheus"
	_ "github.com/prometheus/prometheus/cmd/promtool"
)
