package chaos

import (
	"time"

	"github.com/breakwater-k8s/breakwater/internal/federation"
)

// Scenario is a storm with one fault in its midst.
type Scenario struct {
	Name  string
	fault fault
}

// Scenarios are all that there are, in the order in which they are played.
func Scenarios() []Scenario {
	const blink, while = time.Second, 6 * time.Second
	return []Scenario{
		{"good weather", goodWeather},
		{"a webhook is killed", killWebhook},
		{"a webhook is paused", freezeWebhook},
		{"an aggregator is killed", killAggregator},
		{"an aggregator is paused, replaced, and wakes up", replaceAggregator},
		{"an aggregator sees its cell late", blindAggregator},
		{"webhooks reach the core slowly, late, not at all", disturbCore},
		{"the core's apiserver restarts", restart(federation.APIServer, core, blink/2, blink)},
		{"the core's etcd restarts", restart(federation.Etcd, core, blink, 2*blink)},
		{"the core is away for a while", restart(federation.APIServer, core, while, while+2*blink)},
		{"a worker's apiserver restarts", restart(federation.APIServer, worker, blink, 3*blink)},
		{"a worker's etcd restarts", restart(federation.Etcd, worker, blink, 3*blink)},
	}
}
