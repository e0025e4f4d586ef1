package provider_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/terraform"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// protectorAt returns a resource for the PodProtector web.
func protectorAt(address, namespace, floor, more string) string {
	return fmt.Sprintf(`
resource "breakwater_pod_protector" %q {
  namespace           = %q
  name                = "web"
  selector            = { match_labels = { app = %q } }
  min_available       = %q
  deletion_protection = false
  %s
}
`, address, namespace, address, floor, more)
}

func floorOf(t *testing.T, namespace string) string {
	t.Helper()
	p := &v1alpha1.PodProtector{}
	if err := testplane.Client(t).Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "web"}, p); err != nil {
		t.Fatal(err)
	}
	return p.Spec.MinAvailable.String()
}

func TestOneObjectHasOneResource(t *testing.T) {
	for claim, more := range map[string]string{"": "", "taking over what others own": "force_conflicts = true"} {
		t.Run(claim, func(t *testing.T) {
			onTerraform(t)
			namespace := testplane.Namespace(t)
			d := workingDir(t, configured(t, "")+protectorAt("a", namespace, "2", more)+protectorAt("b", namespace, "3", more))
			wantFailure(t, d, "Two resources have the same PodProtector", "PodProtector "+namespace+"/web")
			floor := floorOf(t, namespace)
			wantFailure(t, d, "PodProtector is managed by Terraform already", namespace+"/web exists")
			if now := floorOf(t, namespace); now != floor {
				t.Errorf("floor %s after another apply, want %s", now, floor)
			}
			other := workingDir(t, configured(t, "")+protectorAt("c", namespace, "4", more))
			wantFailure(t, other, "PodProtector is managed by Terraform already", "terraform import breakwater_pod_protector.NAME "+namespace+"/web")
			if now := floorOf(t, namespace); now != floor {
				t.Errorf("floor %s after an apply with another state, want %s", now, floor)
			}
		})
	}
}

// wantFailure applies, and fails the test unless that fails with these words.
func wantFailure(t *testing.T, d *terraform.Dir, words ...string) {
	t.Helper()
	out, err := d.Try("apply", "-auto-approve")
	if err == nil {
		t.Errorf("the apply succeeds, want an error that says %q:\n%s", words, out)
	}
	for _, w := range words {
		if !matchWrapped(w).MatchString(out) {
			t.Errorf("the apply says\n%s\nwant %q", out, w)
		}
	}
}

func TestReplacementBeforeDeletionKeepsTheObject(t *testing.T) {
	for claim, more := range map[string]string{"": "", "taking over what others own": "force_conflicts = true"} {
		t.Run(claim, func(t *testing.T) {
			onTerraform(t)
			namespace := testplane.Namespace(t)
			d := workingDir(t, configured(t, "")+protectorAt("a", namespace, "2", more+"\n lifecycle { create_before_destroy = true }"))
			d.Run("apply", "-auto-approve")
			d.Run("taint", "breakwater_pod_protector.a")
			wantFailure(t, d, "If this resource replaces itself, because of create_before_destroy: remove that")
			if floor := floorOf(t, namespace); floor != "2" {
				t.Errorf("floor %s, want the object as it was", floor)
			}
			d.Run("untaint", "breakwater_pod_protector.a")
			d.Run("plan", "-detailed-exitcode")
		})
	}
}

// Another client creates the object after the provider has seen that its name is free.
func TestObjectThatAnotherClientCreatesMeanwhile(t *testing.T) {
	onTerraform(t)
	namespace := testplane.Namespace(t)
	proxy := newRecordingProxy(t)
	var created atomic.Bool
	proxy.respond = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPatch && !strings.Contains(r.URL.RawQuery, "dryRun") && !created.Swap(true) {
			floor := intstr.FromInt32(5)
			err := testplane.Client(t).Create(t.Context(), &v1alpha1.PodProtector{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"},
				Spec:       v1alpha1.PodProtectorSpec{Selector: &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "a"}}, MinAvailable: &floor},
			})
			if err != nil {
				t.Error(err)
			}
		}
		return false
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	writeFile(t, path, testplane.KubeconfigOf(t, proxy.Config))
	d := workingDir(t, fmt.Sprintf("provider \"breakwater\" {\n  config_path = %q\n}\n", path)+protectorAt("a", namespace, "5", ""))
	wantFailure(t, d, "Two clients created the same PodProtector")
	if out := d.Run("state", "list"); strings.Contains(out, "breakwater_pod_protector") {
		t.Errorf("the state has %q, want nothing: the object is that of another client", out)
	}
}

func TestAnotherClusterIsAnError(t *testing.T) {
	onTerraform(t)
	namespace := testplane.Namespace(t)
	second := kubernetes.NewForConfigOrDie(testplane.Second(t))
	if _, err := second.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	d := workingDir(t, configured(t, "")+protectorAt("a", namespace, "2", ""))
	d.Run("apply", "-auto-approve")

	path := kubeconfigOf(t, testplane.Second(t))
	other := fmt.Sprintf("provider \"breakwater\" {\n  config_path = %q\n}\n", path)
	var uids []string
	for _, config := range []*rest.Config{testplane.Config(t), testplane.Second(t)} {
		uid, err := clusters.ClusterOf(t.Context(), kubernetes.NewForConfigOrDie(config))
		if err != nil {
			t.Fatal(err)
		}
		uids = append(uids, uid)
	}
	for _, arguments := range [][]string{{"plan"}, {"plan", "-refresh=false", "-var=floor=3"}, {"destroy", "-auto-approve"}, {"destroy", "-auto-approve", "-refresh=false"}} {
		d.Write("main.tf", strings.SplitAfter(d.Read("main.tf"), "\n}\n")[0]+"variable \"floor\" { default = \"2\" }\n"+other+strings.Replace(protectorAt("a", namespace, "x", ""), `"x"`, "var.floor", 1))
		out, err := d.Try(arguments...)
		if err == nil || !matchWrapped("is in the cluster "+uids[0]).MatchString(out) || !strings.Contains(out, uids[1]) {
			t.Errorf("%v says (%v)\n%s\nwant the clusters %v", arguments, err, out, uids)
		}
	}
	if floor := floorOf(t, namespace); floor != "2" {
		t.Errorf("floor %s, want that of the first cluster as it was", floor)
	}

	// A decision moves the resource to the other cluster.
	d.Variables = append(d.Variables, "BREAKWATER_CLUSTER_UID="+uids[1])
	if out := d.Run("apply", "-auto-approve"); !strings.Contains(out, "1 added, 0 changed, 0 destroyed") {
		t.Errorf("the apply says\n%s\nwant 1 added", out)
	}
	d.Variables = nil
	d.Run("plan", "-detailed-exitcode")
	if floor := floorOf(t, namespace); floor != "2" {
		t.Errorf("floor %s, want that of the first cluster as it was", floor)
	}
	d.Variables = append(d.Variables, "BREAKWATER_CLUSTER_UID="+uids[0])
	wantFailure(t, d, "cluster_uid requires the cluster "+uids[0])
	d.Variables = nil
}
