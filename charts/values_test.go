package charts_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestHelmLintAcceptsTheCharts(t *testing.T) {
	if out, err := helm(t, "lint", "--strict", "breakwater-crds"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	forEachValueSet(t, func(t *testing.T, set string) {
		if out, err := helm(t, "lint", "--strict", "--namespace", namespace, "--values", set, "breakwater"); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

// The default must stay what the values of one cluster say.
func TestNoValuesRenderTheCellLocal(t *testing.T) {
	without, err := template(t)
	if err != nil {
		t.Fatal(err)
	}
	with, err := template(t, "--set", "role=single,cells[0].name=local,tls.mode=self-signed")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(with, without); diff != "" {
		t.Errorf("no values differ from those of the cell local (-with +without):\n%s", diff)
	}
}

// GitOps tools compare rendered objects, so rendering must be deterministic.
func TestRenderingIsDeterministic(t *testing.T) {
	forEachValueSet(t, func(t *testing.T, set string) {
		first, err := template(t, "--values", set)
		if err != nil {
			t.Fatal(err)
		}
		second, err := template(t, "--values", set)
		if err != nil || first != second || first == "" {
			t.Errorf("%d and %d bytes, error %v", len(first), len(second), err)
		}
		for _, forbidden := range []string{"caBundle: \n", "lookup"} {
			if strings.Contains(first, forbidden) {
				t.Errorf("it contains %q", forbidden)
			}
		}
	})
}

func TestInvalidValuesFailWithAReason(t *testing.T) {
	single := []string{"cells[0].name=local"}
	worker := slices.Concat(single, []string{"role=worker", "cores[0].name=core"})
	remote := slices.Concat(worker, []string{"webhook.enabled=false", "webhook.url=https://a:443"})
	const pem = "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----"
	for claim, c := range map[string]struct {
		set  []string
		want string
	}{
		"a user that changes the policy":       {append(single, "webhook.aggregatorUsers={a'b}"), "/webhook/aggregatorUsers/0"},
		"an unknown scope":                     {append(single, "webhook.scope=Some"), "/webhook/scope"},
		"a typo":                               {append(single, "webhook.replica=3"), "additional properties 'replica' not allowed"},
		"a typo at the top":                    {append(single, "webhooks.replicas=3"), "additional properties 'webhooks' not allowed"},
		"a typo of a component":                {append(single, "generator.serviceAccount.make=true"), "additional properties 'make' not allowed"},
		"tokens and client certificates":       {append(single, "webhook.callerTokens.mode=Permissive", "webhook.clientCASecret=a"), "webhook.callerTokens.mode: client certificates"},
		"tokens of a webhook elsewhere":        {append(remote, "webhook.caBundle="+pem, "webhook.callerTokens.mode=Required"), "webhook.callerTokens.mode: no webhook runs in this cluster"},
		"an invalid token":                     {append(remote, "webhook.caBundle="+pem, "webhook.callerTokens.given.cells/local=x"), "'/webhook/callerTokens/given/cells~1local'"},
		"an unknown role":                      {append(single, "role=master"), "'/role'"},
		"a mesh member without a cell":         {[]string{"cores[0].name=west"}, "cells: set the name of this cluster's cell (role single)"},
		"a core of cells, without its own":     {[]string{"remoteCells[0].name=b"}, "cells: set the name of this cluster's cell (role single)"},
		"a worker without a cell":              {[]string{"role=worker", "cores[0].name=core"}, "cells: set the name of this cluster's cell (role worker)"},
		"two monitors":                         {append(single, "metrics.podMonitor.enabled=true", "metrics.serviceMonitor.enabled=true"), "metrics.podMonitor: Prometheus would scrape"},
		"a PodMonitor without a token":         {append(single, "metrics.podMonitor.enabled=true"), "metrics.podMonitor.tokenSecret: set the Secret"},
		"an objective without failures":        {append(single, "metrics.prometheusRule.objective.percent=100"), "'/metrics/prometheusRule/objective/percent'"},
		"a volume without a name":              {append(single, "webhook.extraVolumes[0].emptyDir.medium=Memory"), "'/webhook/extraVolumes/0'"},
		"a worker without a core":              {append(single, "role=worker"), "cores: name the core clusters"},
		"a core with cells of its own":         {append(single, "role=core"), "cells: a cluster in the role core runs no pods"},
		"a worker with remote cells":           {append(worker, "remoteCells[0].name=b"), "remoteCells: a cluster in the role worker has no Cells"},
		"a cell named twice":                   {append(single, "remoteCells[0].name=local"), `"local" is named twice`},
		"a core named like this one":           {append(single, "cores[0].name=core"), `"core" is named twice`},
		"a cell by both":                       {append(single, "cells[0].namespaces={a}", "cells[0].podSelector.matchLabels.a=b"), "exclude each other"},
		"an invalid name":                      {[]string{"cells[0].name=No Name"}, "'/cells/0/name'"},
		"no webhook and no URL":                {append(worker, "webhook.enabled=false"), "webhook.url: set the URL"},
		"a URL without a CA":                   {remote, "webhook.caBundle: set the CA"},
		"a URL without https":                  {append(single, "webhook.url=http://a"), "'/webhook/url'"},
		"a URL with a path":                    {append(single, "webhook.url=https://a/b"), "'/webhook/url'"},
		"kube-system not exempt":               {append(single, "webhook.exemptNamespaces={other}"), "'/webhook/exemptNamespaces'"},
		"an unknown failure policy":            {append(single, "webhook.failurePolicy=Deny"), "'/webhook/failurePolicy'"},
		"a timeout above the maximum":          {append(single, "webhook.timeoutSeconds=31"), "'/webhook/timeoutSeconds'"},
		"no Secret in mode secret":             {append(single, "tls.mode=secret", "webhook.caBundle=x"), "webhook"},
		"addresses without cert-manager":       {append(single, "tls.mode=self-signed", "tls.ipAddresses={10.0.0.1}"), "only cert-manager"},
		"a sharder without a Secret":           {append(single, "tls.mode=secret", "tls.secretName=a", "webhook.caBundle="+pem, "sharder.enabled=true"), "sharder.tlsSecretName: name the Secret"},
		"one Secret for two":                   {append(single, "tls.secretName=a", "sharder.enabled=true", "sharder.tlsSecretName=a"), "must not share a Secret"},
		"a typo of the sharder":                {append(single, "sharder.shardNamespace={a}"), "additional properties 'shardNamespace' not allowed"},
		"an invalid shard namespace":           {append(single, "sharder.shardNamespaces={A}"), "'/sharder/shardNamespaces/0'"},
		"a typo of scheduling":                 {append(single, "webhook.scheduling.enable=true"), "additional properties 'enable' not allowed"},
		"an unknown scheduling failure policy": {append(single, "webhook.scheduling.failurePolicy=Deny"), "'/webhook/scheduling/failurePolicy'"},
		"a scheduling timeout of 0":            {append(single, "webhook.scheduling.timeoutSeconds=0"), "'/webhook/scheduling/timeoutSeconds'"},
		"a console in a worker":                {append(worker, "console.enabled=true"), "console.enabled: a cluster in the role worker has no protectors"},
		"a console without a Secret":           {append(single, "tls.mode=secret", "tls.secretName=a", "webhook.caBundle="+pem, "console.enabled=true"), "console.tlsSecretName: name the Secret"},
		"one Secret for webhook, console":      {append(single, "tls.secretName=a", "console.enabled=true", "console.tlsSecretName=a"), "the console must not share a Secret"},
		"one volume for two consoles":          {append(single, "console.enabled=true", "console.replicas=2", "console.history.persistence.enabled=true"), "only one replica can use the volume"},
		"a typo of the console":                {append(single, "console.session=1h"), "additional properties 'session' not allowed"},
		"a collector that is no URL":           {append(single, "tracing.endpoint=collector:4317"), "'/tracing/endpoint'"},
		"a sampling ratio above 1":             {append(single, "tracing.sampling=1.5"), "'/tracing/sampling'"},
		"an unknown tracing protocol":          {append(single, "tracing.protocol=zipkin"), "'/tracing/protocol'"},
		"shares of a core that counts":         {append(single, "remoteCells[0].name=b", "shares.enabled=true"), "shares.enabled: aggregators in a core cannot move shares"},
		"shares without access to the core":    {[]string{"role=core", "shares.enabled=true"}, "shares.enabled: aggregators in the workers move shares"},
		"shares without an aggregator":         {append(worker, "shares.enabled=true"), "shares.enabled: a cell that decides"},
		"shares without a webhook":             {append(remote, "webhook.caBundle="+pem, "cores[0].name=core", "aggregator.enabled=true", "shares.enabled=true"), "shares.enabled: a cell that decides"},
		"a core with the name of the shares":   {append(worker, "cores[0].name=shares", "aggregator.enabled=true", "shares.enabled=true"), "shares.enabled: the webhook uses the name shares"},
		"a typo of shares":                     {append(single, "shares.enable=true"), "additional properties 'enable' not allowed"},
		"an invalid CA":                        {append(single, "webhook.caBundle=garbage"), "'/webhook/caBundle'"},
		"a kind without a group":               {append(single, "generator.sourceKinds[0].resource=clonesets"), "missing property 'apiGroup'"},
		"an identity that is not a cell":       {append(single, "remoteCells[0].name=a", "remoteCells[0].identity=b"), "the identity \"b\" of cell a is not a cell"},
		"an unknown field of a Cell":           {append(single, "cells[0].spec.stale=1s"), "additional properties 'stale' not allowed"},
	} {
		t.Run(claim, func(t *testing.T) {
			var arguments []string
			for _, s := range c.set {
				arguments = append(arguments, "--set", s)
			}
			out, err := template(t, arguments...)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one that says %q\n%.300s", err, c.want, out)
			}
		})
	}
}

// Releases of different roles can be installed in the same cluster. A cell belongs to one of them.
func TestObjectNamesOfTwoReleasesDiffer(t *testing.T) {
	names := map[string]bool{}
	for _, release := range []string{"east", "west"} {
		text, err := helm(t, "template", release, "breakwater", "--namespace", release, "--values", "breakwater/ci/worker.yaml", "--set", "cells[0].name="+release)
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range parse(t, text) {
			name := object.GetKind() + " " + object.GetNamespace() + "/" + object.GetName()
			if names[name] {
				t.Errorf("%s is rendered by both charts", name)
			}
			names[name] = true
		}
	}
}
