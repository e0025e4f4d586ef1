package chaos

import (
	"fmt"
	"hash/fnv"
	"time"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
)

// Scenario is a storm with one fault in its middle.
type Scenario struct {
	Name  string
	fault fault
	// beforeStorm runs right before the storm begins, if set.
	beforeStorm fault
	// earlyCascade starts the cascade with the fault; lateCascade delays it until after. Otherwise the dice decide.
	earlyCascade, lateCascade bool
	// reviewed states that the webhooks can always be called, so that no request may be refused because they could not.
	reviewed bool
	// shares gives each cell a share of the floor. rollout replaces the storm and its fault by rollouts and drains.
	shares, rollout bool
}

// NeedsShares reports whether the scenario needs a stage with Shares: its cells continue without the core. It takes minutes.
func (s Scenario) NeedsShares() bool { return s.shares }

// configure sets what the cells do without the core.
func (s Scenario) configure(spec *v1alpha1.PodProtectorSpec) {
	spec.CoreOutage = v1alpha1.CoreOutageDeny
	if s.shares {
		spec.CoreOutage = v1alpha1.CoreOutageLocalShare
	}
}

// pause returns the average pause of a client.
func (s Scenario) pause() time.Duration {
	if s.shares {
		return outagePause
	}
	return clientPause
}

// size returns the number of pods, and the floor.
func (s Scenario) size(plan Plan) (pods, floor int) {
	if s.rollout {
		return rolloutPods * plan.Scale, rolloutFloor * plan.Scale
	}
	return plan.size().pods, plan.size().floor
}

func (s Scenario) hash() uint64 {
	name := fnv.New64a()
	_, _ = name.Write([]byte(s.Name)) // a hash never fails
	return name.Sum64()
}

// namespace returns the namespace of a run.
func (s Scenario) namespace(seed uint64) string { return fmt.Sprintf("chaos-%x-%d", s.hash(), seed) }

const aMinute = time.Minute

// Scenarios returns all scenarios, in the order of the run.
func Scenarios() []Scenario {
	const short, medium = time.Second, 6 * time.Second
	storm := func(what string, lose coreLoss) Scenario {
		return Scenario{Name: "core-outage: " + what + " during a storm", fault: stormWithoutCore(lose), shares: true}
	}
	return []Scenario{
		{Name: "no fault", fault: noFault, reviewed: true},
		{Name: "a webhook is killed", fault: killWebhook},
		{Name: "a webhook is paused", fault: freezeWebhook},
		{Name: "an aggregator is killed", fault: killAggregator},
		{Name: "an aggregator is paused, replaced, and resumed", fault: replaceAggregator},
		{Name: "an aggregator gets the events of its cell late", fault: stallAggregator},
		{Name: "the connection of aggregators to the core is slow, stalled, cut", fault: degradeConnections(aggregatorsOf, 3*short)},
		{Name: "the connection of webhooks to the core is slow, stalled, cut", fault: degradeConnections(webhooksOf, 2*short)},
		{Name: "webhooks are cut off from the core for a minute", fault: cutWebhooks},
		{Name: "the core's API server restarts", fault: restart(federation.APIServer, core, short/2, short)},
		{Name: "the core's etcd restarts", fault: restart(federation.Etcd, core, short, 2*short)},
		{Name: "the core's etcd is full", fault: fillCore},
		{Name: "the core is unreachable for some seconds", fault: restart(federation.APIServer, core, medium, medium+2*short)},
		{Name: "the core is unreachable for a minute", fault: stopCore},
		{Name: "the core is restored from a backup during the storm", beforeStorm: backUpCore, fault: restoreCoreDuringStorm, earlyCascade: true},
		{Name: "a worker's API server restarts", fault: restart(federation.APIServer, worker, short, 3*short)},
		{Name: "a worker's etcd restarts", fault: restart(federation.Etcd, worker, short, 3*short)},
		{Name: "a worker is restored from a backup, and its revisions decrease", fault: restoreWorker(0)},
		{Name: "a worker is restored from a backup, and its revisions continue", fault: restoreWorker(revisionBump)},

		storm("the core's API server is paused", freezeCore),
		storm("the core's API server is killed", killCore),
		storm("the connections of all cells stall", stallAll),
		storm("one cell is cut off", cutOffOne),
		{Name: "core-outage: the core's API server is killed during a rollout and drains", shares: true, rollout: true},
	}
}
