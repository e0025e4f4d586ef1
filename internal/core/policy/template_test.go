package policy

import (
	"strconv"
	"strings"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func read(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(`{apiVersion: example.com/v1, kind: FederatedDeployment, metadata: {name: web}, ` + text + `}`))
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	return u
}

func TestTemplates(t *testing.T) {
	const web = `template: {spec: {replicas: 10, selector: {matchLabels: {app: web}}, strategy: {rollingUpdate: {maxUnavailable: 30%}}}}`
	for claim, c := range map[string]struct {
		spec, wantErr string
		want          string
	}{
		"without a placement it has the size of the template": {web, "", "10 7"},
		"clusters by name":                 {web + `, placement: {clusters: [{name: a}, {name: b}]}`, "", "unknown 30%"},
		"clusters that a selector chooses": {web + `, placement: {clusterSelector: {}}`, "", "unknown 30%"},
		"a placement of another shape":     {web + `, placements: [{placement: [{cluster: a}]}]`, "", "unknown 30%"},
		"a StatefulSet, by its own kind":   {`template: {kind: StatefulSet, spec: {replicas: 4, selector: {matchLabels: {app: web}}}}`, "", "4 3"},
		"an unknown kind":                  {`template: {kind: Thing, spec: {replicas: 8, selector: {matchLabels: {app: web}}}}`, "", "unknown 25%"},
		"a template without replicas":      {`template: {kind: Thing, spec: {selector: {matchLabels: {app: web}}}}, placement: {clusters: [{name: a}]}`, "", "unknown 25%"},
		"a template without a selector":    {`template: {kind: Thing, spec: {replicas: 8}}`, "spec.selector is missing", ""},
		"no template":                      {`replicas: 3`, "spec.template is missing", ""},
		"a template that is a string":      {`template: web`, "neither a workload nor a list", ""},
		"a list": {`template: [{kind: Deployment, metadata: {name: a}, spec: {replicas: 4, selector: {matchLabels: {app: a}}}},
			{kind: StatefulSet, metadata: {name: b}, spec: {replicas: 4, selector: {matchLabels: {app: b}}}}]`, "", "a 4 3, b 4 3"},
		"a list without names": {`template: [{kind: Deployment, spec: {replicas: 4, selector: {matchLabels: {app: a}}}}]`, "metadata.name is missing", ""},
		"a list with one name twice": {`template: [{kind: Deployment, metadata: {name: a}, spec: {replicas: 4, selector: {matchLabels: {app: a}}}},
			{kind: Deployment, metadata: {name: a}, spec: {replicas: 4, selector: {matchLabels: {app: b}}}}]`, "or not unique", ""},
		"an empty list": {`template: []`, "spec.template is empty", ""},
	} {
		t.Run(claim, func(t *testing.T) {
			object := read(t, "spec: {"+c.spec+"}")
			got, err := Template{Path: "spec.template"}.Interpret(Source{Kind: object.GroupVersionKind(), Object: object})
			if c.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), c.wantErr) {
					t.Errorf("error = %v, want it to contain %q", err, c.wantErr)
				}
				return
			}
			if err != nil || format(got) != c.want {
				t.Errorf("%q, %v; want %q", format(got), err, c.want)
			}
		})
	}
}

// format formats workloads as part, size and floor, or maxUnavailable if the size is unknown.
func format(workloads []Workload) string {
	var texts []string
	for _, w := range workloads {
		if w.Replicas == nil {
			texts = append(texts, strings.TrimSpace(w.Part+" unknown "+w.Strategy.MaxUnavailable.String()))
			continue
		}
		texts = append(texts, strings.TrimSpace(w.Part+" "+strconv.Itoa(int(*w.Replicas))+" "+strconv.Itoa(int(w.Strategy.MinAvailable))))
	}
	return strings.Join(texts, ", ")
}

func TestScaled(t *testing.T) {
	for claim, c := range map[string]struct {
		spec, scaleSelector string
		replicas            int32
		noScale             bool
		want, wantErr       string
	}{
		"a size and a selector of the spec":                   {`{replicas: 8, selector: {matchLabels: {app: web}}}`, "", 8, false, "unknown 25%", ""},
		"the selector of the scale":                           {`{replicas: 8}`, "app=web", 8, false, "unknown 25%", ""},
		"an explicit 0":                                       {`{replicas: 0, selector: {matchLabels: {app: web}}}`, "", 0, false, "unknown 25%", ""},
		"no replicas in the spec":                             {`{selector: {matchLabels: {app: web}}}`, "", 0, false, "unknown 25%", ""},
		"no selector yet":                                     {`{replicas: 8}`, "", 8, false, "", "neither a spec.selector nor one in its scale"},
		"an empty selector is none":                           {`{replicas: 8, selector: {}}`, "", 8, false, "", "neither a spec.selector"},
		"a selector of another format: use that of the scale": {`{replicas: 8, selector: web}`, "app=web", 8, false, "unknown 25%", ""},
		"a malformed selector of the scale":                   {`{replicas: 8}`, "a=b=c", 8, false, "", "the selector of its scale"},
		"a kind without a scale subresource":                  {`{replicas: 8}`, "", 0, true, "", "templatePath"},
	} {
		t.Run(claim, func(t *testing.T) {
			object := read(t, "spec: "+c.spec)
			source := Source{Kind: object.GroupVersionKind(), Object: object}
			if !c.noScale {
				source.Scale = &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: c.replicas}, Status: autoscalingv1.ScaleStatus{Selector: c.scaleSelector}}
			}
			got, err := Scaled{}.Interpret(source)
			if c.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), c.wantErr) {
					t.Errorf("error = %v, want it to contain %q", err, c.wantErr)
				}
				return
			}
			if err != nil || format(got) != c.want || got[0].Selector.MatchLabels["app"] != "web" {
				t.Errorf("%q, %v; want %q", format(got), err, c.want)
			}
		})
	}
}
