package chaos

import (
	"slices"
	"time"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/local"
)

// Scenario is a storm with one fault in its middle.
type Scenario struct {
	Name  string
	fault fault
	// eve runs right before the storm begins, if set.
	eve fault
	// earlyCascade starts the cascade with the fault; lateCascade delays it until after. Otherwise the dice decide.
	earlyCascade, lateCascade bool
	// reviewed states that the webhooks can always be called, so that no request may be refused because they could not.
	reviewed bool
	// fillsDisk excludes it from systems that cannot run it.
	fillsDisk bool
}

const aMinute = time.Minute

// Scenarios returns all scenarios that this system can run, in the order of the run.
func Scenarios() []Scenario {
	const blink, while = time.Second, 6 * time.Second
	all := []Scenario{
		{Name: "good weather", fault: goodWeather, reviewed: true},
		{Name: "a webhook is killed", fault: killWebhook},
		{Name: "a webhook is paused", fault: freezeWebhook},
		{Name: "the certificates of the webhooks are rotated", fault: rotateCertificates, reviewed: true},
		{Name: "an aggregator is killed", fault: killAggregator},
		{Name: "an aggregator is paused, replaced, and wakes up", fault: replaceAggregator},
		{Name: "an aggregator sees its cell late", fault: blindAggregator},
		{Name: "aggregators reach the core slowly, late, not at all", fault: disturb(aggregatorsOf, 3*blink)},
		{Name: "webhooks reach the core slowly, late, not at all", fault: disturb(webhooksOf, 2*blink)},
		{Name: "webhooks are cut off from the core for a minute", fault: cutWebhooks},
		{Name: "the core's apiserver restarts", fault: restart(federation.APIServer, core, blink/2, blink)},
		{Name: "the core's etcd restarts", fault: restart(federation.Etcd, core, blink, 2*blink)},
		{Name: "the core's etcd is full", fault: fillCore},
		{Name: "the disk of the core's etcd is full", fault: fillDisk, fillsDisk: true},
		{Name: "the core is away for a while", fault: restart(federation.APIServer, core, while, while+2*blink)},
		{Name: "the core is away for a minute", fault: leaveCore},
		{Name: "the core is restored from a backup while the storm pauses", fault: restoreCore, lateCascade: true},
		{Name: "the core is restored from a backup in the midst of the storm", eve: backUpCore, fault: relapseCore, earlyCascade: true},
		{Name: "protectors are erased from the core's etcd", fault: eraseProtectors},
		{Name: "a worker's apiserver restarts", fault: restart(federation.APIServer, worker, blink, 3*blink)},
		{Name: "a worker's etcd restarts", fault: restart(federation.Etcd, worker, blink, 3*blink)},
		{Name: "a worker is restored from a backup, and its revisions go back", fault: restoreWorker(0)},
		{Name: "a worker is restored from a backup, and its revisions go on", fault: restoreWorker(bumped)},
	}
	return slices.DeleteFunc(all, func(s Scenario) bool { return s.fillsDisk && !local.CanFillDisks })
}
