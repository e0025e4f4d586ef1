package scheduling_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/scheduling"
)

// typicalPod is a pod as an API server sends it, with two containers and default values.
const typicalPod = `{schedulerName: default-scheduler, nodeSelector: {kubernetes.io/os: linux}, restartPolicy: Always, terminationGracePeriodSeconds: 30, dnsPolicy: ClusterFirst,
	serviceAccountName: web, serviceAccount: web, securityContext: {runAsNonRoot: true}, enableServiceLinks: true, preemptionPolicy: PreemptLowerPriority, priority: 0,
	tolerations: [{key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 300}, {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 300}],
	affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: pool, operator: In, values: [a, b]}]}, {matchExpressions: [{key: gpu, operator: Exists}]}]}}},
	volumes: [{name: token, projected: {defaultMode: 420, sources: [{serviceAccountToken: {expirationSeconds: 3607, path: token}}, {configMap: {name: kube-root-ca.crt, items: [{key: ca.crt, path: ca.crt}]}}]}}],
	containers: [` + container + `, ` + container + `]}`

const container = `{name: c, image: "registry.example.com/team/web:v1.2.3", args: [--port=8080, --verbose], imagePullPolicy: IfNotPresent, terminationMessagePath: /dev/termination-log,
	terminationMessagePolicy: File, ports: [{name: http, containerPort: 8080, protocol: TCP}], env: [{name: A, value: "1"}, {name: B, valueFrom: {fieldRef: {apiVersion: v1, fieldPath: metadata.name}}}],
	resources: {limits: {cpu: "1", memory: 1Gi}, requests: {cpu: 100m, memory: 256Mi}}, securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}},
	readinessProbe: {httpGet: {path: /ready, port: 8080, scheme: HTTP}, timeoutSeconds: 1, periodSeconds: 10, successThreshold: 1, failureThreshold: 3},
	volumeMounts: [{name: token, readOnly: true, mountPath: /var/run/secrets/kubernetes.io/serviceaccount}]}`

// newPolicies returns n policies, each of which adds something to every field except nodeName.
func newPolicies(t testingT, n int) (policies []*scheduling.Policy) {
	for i := range n {
		policies = append(policies, policyOf(t, fmt.Sprintf("policy-%d", i), fmt.Sprintf(`{podSelector: {matchLabels: {app: web}}, schedulerName: mine, nodeSelector: {label-%[1]d: v},
			tolerations: [{key: taint-%[1]d, operator: Exists}], topologySpreadConstraints: [{maxSkew: 1, topologyKey: place-%[1]d, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {app: web}}}],
			affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: key-%[1]d, operator: In, values: [v]}]}]}},
				podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: place-%[1]d, labelSelector: {matchLabels: {app: web}}}}]}}}`, i)))
	}
	return policies
}

// BenchmarkMerge parses a pod as an API server sends it, adds policies and creates the patch: the whole work of a webhook except the
// network.
func BenchmarkMerge(b *testing.B) {
	for _, n := range []int{0, 1, 10} {
		b.Run(fmt.Sprintf("policies=%d", n), func(b *testing.B) {
			raw, policies := pod(b, typicalPod), newPolicies(b, n)
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				o, err := scheduling.Read(podKind(), false, raw)
				if err != nil {
					b.Fatal(err)
				}
				result, err := scheduling.Merge(o, policies, nil)
				if err != nil || (result.Patch == nil) != (n == 0) || len(conflicts(result)) > 0 {
					b.Fatalf("%+v, error %v", result, err)
				}
			}
		})
	}
}

// BenchmarkMergeLargest multiplies the maximum number of terms.
func BenchmarkMergeLargest(b *testing.B) {
	o := readObject(b, podKind(), false, pod(b, `{`+alternatives(10, "a")+`}`))
	policies := []*scheduling.Policy{policyOf(b, "one", `{`+alternatives(10, "b")+`}`)}
	b.ReportAllocs()
	for b.Loop() {
		if result, err := scheduling.Merge(o, policies, nil); err != nil || result.Patch == nil {
			b.Fatalf("%+v, error %v", result, err)
		}
	}
}

// BenchmarkChoose finds the policies of a pod among 1,000, 10 of which apply to it.
func BenchmarkChoose(b *testing.B) {
	for _, by := range []string{"podSelector", "protectorSelector", "all"} {
		b.Run(by, func(b *testing.B) {
			var policies []*scheduling.Policy
			for i := range 1000 {
				text := fmt.Sprintf(`{%s: {matchLabels: {app: app-%d}}, schedulerName: mine}`, by, i/10)
				name := fmt.Sprintf("all-%d", i)
				if by == "all" {
					text, name = fmt.Sprintf(`{podSelector: {}, namespaceSelector: {matchLabels: {team: team-%d}}, schedulerName: mine}`, i/10), fmt.Sprintf("all-%d", i)
				}
				policies = append(policies, policyOf(b, name, text))
			}
			set := scheduling.NewSet(policies)
			o := readObject(b, podKind(), false, pod(b, `{}`))
			o.Labels = map[string]string{"app": "app-7", "tier": "web", "env": "prod", "team": "shop"}
			protectors := []scheduling.Protector{{Core: "core", Name: "p", Labels: o.Labels, Selector: &v1alpha1.PodSelector{}}}
			b.ReportAllocs()
			for b.Loop() {
				if found := set.For(o, map[string]string{"team": "team-7"}, protectors); len(found) != 10 {
					b.Fatalf("%d apply", len(found))
				}
			}
		})
	}
}

// BenchmarkNewSet compiles a set of 1,000 policies, as after a change of one of them.
func BenchmarkNewSet(b *testing.B) {
	policies := make([]*scheduling.Policy, 1000)
	for i := range policies {
		policies[i] = policyOf(b, fmt.Sprintf("all-%d", i), fmt.Sprintf(`{podSelector: {matchLabels: {app: app-%d}}, schedulerName: mine}`, i))
	}
	b.ReportAllocs()
	for b.Loop() {
		scheduling.NewSet(policies)
	}
}

// BenchmarkMergeHostile adds policies to pods of a megabyte that are designed to take long.
func BenchmarkMergeHostile(b *testing.B) {
	many := func(n int, format string) string {
		var all strings.Builder
		for i := range n {
			fmt.Fprintf(&all, format, i)
		}
		return all.String()
	}
	for name, spec := range map[string]string{
		"requirements": requiredNodeTerms(many(20_000, `{key: k%d, operator: NotIn, values: [v]}, `)),
		"values":       requiredNodeTerms(`{key: key-0, operator: In, values: [` + many(50_000, "v%d, ") + `]}, {key: key-0, operator: In, values: [` + many(50_000, "w%d, ") + `v]}`),
		"numbers":      requiredNodeTerms(`{key: key-0, operator: Lt, values: ["100000"]}, {key: key-0, operator: NotIn, values: [` + many(50_000, `"%d", `) + `]}`),
		"terms":        alternatives(10_000, "a"),
		"tolerations":  `tolerations: [` + many(20_000, `{key: k%d, operator: Exists}, `) + `]`,
	} {
		b.Run(name, func(b *testing.B) {
			o := readObject(b, podKind(), false, pod(b, "{"+spec+"}"))
			policies := newPolicies(b, 10)
			for b.Loop() {
				if _, err := scheduling.Merge(o, policies, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
