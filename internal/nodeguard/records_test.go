package nodeguard

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
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

// apiServer answers lists of ConfigMaps, and counts those of whole objects.
type apiServer struct {
	stored []corev1.ConfigMap
	whole  int
	fail   bool
}

func (s *apiServer) RoundTrip(r *http.Request) (*http.Response, error) {
	var answer any
	if strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadataList") {
		metadata := metav1.PartialObjectMetadataList{}
		for i := range s.stored {
			metadata.Items = append(metadata.Items, metav1.PartialObjectMetadata{ObjectMeta: s.stored[i].ObjectMeta})
		}
		answer = metadata
	} else if s.whole++; s.fail {
		return nil, errors.New("connection refused")
	} else {
		answer = corev1.ConfigMapList{Items: s.stored}
	}
	raw, err := json.Marshal(answer)
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(raw))}, err
}

// All guards of a cluster ask all the time.
func TestGuardReadsOnlyChangedLists(t *testing.T) {
	s, err := newStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	server := &apiServer{}
	r := &records{own: &Account{server: &url.URL{Scheme: "https", Host: "worker"}, upstream: server}, namespace: "system", store: s, log: logr.Discard()}
	web := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Labels: map[string]string{"app": "web"}}}
	refresh := func(step string, fails bool, whole int, protects bool) {
		t.Helper()
		if err := r.refresh(t.Context()); (err != nil) != fails {
			t.Fatalf("%s: %v, want an error: %v", step, err, fails)
		}
		if server.whole != whole || r.Protects(web) != protects {
			t.Errorf("%s: %d lists of whole objects and protected %v, want %d and %v", step, server.whole, r.Protects(web), whole, protects)
		}
	}
	refresh("nothing is published", false, 1, false)
	refresh("still nothing", false, 1, false)
	server.stored = []corev1.ConfigMap{list("a", 1, `[{"namespace":"shop","name":"web","selector":{"matchLabels":{"app":"web"}}}]`)}
	server.stored[0].ResourceVersion = "10"
	server.fail = true
	refresh("a list that cannot be read", true, 2, false)
	server.fail = false
	refresh("the list", false, 3, true)
	refresh("the same list", false, 3, true)
	server.stored[0] = list("a", 2, "[]")
	server.stored[0].ResourceVersion = "11"
	refresh("a changed list", false, 4, false)
}
