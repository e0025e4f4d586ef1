package charts_test

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/internal/pages"
	"github.com/breakwater-k8s/breakwater/internal/release"
)

// Commands of runbooks about pods of components cannot be run where their faults are tested, since components are no pods there. What they
// choose by labels is what the chart installs.
func TestRunbooksNameWhatTheChartInstalls(t *testing.T) {
	all, err := pages.All("../..")
	if err != nil {
		t.Fatal(err)
	}
	single.Claim(t, "each component that a runbook looks at is there", func(l *e2e.Lab) {
		looked := 0
		for _, page := range all {
			if !strings.HasPrefix(page.Path, "docs/runbooks/") {
				continue
			}
			for _, step := range page.Steps {
				if step.Run == nil || step.Run.Environment != "" {
					continue
				}
				for _, command := range step.Run.Commands {
					if words := strings.Fields(command.Text); slices.Contains(words, release.Namespace) {
						looked++
						if !chooses(l, words) {
							t.Errorf("%s:%d: %s: nothing of the release is chosen by that", page.Path, command.Line, command.Text)
						}
					}
				}
			}
		}
		if looked == 0 {
			t.Error("no runbook looks at a component")
		}
	})
}

// chooses tells whether a command of kubectl finds something in the namespace of the release, by labels.
func chooses(l *e2e.Lab, words []string) bool {
	l.Helper()
	at := slices.Index(words, "-l")
	if at < 0 {
		return false
	}
	selector, err := labels.Parse(words[at+1])
	l.Must(err)
	objects := &metav1.PartialObjectMetadataList{}
	objects.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	if slices.Contains(words, "deployment") {
		objects.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("DeploymentList"))
	}
	l.Must(l.Core.List(l.Context(), objects, client.InNamespace(release.Namespace), client.MatchingLabelsSelector{Selector: selector}))
	return len(objects.Items) > 0
}
