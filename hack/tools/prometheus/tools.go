//go:build tools

// Package tools pins Prometheus, which tests ask what rules and dashboards ask, and promtool, which tests the rules. It is built without the
// discovery of targets in clouds (see the file tags), which is most of what there is to build.
package tools

import (
	_ "github.com/prometheus/prometheus/cmd/prometheus"
	_ "github.com/prometheus/prometheus/cmd/promtool"
)
