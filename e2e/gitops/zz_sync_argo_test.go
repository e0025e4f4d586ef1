package gitops_test

import (
	"fmt"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/e2e/gitops"
)

var applicationKind = schema.GroupVersionKind{Group: "argoproj.io", Version: "v1alpha1", Kind: "Application"}

// This test installs Breakwater after the test in zz_prune_test.go has uninstalled it. Argo CD runs until the end, so it is the last test.
func TestArgoCDInstallsPromotesAndReverts(t *testing.T) {
	version, promotion := promotion(t)
	// Argo CD pulls charts by TLS only.
	server := httptest.NewTLSServer(httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: serveCharts(t, version, nextVersion)}))
	t.Cleanup(server.Close)
	address := server.Listener.Addr().String()
	noErrors(t, fixture.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: gitops.ArgoNamespace, Name: "charts", Labels: map[string]string{"argocd.argoproj.io/secret-type": "repository"}},
		StringData: map[string]string{"type": "helm", "name": "charts", "url": address + "/charts", "enableOCI": "true", "insecure": "true"},
	}))
	noErrors(t, fixture.pushCommit(t.Context(), "clusters", clusterFiles(t, address)))
	_, objects, err := buildKustomization(t.Context(), "argocd")
	noErrors(t, err)
	for _, object := range objects {
		raw, err := object.MarshalJSON()
		noErrors(t, err)
		noErrors(t, object.UnmarshalJSON([]byte(settings(address).Replace(string(raw)))))
	}
	noErrors(t, fixture.Apply(t.Context(), objects))
	noErrors(t, fixture.StartArgo(t.Context(), "main", map[string]string{"breakwater.dev/environment": "dev", "breakwater.dev/role": "core"}))
	for _, application := range []string{"breakwater-main", "breakwater-protection-main"} {
		waitForApplication(t, application)
	}
	noErrors(t, fixture.waitForWebhook(t.Context()))
	expectPolicyApplied(t)
	if problem := imageProblem(t, address+"/breakwater:"+version); problem != "" {
		t.Error(problem)
	}

	// A promotion is a commit that changes the version of an environment.
	noErrors(t, fixture.repository.Commit(t.Context(), "a promotion", promotion))
	refresh := &unstructured.Unstructured{}
	refresh.SetGroupVersionKind(schema.GroupVersionKind{Group: "argoproj.io", Version: "v1alpha1", Kind: "ApplicationSet"})
	refresh.SetNamespace(gitops.ArgoNamespace)
	refresh.SetName("breakwater")
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata": {"annotations": {"argocd.argoproj.io/application-set-refresh": "true"}}}`))
	noErrors(t, fixture.Patch(t.Context(), refresh, patch))
	noErrors(t, gitops.WaitUntil(t.Context(), "the promotion", func() string {
		return imageProblem(t, address+"/breakwater:"+nextVersion)
	}))
	waitForApplication(t, "breakwater-main")

	key := client.ObjectKey{Name: "breakwater-cell-main"}
	var configuration admissionregistrationv1.ValidatingWebhookConfiguration
	noErrors(t, fixture.Get(t.Context(), key, &configuration))
	ignore := admissionregistrationv1.Ignore
	configuration.Webhooks[0].FailurePolicy = &ignore
	noErrors(t, fixture.Update(t.Context(), &configuration), gitops.WaitUntil(t.Context(), "Argo CD to revert a change", func() string {
		noErrors(t, fixture.Get(t.Context(), key, &configuration))
		if got := *configuration.Webhooks[0].FailurePolicy; got != admissionregistrationv1.Fail {
			return "failurePolicy is " + string(got)
		}
		return ""
	}))
	if len(configuration.Webhooks[0].ClientConfig.CABundle) == 0 {
		t.Error("the sync removed the caBundle")
	}
	noErrors(t, fixture.waitForWebhook(t.Context()))
}

// waitForApplication waits until an Application is Synced and Healthy, and its last sync succeeded.
func waitForApplication(t *testing.T, name string) {
	t.Helper()
	noErrors(t, gitops.WaitUntil(t.Context(), "Application "+name, func() string {
		application, err := fixture.Read(t.Context(), applicationKind, gitops.ArgoNamespace, name)
		if err != nil {
			return err.Error()
		}
		text := func(path ...string) string {
			value, _, _ := unstructured.NestedString(application.Object, append([]string{"status"}, path...)...) // absent at first
			return value
		}
		if text("sync", "status") == "Synced" && text("health", "status") == "Healthy" && text("operationState", "phase") == "Succeeded" {
			return ""
		}
		conditions, _, _ := unstructured.NestedSlice(application.Object, "status", "conditions")
		var waiting []any
		resources, _, _ := unstructured.NestedSlice(application.Object, "status", "resources")
		for _, r := range resources {
			fields := r.(map[string]any)
			if health, _, _ := unstructured.NestedString(fields, "health", "status"); fields["status"] != "Synced" || health != "" && health != "Healthy" {
				waiting = append(waiting, fmt.Sprint(fields["kind"], " ", fields["name"], " ", fields["status"], " ", fields["health"]))
			}
		}
		return fmt.Sprintf("sync %q, health %q, operation %q: %s; %v; %v", text("sync", "status"), text("health", "status"),
			text("operationState", "phase"), text("operationState", "message"), conditions, waiting)
	}))
}

// imageProblem returns why not all Deployments have an image, or "" if they do.
func imageProblem(t *testing.T, want string) string {
	t.Helper()
	var deployments appsv1.DeploymentList
	noErrors(t, fixture.List(t.Context(), &deployments, client.InNamespace(systemNamespace)))
	for _, d := range deployments.Items {
		if got := d.Spec.Template.Spec.Containers[0].Image; got != want {
			return fmt.Sprintf("Deployment %s has image %s, want %s", d.Name, got, want)
		}
	}
	if len(deployments.Items) == 0 {
		return "there are no Deployments"
	}
	return ""
}
