package chaos

import (
	"slices"
	"time"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/local"
)

// Scenario is a storm with one fault in its midst.
type Scenario struct {
	Name  string
	fault fault
	// eve is what is done right before the storm begins, if anything.
	eve fault
	// earlyCascade lets the cascade come with the fault, lateCascade keeps it until after. Otherwise the dice decide.
	earlyCascade, lateCascade bool
	// reviewed tells that webhooks can always be asked, so that no request may be refused because they could not.
	reviewed bool
	// fillsDisk keeps it from systems on which that cannot be played.
	fillsDisk bool
}

const aMinute = time.Minute

// Scenarios are all that this system can play, in the order in which they are played.
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
