package convert_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-k8s/breakwater/internal/cli/convert"
)

const (
	pdb        = `{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {namespace: shop, %s}, spec: {minAvailable: 1, selector: {matchLabels: {%s}}}}`
	pub        = `{apiVersion: policy.kruise.io/v1alpha1, kind: PodUnavailableBudget, metadata: {namespace: shop, %s}, spec: {minAvailable: 1, selector: {matchLabels: {%s}}}}`
	target     = `{apiVersion: policy.kruise.io/v1alpha1, kind: PodUnavailableBudget, metadata: {namespace: shop, %s}, spec: {minAvailable: 1, targetRef: {%s}}}`
	workload   = `{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: shop, %s}, spec: {selector: {matchLabels: {%s}}}}`
	controller = `{apiVersion: v1, kind: ReplicationController, metadata: {namespace: shop, %s}, spec: {selector: {%s}}}`
	podseidon  = `{apiVersion: podseidon.kubewharf.io/v1alpha1, kind: PodProtector, metadata: {namespace: shop, %s}, spec: {minAvailable: 1, minReadySeconds: 0, selector: {matchLabels: {%s}}}}`
)

// sourcesFrom creates sources from formats, metadata and pod selectors.
func sourcesFrom(t testing.TB, objects ...[3]string) []convert.Source {
	t.Helper()
	var sources []convert.Source
	for _, o := range objects {
		sources = append(sources, source(t, fmt.Sprintf(o[0], o[1], o[2])))
	}
	return sources
}

// names formats protectors as source: name.
func names(result *convert.Result) []string {
	var all []string
	for _, p := range result.Protectors {
		all = append(all, fmt.Sprintf("%s: %s", p.From, p.Name))
	}
	return all
}

// warningsAbout returns the warnings with one reason.
func warningsAbout(result *convert.Result, reason convert.Reason) []string {
	var all []string
	for _, w := range result.Warnings {
		if w.Reason == reason {
			all = append(all, fmt.Sprintf("%s: %s", w.About, w.Message))
		}
	}
	return all
}

func TestProtectorNamesAreUnique(t *testing.T) {
	long := strings.Repeat("n", 250)
	const marks = `labels: {podseidon.kubewharf.io/source-name: web, podseidon.kubewharf.io/source-kind: Deployment}`
	for claim, test := range map[string]struct {
		sources [][3]string
		want    []string
		renamed int
	}{
		"names are kept": {
			[][3]string{{pdb, "name: a", "app: a"}, {pub, "name: b", "app: b"}, {podseidon, "name: c", "app: c"}},
			[]string{"PodDisruptionBudget shop/a: a", "PodUnavailableBudget shop/b: b", "Podseidon PodProtector shop/c: c"}, 0,
		},
		"the first kind keeps a name that all have": {
			[][3]string{{podseidon, "name: web", "app: c"}, {pub, "name: web", "app: b"}, {pdb, "name: web", "app: a"}},
			[]string{"PodDisruptionBudget shop/web: web", "Podseidon PodProtector shop/web: web-podseidon", "PodUnavailableBudget shop/web: web-pub"}, 2,
		},
		"a renamed protector takes no other name": {
			[][3]string{{pdb, "name: web", "app: a"}, {pub, "name: web", "app: b"}, {podseidon, "name: web-pub", "app: c"}},
			[]string{"PodDisruptionBudget shop/web: web", "Podseidon PodProtector shop/web-pub: web-pub", "PodUnavailableBudget shop/web: web-pub-2"}, 1,
		},
		"a long name is truncated": {
			[][3]string{{pdb, "name: " + long, "app: a"}, {pub, "name: " + long, "app: b"}},
			[]string{"PodUnavailableBudget shop/" + long + ": " + long[:240] + "-213b8327-pub", "PodDisruptionBudget shop/" + long + ": " + long}, 1,
		},
		"the name of the generator's protector is kept free": {
			[][3]string{{podseidon, "name: deployment-web, " + marks, "app: a"}},
			[]string{"Podseidon PodProtector shop/deployment-web: deployment-web-podseidon"}, 1,
		},
		"another name is kept": {
			[][3]string{{podseidon, "name: web, " + marks, "app: a"}},
			[]string{"Podseidon PodProtector shop/web: web"}, 0,
		},
	} {
		t.Run(claim, func(t *testing.T) {
			result := convert.Convert(sourcesFrom(t, test.sources...))
			got := names(&result)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("names (-want +got):\n%s", diff)
			}
			for _, p := range result.Protectors {
				if len(p.Name) > 253 {
					t.Errorf("%s is %d characters long", p.Name, len(p.Name))
				}
			}
			if got := warningsAbout(&result, convert.Renamed); len(got) != test.renamed {
				t.Errorf("%d warnings about new names, want %d: %v", len(got), test.renamed, got)
			}
		})
	}
}

func TestOverlappingProtectorsWarn(t *testing.T) {
	const deployment = "apiVersion: apps/v1, kind: Deployment, name: web"
	for claim, test := range map[string]struct {
		sources [][3]string
		want    []string
	}{
		"a PDB and a PUB of one application": {
			[][3]string{{pdb, "name: web", "app: web"}, {pub, "name: web", "app: web"}},
			[]string{"PodUnavailableBudget shop/web: it can cover the same pods as PodDisruptionBudget shop/web: both are converted, and a removal of such a pod " +
				"needs budget of both"},
		},
		"selectors that share pods without being alike": {
			[][3]string{{pdb, "name: web", "app: web"}, {pdb, "name: front", "tier: front"}},
			[]string{"PodDisruptionBudget shop/web: it can cover the same pods as PodDisruptionBudget shop/front: both are converted, and a removal of such a " +
				"pod needs budget of both"},
		},
		"other applications": {
			[][3]string{{pdb, "name: web", "app: web"}, {pub, "name: api", "app: api"}}, nil,
		},
		"other namespaces": {
			[][3]string{{pdb, "name: web", "app: web"}, {strings.ReplaceAll(pub, "shop", "office"), "name: web", "app: web"}}, nil,
		},
		"one workload, by two versions of its API": {
			[][3]string{{target, "name: one", deployment}, {target, "name: two", "apiVersion: apps/v1beta2, kind: Deployment, name: web"}},
			[]string{"PodUnavailableBudget shop/two: it names the same workload as PodUnavailableBudget shop/one, and a core denies a second protector for a " +
				"workload (breakwater webhook-config --core): keep only one of them"},
		},
		"a PDB, and a PUB whose workload is known": {
			[][3]string{{pdb, "name: web", "app: web"}, {target, "name: one", deployment}, {workload, "name: web", "app: web"}},
			[]string{"PodUnavailableBudget shop/one: it can cover the same pods as PodDisruptionBudget shop/web: both are converted, and a removal of such a pod " +
				"needs budget of both"},
		},
		"a PDB of other pods than those of the workload": {
			[][3]string{{pdb, "name: api", "app: api"}, {target, "name: one", deployment}, {workload, "name: web", "app: web"}}, nil,
		},
		"a workload with the same name in another namespace": {
			[][3]string{{pdb, "name: web", "app: web"}, {target, "name: one", deployment}, {strings.ReplaceAll(workload, "shop", "office"), "name: web", "app: web"}}, nil,
		},
		"a ReplicationController with plain labels as selector": {
			[][3]string{{pdb, "name: web", "app: web"}, {target, "name: one", "apiVersion: v1, kind: ReplicationController, name: web"},
				{controller, "name: web", "app: web"}},
			[]string{"PodUnavailableBudget shop/one: it can cover the same pods as PodDisruptionBudget shop/web: both are converted, and a removal of such a pod " +
				"needs budget of both"},
		},
		"two workloads": {
			[][3]string{{target, "name: one", deployment}, {target, "name: two", "apiVersion: apps/v1, kind: StatefulSet, name: web"}}, nil,
		},
	} {
		t.Run(claim, func(t *testing.T) {
			result := convert.Convert(sourcesFrom(t, test.sources...))
			if diff := cmp.Diff(test.want, warningsAbout(&result, convert.BothMustAdmit)); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
			if elsewhere := strings.Contains(claim, "the same name"); (len(result.Skipped) > 0) != elsewhere {
				t.Errorf("skipped %v", result.Skipped)
			}
		})
	}
}

func TestDuplicateObjects(t *testing.T) {
	half := strings.Replace(pdb, "minAvailable: 1", "minAvailable: 50%%", 1)
	none := strings.Replace(pdb, "minAvailable: 1", "maxUnavailable: 0", 1)
	expected := strings.Replace(strings.Replace(pub, "v1alpha1", "v1beta1", 1), "minAvailable: 1", "minAvailable: 50%%, protectTotalReplicas: 3", 1)
	for claim, test := range map[string]struct{ first, second, want string }{
		"absolute numbers, possibly of two clusters": {pdb, pdb, "with the same numbers"},
		"expected pods, likewise":                    {expected, expected, "with the same numbers"},
		"a percentage":                               {half, half, ""},
		"zero, which is the same for two clusters":   {none, none, ""},
		"a spec for all clusters":                    {podseidon, podseidon, ""},
		"different specs":                            {half, pdb, "with a different spec"},
	} {
		t.Run(claim, func(t *testing.T) {
			sources := sourcesFrom(t, [3]string{test.first, "name: web", "app: web"}, [3]string{test.second, "name: web", "app: web"})
			sources[0].Origin, sources[1].Origin = "one.yaml", "two.yaml"
			result := convert.Convert(sources)
			if len(result.Protectors) != 1 || result.Protectors[0].From.Origin != "one.yaml" {
				t.Errorf("converted %v, want one from one.yaml", names(&result))
			}
			got := warningsAbout(&result, convert.Repeated)
			if (len(got) == 1) != (test.want != "") || test.want != "" && !strings.Contains(got[0], "read before in one.yaml, "+test.want) {
				t.Errorf("warnings %q, want one that contains %q", got, test.want)
			}
		})
	}
}

func TestUserMetadataIsCopied(t *testing.T) {
	s := sourcesFrom(t, [3]string{pdb, "name: web, uid: u, resourceVersion: '7', generation: 2, finalizers: [a.example/b], managedFields: []", "app: web"})[0]
	s.Object.SetLabels(map[string]string{"team": "shop", "app.kubernetes.io/name": "web", "app.kubernetes.io/managed-by": "Helm",
		"app.kubernetes.io/instance": "shop", "kustomize.toolkit.fluxcd.io/name": "apps", "breakwater.dev/source-kind": "Deployment"})
	s.Object.SetAnnotations(map[string]string{"contact": "shop@example.com", "kubectl.kubernetes.io/last-applied-configuration": "{}",
		"argocd.argoproj.io/tracking-id": "x", "meta.helm.sh/release-name": "shop", "kruise.io/pub-protect-operations": "EVICT",
		"pub.kruise.io/protect-total-replicas": "3", "notkruise.io/x": "y"})
	result := convert.Convert([]convert.Source{s})
	manifest, err := result.Protectors[0].Manifest()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"name": "web", "namespace": "shop",
		"labels":      map[string]any{"team": "shop", "app.kubernetes.io/name": "web"},
		"annotations": map[string]any{"contact": "shop@example.com", "notkruise.io/x": "y"},
	}
	if diff := cmp.Diff(want, manifest["metadata"]); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
	if _, there := manifest["status"]; there {
		t.Error("the manifest has a status")
	}
}

func TestOtherKindsAreSkipped(t *testing.T) {
	result := convert.Convert([]convert.Source{
		source(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: shop}}`),
		source(t, `{apiVersion: breakwater.dev/v1alpha1, kind: PodProtector, metadata: {name: p, namespace: shop}, spec: {minAvailable: 1, selector: {}}}`),
		source(t, `{apiVersion: example.com/v1, kind: PodDisruptionBudget, metadata: {name: b}, spec: {minAvailable: 1, selector: {}}}`),
	})
	var skipped []string
	for _, ref := range result.Skipped {
		skipped = append(skipped, ref.String())
	}
	want := []string{"ConfigMap shop/c", "Breakwater's own PodProtector shop/p", "PodDisruptionBudget b"}
	if diff := cmp.Diff(want, skipped); diff != "" || len(result.Protectors)+len(result.Warnings) > 0 {
		t.Errorf("skipped (-want +got):\n%sprotectors %v, warnings %v", diff, result.Protectors, result.Warnings)
	}
}

func TestInvalidNames(t *testing.T) {
	for claim, metadata := range map[string]string{"no name": "", "a generated one": "generateName: web-", "capitals": "name: Web"} {
		t.Run(claim, func(t *testing.T) {
			result := convert.Convert(sourcesFrom(t, [3]string{pdb, metadata, "app: web"}))
			if got := reasons(result.Warnings); got != "Malformed!" {
				t.Errorf("warnings %s", got)
			}
		})
	}
}

func TestConvertSourcesInAnyOrder(t *testing.T) {
	var objects [][3]string
	for _, format := range []string{pdb, pub, podseidon} {
		for _, name := range []string{"web", "api", "web-pub", "web-podseidon"} {
			for _, namespace := range []string{"shop", "office"} {
				objects = append(objects, [3]string{strings.ReplaceAll(format, "shop", namespace), "name: " + name, "app: " + name})
			}
		}
	}
	objects = append(objects, [3]string{pub, "name: none", ""}, [3]string{pdb, "name: all", ""})
	sources := sourcesFrom(t, objects...)
	want := convert.Convert(sources)
	if len(want.Protectors) != 25 || len(warningsAbout(&want, convert.Renamed)) == 0 || len(warningsAbout(&want, convert.BothMustAdmit)) == 0 {
		t.Fatalf("%d protectors; the objects should make 25, some of them renamed and of the same pods", len(want.Protectors))
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		shuffled := slices.Clone(sources)
		random.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if diff := cmp.Diff(want, convert.Convert(shuffled)); diff != "" {
			t.Fatalf("result depends on the order:\n%s", diff)
		}
	}
}
