package nodeguard

import (
	"strconv"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/internal/core/podhold"
)

func list(name string, version int64, content string) corev1.ConfigMap {
	return corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{podhold.AnnotationVersion: strconv.FormatInt(version, 10)}},
		Data:       map[string]string{podhold.ProtectedKey: content},
	}
}

// An API server that was restored has older lists, or only some of them. Its pods that are missing stay protected.
func TestRestoredListsDoNotEndProtection(t *testing.T) {
	const web, api = `[{"namespace":"shop","name":"web","selector":{"matchLabels":{"app":"web"}}}]`, `[{"namespace":"shop","name":"api","selector":{"matchLabels":{"app":"api"}}}]`
	for claim, c := range map[string]struct {
		read     []corev1.ConfigMap
		web, api bool
	}{
		"all lists are lost":                  {nil, true, true},
		"one list is lost":                    {[]corev1.ConfigMap{list("b", 5, api)}, true, true},
		"one is older":                        {[]corev1.ConfigMap{list("a", 4, "[]"), list("b", 5, api)}, true, true},
		"one without a version":               {[]corev1.ConfigMap{{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Data: map[string]string{podhold.ProtectedKey: "[]"}}}, true, true},
		"one is newer, and has none any more": {[]corev1.ConfigMap{list("a", 6, "[]"), list("b", 5, api)}, false, true},
		"a new one":                           {[]corev1.ConfigMap{list("c", 1, api)}, true, true},
	} {
		t.Run(claim, func(t *testing.T) {
			s, err := newStore(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			before := &records{store: s, log: logr.Discard()}
			if err := before.learn([]corev1.ConfigMap{list("a", 5, web), list("b", 5, api)}); err != nil {
				t.Fatal(err)
			}
			restarted := &records{store: s, log: logr.Discard()}
			if err := restarted.restore(); err != nil {
				t.Fatal(err)
			}
			for name, r := range map[string]*records{"the guard": before, "a restarted guard": restarted} {
				if err := r.learn(c.read); err != nil {
					t.Fatal(err)
				}
				for app, want := range map[string]bool{"web": c.web, "api": c.api} {
					pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Labels: map[string]string{"app": app}}}
					if got := r.Protects(pod); got != want {
						t.Errorf("%s protects %s: %v, want %v", name, app, got, want)
					}
				}
			}
		})
	}
}
