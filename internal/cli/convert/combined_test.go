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

const pdb = `{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {namespace: shop, %s}, spec: {minAvailable: 1, selector: {matchLabels: {%s}}}}`

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

func TestOverlappingProtectorsWarn(t *testing.T) {
	const both = "PodDisruptionBudget shop/web: it can cover the same pods as PodDisruptionBudget shop/front: both are converted, and a removal of such a " +
		"pod needs budget of both"
	for claim, test := range map[string]struct {
		sources [][3]string
		want    []string
	}{
		"selectors that share pods without being alike": {[][3]string{{pdb, "name: web", "app: web"}, {pdb, "name: front", "tier: front"}}, []string{both}},
		"other applications":                            {[][3]string{{pdb, "name: web", "app: web"}, {pdb, "name: front", "app: front"}}, nil},
		"other namespaces": {
			[][3]string{{pdb, "name: web", "app: web"}, {strings.ReplaceAll(pdb, "shop", "office"), "name: front", "app: web"}}, nil,
		},
	} {
		t.Run(claim, func(t *testing.T) {
			result := convert.Convert(sourcesFrom(t, test.sources...))
			if diff := cmp.Diff(test.want, warningsAbout(&result, convert.BothMustAdmit)); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDuplicateObjects(t *testing.T) {
	half := strings.Replace(pdb, "minAvailable: 1", "minAvailable: 50%%", 1)
	none := strings.Replace(pdb, "minAvailable: 1", "maxUnavailable: 0", 1)
	for claim, test := range map[string]struct{ first, second, want string }{
		"absolute numbers, possibly of two clusters": {pdb, pdb, "with the same numbers"},
		"a percentage": {half, half, ""},
		"zero, which is the same for two clusters": {none, none, ""},
		"different specs":                          {half, pdb, "with a different spec"},
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
		"argocd.argoproj.io/tracking-id": "x", "meta.helm.sh/release-name": "shop", "nothelm.sh/x": "y"})
	result := convert.Convert([]convert.Source{s})
	manifest, err := result.Protectors[0].Manifest()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"name": "web", "namespace": "shop",
		"labels":      map[string]any{"team": "shop", "app.kubernetes.io/name": "web"},
		"annotations": map[string]any{"contact": "shop@example.com", "nothelm.sh/x": "y"},
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
	for _, name := range []string{"web", "api", "all", "none"} {
		labels := map[string]string{"all": "", "none": "a: b c"}
		for _, namespace := range []string{"shop", "office"} {
			chosen, known := labels[name]
			if !known {
				chosen = "app: " + name
			}
			objects = append(objects, [3]string{strings.ReplaceAll(pdb, "shop", namespace), "name: " + name, chosen})
		}
	}
	sources := sourcesFrom(t, objects...)
	want := convert.Convert(sources)
	if len(want.Protectors) != 6 || len(warningsAbout(&want, convert.BothMustAdmit)) == 0 || len(warningsAbout(&want, convert.Malformed)) != 2 {
		t.Fatalf("%d protectors and warnings %v; the objects should make 6, some of the same pods", len(want.Protectors), want.Warnings)
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
