package v1alpha1_test

import (
	"strings"
	"testing"

	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

func TestClusterRings(t *testing.T) {
	c := testplane.Client(t)
	const (
		cannot = "cannot be sharded"
		either = "a resource is either one of resources or of controlledResources, not both"
		name   = "the name of a ClusterRing has at most 57 characters"
	)
	deployments := func(more string) string {
		return `spec: {resources: [{group: apps, resource: deployments` + more + `}]}`
	}
	for claim, test := range map[string]struct{ object, denial string }{
		"an empty spec":                         {`{}`, ""},
		"a resource":                            {deployments(""), ""},
		"a resource of the core group":          {`spec: {resources: [{resource: configmaps}]}`, ""},
		"a controlled resource":                 {deployments(`, controlledResources: [{group: apps, resource: replicasets}, {resource: pods}]`), ""},
		"one resource of two groups":            {`spec: {resources: [{group: a.example.com, resource: sets}, {group: b.example.com, resource: sets}]}`, ""},
		"a resource that two resources control": {`spec: {resources: [{group: a.io, resource: as, controlledResources: [{resource: pods}]}, {group: b.io, resource: bs, controlledResources: [{resource: pods}]}]}`, ""},
		"all fields":                            {`spec: {namespaceSelector: {matchLabels: {a: b}}, shardNamespace: shards, keyPolicy: Namespace, tokensPerShard: 10000, leaseDurationSeconds: 2, drainTimeoutSeconds: 1, resyncPeriodSeconds: 10, maxConcurrentMoves: 1}`, ""},
		"a resource twice":                      {`spec: {resources: [{group: apps, resource: deployments}, {group: apps, resource: deployments}]}`, "Duplicate value"},
		"a controlled resource twice":           {deployments(`, controlledResources: [{resource: pods}, {resource: pods}]`), "Duplicate value"},
		"a resource that is controlled as well": {`spec: {resources: [{group: apps, resource: deployments, controlledResources: [{group: apps, resource: replicasets}]}, {group: apps, resource: replicasets}]}`, either},
		"a resource that controls itself":       {deployments(`, controlledResources: [{group: apps, resource: deployments}]`), either},
		"all resources":                         {`spec: {resources: [{group: apps, resource: "*"}]}`, "should match"},
		"a subresource":                         {`spec: {resources: [{group: apps, resource: deployments/status}]}`, "should match"},
		"a kind":                                {`spec: {resources: [{group: apps, resource: Deployment}]}`, "should match"},
		"an invalid group":                      {`spec: {resources: [{group: apps/v1, resource: deployments}]}`, "should match"},
		"no resource":                           {`spec: {resources: [{group: apps}]}`, "resource: Required value"},
		"Leases":                                {`spec: {resources: [{group: coordination.k8s.io, resource: leases}]}`, cannot},
		"controlled Leases":                     {deployments(`, controlledResources: [{group: coordination.k8s.io, resource: leases}]`), cannot},
		"controlled events":                     {deployments(`, controlledResources: [{resource: events}]`), cannot},
		"controlled webhook configurations":     {deployments(`, controlledResources: [{group: admissionregistration.k8s.io, resource: validatingwebhookconfigurations}]`), cannot},
		"controlled rings":                      {deployments(`, controlledResources: [{group: breakwater.dev, resource: clusterrings}]`), cannot},
		"events":                                {`spec: {resources: [{group: events.k8s.io, resource: events}]}`, cannot},
		"webhook configurations":                {`spec: {resources: [{group: admissionregistration.k8s.io, resource: mutatingwebhookconfigurations}]}`, cannot},
		"rings":                                 {`spec: {resources: [{group: breakwater.dev, resource: clusterrings}]}`, cannot},
		"an invalid selector":                   {`spec: {namespaceSelector: {matchExpressions: [{key: a, operator: In}]}}`, "values must hold at least one value"},
		"no tokens":                             {`spec: {tokensPerShard: 0}`, "greater than or equal to 1"},
		"a load limit":                          {`spec: {maxLoadPercent: 101}`, ""},
		"a load limit with keyPolicy Namespace": {`spec: {maxLoadPercent: 110, keyPolicy: Namespace}`, "maxLoadPercent needs keyPolicy Object"},
		"a load limit below the mean":           {`spec: {maxLoadPercent: 100}`, "greater than or equal to 101"},
		"a lease that is too short to renew":    {`spec: {leaseDurationSeconds: 1}`, "greater than or equal to 2"},
		"a drain that ends at once":             {`spec: {drainTimeoutSeconds: 0}`, "greater than or equal to 1"},
		"resyncs without a pause":               {`spec: {resyncPeriodSeconds: 9}`, "greater than or equal to 10"},
		"no moves":                              {`spec: {maxConcurrentMoves: 0}`, "greater than or equal to 1"},
		"another policy":                        {`spec: {keyPolicy: Cluster}`, "Unsupported value"},
		"an invalid namespace":                  {`spec: {shardNamespace: a.b}`, "should match"},
		"a name of 57 characters":               {`metadata: {name: ` + strings.Repeat("r", 57) + `}`, ""},
		"a name of 58 characters":               {`metadata: {name: ` + strings.Repeat("r", 58) + `}`, name},
		"a name with a dot":                     {`metadata: {name: a.b}`, name},
		"17 resources":                          {`spec: {resources: [` + repeated(17, "{group: g%d.io, resource: as}, ") + `]}`, "must have at most 16 items"},
		"a field that does not exist":           {`spec: {resource: []}`, `unknown field "spec.resource"`},
	} {
		t.Run(claim, func(t *testing.T) { wantVerdict(t, c, object(t, "ClusterRing", "", test.object), test.denial) })
	}
}
