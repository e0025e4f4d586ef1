package provider_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

// createProtectors creates many protectors, more than one page.
func createProtectors(t *testing.T, namespace string, many int, labels map[string]string) {
	t.Helper()
	c := testplane.Client(t)
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(16)
	for i := range many {
		group.Go(func() error {
			return c.Create(ctx, &v1alpha1.PodProtector{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("web-%04d", i), Labels: labels},
				Spec:       v1alpha1.PodProtectorSpec{Selector: &v1alpha1.PodSelector{}, MinAvailable: v1alpha1.Pods(1)},
			})
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { deleteProtectors(t, namespace) })
}

// deleteProtectors deletes all protectors of a namespace, so that other tests need not read them.
func deleteProtectors(t *testing.T, namespace string) {
	if err := testplane.Client(t).DeleteAllOf(context.Background(), &v1alpha1.PodProtector{}, client.InNamespace(namespace)); err != nil {
		t.Errorf("delete the protectors: %v", err)
	}
}

const summed = `
output "sum" {
  value = jsonencode([length(data.breakwater_pod_protectors.it.pod_protectors), length(toset(data.breakwater_pod_protectors.it.pod_protectors[*].id)),
    data.breakwater_pod_protectors.it.pod_protectors[*].name == sort(data.breakwater_pod_protectors.it.pod_protectors[*].name)])
}
`

func TestDataSourceReadsPages(t *testing.T) {
	const many = 1010
	namespace := testplane.Namespace(t)
	createProtectors(t, namespace, many, nil)
	forEachProgram(t, func(t *testing.T) {
		proxy := newRecordingProxy(t)
		d := workingDir(t, configurationFor(t, proxy.Config)+fmt.Sprintf("data \"breakwater_pod_protectors\" \"it\" {\n namespace = %q\n}\n", namespace)+summed)
		readAll := func() {
			t.Helper()
			d.Run("apply", "-auto-approve")
			if got, want := d.Run("output", "-raw", "sum"), fmt.Sprintf("[%d,%d,true]", many, many); got != want {
				t.Errorf("protectors, names, sorted: %s, want %s", got, want)
			}
		}
		readAll()
		asked := proxy.queries("/namespaces/" + namespace + "/podprotectors")
		if len(asked) != 3 {
			t.Fatalf("got %d requests, want 3 pages", len(asked))
		}
		for i, query := range asked {
			if query.Get("limit") != "500" || (i == 0) != (query.Get("continue") == "") {
				t.Errorf("request %d is %v", i, query)
			}
		}

		// An API server whose etcd was compacted since the first page answers with an error, and a token to continue with the
		// current objects.
		forgotten := 0
		proxy.respond = func(w http.ResponseWriter, r *http.Request) bool {
			token := r.URL.Query().Get("continue")
			if token == "" || regexp.MustCompile(`"rv":-1`).MatchString(plainToken(t, token)) {
				return false
			}
			forgotten++
			gone := apierrors.NewResourceExpired("The provided continue parameter is too old")
			gone.ErrStatus.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
			gone.ErrStatus.Continue = base64.RawURLEncoding.EncodeToString(
				regexp.MustCompile(`"rv":\d+`).ReplaceAll([]byte(plainToken(t, token)), []byte(`"rv":-1`)))
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusGone)
			_ = json.NewEncoder(w).Encode(gone.ErrStatus)
			return true
		}
		readAll()
		if forgotten == 0 {
			t.Error("no page was forgotten")
		}
	})
}

func plainToken(t *testing.T, token string) string {
	t.Helper()
	plain, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		t.Errorf("token %q: %v", token, err)
	}
	return string(plain)
}

func TestDataSourceSelectsAndSorts(t *testing.T) {
	forEachProgram(t, func(t *testing.T) {
		base := testplane.Namespace(t)
		// The API server lists the protectors of base-b before those of base.
		other := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: base + "-b"}}
		if err := testplane.Client(t).Create(t.Context(), other); err != nil {
			t.Fatal(err)
		}
		label := func(tier string) func(*v1alpha1.PodProtector) {
			return func(p *v1alpha1.PodProtector) { p.Labels = map[string]string{"test": base, "tier": tier} }
		}
		theirProtector(t, base, "z", label("front"))
		theirProtector(t, base, "a", label("back"))
		theirProtector(t, other.Name, "m", label("cache"))
		source := func(name, arguments string) string {
			return fmt.Sprintf("data \"breakwater_pod_protectors\" %q {\n%s\n}\noutput %q { value = join(\" \", data.breakwater_pod_protectors.%s.pod_protectors[*].id) }\n",
				name, arguments, name, name)
		}
		all := fmt.Sprintf("label_selector = \"test=%s\"", base)
		steps(t,
			resource.TestStep{
				Config: configured(t, "") + source("all", all) +
					source("some", fmt.Sprintf("label_selector = \"test=%s,tier in (back, cache)\"", base)) +
					source("here", fmt.Sprintf("namespace = %q\nlabel_selector = \"tier!=back\"", base)) +
					source("none", `label_selector = "test=no-such"`),
				Check: resource.ComposeAggregateTestCheckFunc(
					resource.TestCheckOutput("all", fmt.Sprintf("%[1]s/a %[1]s/z %[1]s-b/m", base)),
					resource.TestCheckOutput("some", fmt.Sprintf("%[1]s/a %[1]s-b/m", base)),
					resource.TestCheckOutput("here", base+"/z"),
					resource.TestCheckOutput("none", ""),
				),
				ConfigStateChecks: []statecheck.StateCheck{statecheck.ExpectKnownOutputValue("none", knownvalue.StringExact(""))},
			},
			resource.TestStep{Config: configured(t, "") + source("bad", `label_selector = "tier in front"`), ExpectError: matchText("Not a label selector")},
			resource.TestStep{Config: configured(t, "") + source("bad", `namespace = "Shop"`), ExpectError: matchText("must consist of lower-case letters")},
			resource.TestStep{Config: configurationFor(t, unprivilegedUser(t, base)) + source("forbidden", all),
				ExpectError: matchText("PodProtector could not be listed .* PodProtector objects: .* is forbidden .* at the cluster scope")},
		)
	})
}
