package policy

import (
	"strings"
	"testing"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

func TestMistakes(t *testing.T) {
	const on = v1alpha1.KeyOnWorkload
	for claim, c := range map[string]struct {
		on                  v1alpha1.KeyTarget
		labels, annotations map[string]string
		// want are the mistakes, or their beginnings if there are several.
		want []string
	}{
		"the right label":                 {on, map[string]string{v1alpha1.LabelProtect: "true"}, nil, nil},
		"the label opts out":              {on, map[string]string{v1alpha1.LabelProtect: "false"}, nil, nil},
		"labels of others":                {on, map[string]string{"app": "web", "breakwater.example/protect": "yes"}, map[string]string{"x": "y"}, nil},
		"a value that is no Boolean":      {on, map[string]string{v1alpha1.LabelProtect: "yes"}, nil, []string{"The label breakwater.dev/protect=yes has no effect: Breakwater knows no such value. Use one of these values: true, false."}},
		"a value with a capital letter":   {on, map[string]string{v1alpha1.LabelProtect: "True"}, nil, []string{"The label breakwater.dev/protect=True has no effect: Breakwater knows no such value. Use one of these values: true, false."}},
		"a longer key":                    {on, map[string]string{"breakwater.dev/protected": "true"}, nil, []string{"The label breakwater.dev/protected=true has no effect: Breakwater has no such key. Did you mean the label breakwater.dev/protect=true?"}},
		"a key with a capital letter":     {on, map[string]string{"breakwater.dev/Protect": "false"}, nil, []string{"The label breakwater.dev/Protect=false has no effect: Breakwater has no such key. Did you mean the label breakwater.dev/protect=false?"}},
		"a prefix with a capital letter":  {on, map[string]string{"Breakwater.dev/protect": "yes"}, nil, []string{"The label Breakwater.dev/protect=yes has no effect: Breakwater has no such key. Did you mean the label breakwater.dev/protect=true?"}},
		"swapped letters":                 {on, map[string]string{"breakwater.dev/portect": "true"}, nil, []string{"The label breakwater.dev/portect=true has no effect: Breakwater has no such key. Did you mean the label breakwater.dev/protect=true?"}},
		"a key that resembles no other":   {on, map[string]string{"breakwater.dev/unlimited-removals": "3"}, nil, []string{"The label breakwater.dev/unlimited-removals=3 has no effect: Breakwater has no such key."}},
		"a label as an annotation":        {on, nil, map[string]string{v1alpha1.LabelProtect: "true"}, []string{"The annotation breakwater.dev/protect=true has no effect: it must be a label. Set the label instead."}},
		"an annotation as a label":        {v1alpha1.KeyOnPod, map[string]string{v1alpha1.AnnotationForceDelete: "true"}, nil, []string{"The label breakwater.dev/force-delete=true has no effect: it must be an annotation. Set the annotation instead."}},
		"a key of another kind of object": {v1alpha1.KeyOnNamespace, map[string]string{v1alpha1.LabelProtect: "true"}, nil, []string{"The label breakwater.dev/protect=true has no effect: Breakwater does not read it on a namespace. Set it on a workload."}},
		"a misspelt criterion":            {v1alpha1.KeyOnPod, nil, map[string]string{v1alpha1.AnnotationCriterion: "ready"}, []string{"The annotation breakwater.dev/criterion=ready has no effect: Breakwater knows no such value. Use one of these values: Available, Ready, Running, Scheduled."}},
		"a misspelt annotation":           {v1alpha1.KeyOnPod, nil, map[string]string{"breakwater.dev/force-deleted": "true"}, []string{"The annotation breakwater.dev/force-deleted=true has no effect: Breakwater has no such key. Did you mean the annotation breakwater.dev/force-delete=true?"}},
		"a confirmation":                  {on, nil, map[string]string{v1alpha1.AnnotationConfirmRelease: "2020-01-31"}, nil},
		"a confirmation that is no date":  {on, nil, map[string]string{v1alpha1.AnnotationConfirmRelease: "yes"}, []string{"The annotation breakwater.dev/confirm-release=yes has no effect: Breakwater knows no such value. Use true, a date (2026-11-30) or an RFC 3339 time."}},
		"keys that Breakwater sets":       {on, map[string]string{v1alpha1.LabelShard("web"): "a", v1alpha1.LabelDrain("web"): "true"}, map[string]string{v1alpha1.AnnotationNudgedAt: "2026"}, nil},
		"a protector that was generated":  {v1alpha1.KeyOnProtector, map[string]string{v1alpha1.LabelSourceKind: "Deployment"}, map[string]string{v1alpha1.AnnotationPolicy: "ProtectionPolicy/web", v1alpha1.AnnotationRemoveCell: "c"}, nil},
		"several mistakes":                {on, map[string]string{"breakwater.dev/zzzzzzzz": "", "breakwater.dev/aaaaaaaa": ""}, map[string]string{"breakwater.dev/qqqqqqqq": ""}, []string{"The label breakwater.dev/aaaaaaaa", "The label breakwater.dev/zzzzzzzz", "The annotation breakwater.dev/qqqqqqqq"}},
	} {
		t.Run(claim, func(t *testing.T) {
			got := Mistakes(c.on, c.labels, c.annotations)
			if len(got) != len(c.want) {
				t.Fatalf("Mistakes() = %v, want %v", got, c.want)
			}
			for i := range got {
				if text := got[i].String(); text != c.want[i] && (len(got) == 1 || !strings.HasPrefix(text, c.want[i])) {
					t.Errorf("mistake %d = %q, want %q", i, text, c.want[i])
				}
			}
		})
	}
}

func TestEditDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"protect", "protect", 0}, {"", "abc", 3}, {"protected", "protect", 2}, {"portect", "protect", 2}, {"kitten", "sitting", 3}} {
		if got := editDistance(c.a, c.b); got != c.want || editDistance(c.b, c.a) != got {
			t.Errorf("editDistance(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
