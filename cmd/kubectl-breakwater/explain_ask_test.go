package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/cli"
)

// denyingWebhook answers reviews of removals, as the webhook of Breakwater does. It denies them unless admits is true.
type denyingWebhook struct {
	*testing.T
	admits  atomic.Bool
	reviews atomic.Int32
}

// ServeHTTP implements http.Handler.
func (d *denyingWebhook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	review := admissionv1.AdmissionReview{}
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request.DryRun == nil || !*review.Request.DryRun {
		d.Errorf("the webhook received request %+v (error %v), want a dry run", review.Request, err)
		http.Error(w, "no dry run", http.StatusBadRequest)
		return
	}
	d.reviews.Add(1)
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: d.admits.Load()}
	if !review.Response.Allowed {
		review.Response.Result = &metav1.Status{Code: http.StatusTooManyRequests, Message: "PodProtector shop/web has floor 3, available 3"}
	}
	_ = json.NewEncoder(w).Encode(review)
}

// guard makes the API server of a cluster call the webhook for the pods of a namespace, as a webhook for a cell.
func (d *denyingWebhook) guard(config *rest.Config, namespace string) {
	d.Helper()
	server := httptest.NewTLSServer(d)
	d.Cleanup(server.Close)
	none, fail, url := admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.Fail, server.URL+"/cells/hidden/validate"
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	hooks := kubernetes.NewForConfigOrDie(config).AdmissionregistrationV1().ValidatingWebhookConfigurations()
	made, err := hooks.Create(d.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "pods.breakwater.dev", AdmissionReviewVersions: []string{"v1"}, SideEffects: &none, FailurePolicy: &fail,
			ClientConfig:      admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: authority},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Delete},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
			}},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		d.Fatal(err)
	}
	d.Cleanup(func() { _ = hooks.Delete(context.Background(), made.Name, metav1.DeleteOptions{}) })
}

// workerNamespace is a namespace of a worker with a pod, and the kubeconfigs of users who have rights there alone.
type workerNamespace struct {
	*testing.T
	admin *rest.Config
	name  string
}

func newWorkerNamespace(t *testing.T) *workerNamespace {
	t.Helper()
	f := &workerNamespace{T: t, admin: clusterWithoutCRDs(t)}
	c := kubernetes.NewForConfigOrDie(f.admin).CoreV1()
	namespace, err := c.Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "ask-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	f.name = namespace.Name
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0"}}
	pod.Spec.NodeName, pod.Spec.Containers = "node-1", []corev1.Container{{Name: "web", Image: "web"}}
	if _, err := c.Pods(f.name).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return f
}

// user returns the kubeconfig of a user who has only these rights on pods, and only in the namespace.
func (f *workerNamespace) user(name string, verbs ...string) string {
	f.Helper()
	config := testplane.AsServiceAccount(f.T, f.admin, f.name, name, "")
	c, meta := kubernetes.NewForConfigOrDie(f.admin).RbacV1(), metav1.ObjectMeta{Name: name}
	role := &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: verbs}}}
	if _, err := c.Roles(f.name).Create(f.Context(), role, metav1.CreateOptions{}); err != nil {
		f.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: f.name, Name: name}},
	}
	if _, err := c.RoleBindings(f.name).Create(f.Context(), binding, metav1.CreateOptions{}); err != nil {
		f.Fatal(err)
	}
	path := writeContexts(f.T, "worker", map[string]*rest.Config{"worker": config})
	testplane.Eventually(f.T, func() string { // the authorizer has a cache
		_, err := kubernetes.NewForConfigOrDie(config).CoreV1().Pods(f.name).Get(f.Context(), "web-0", metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		return ""
	})
	return path
}

// A developer with rights in a namespace of a worker alone gets the answer of the API server, and the counts in its message.
func TestExplainForUserOfAWorkerAlone(t *testing.T) {
	f, webhook := newWorkerNamespace(t), &denyingWebhook{T: t}
	webhook.guard(f.admin, f.name)
	developer, reader := f.user("developer", "get", "delete"), f.user("reader", "get")
	for claim, c := range map[string]struct {
		kubeconfig string
		admits     bool
		arguments  []string
		code       int
		out        []string
		errOut     []string
		reviews    int32
	}{
		"a denial": {
			developer, false, []string{"--ask"}, 2,
			[]string{
				"in an unknown cell: denied, as the API server answers", "denied with code 429", "PodProtector shop/web has floor 3, available 3",
				"unknown, because the cell is", "The protectors are unknown",
			},
			[]string{"would be denied"}, 1,
		},
		"an admission": {developer, true, []string{"--ask"}, 0, []string{"in an unknown cell: allowed, as the API server answers"}, nil, 1},
		"in JSON": {
			developer, false, []string{"--ask", "-o", "json"}, 2, []string{`"cell": ""`, `"asked": "Unknown"`, `"code": 429`, `"agrees": false`}, nil, 1,
		},
		"the option, without it": {
			developer, false, nil, 1, nil, []string{"you may not list ValidatingWebhookConfigurations", "with --ask the API server answers"}, 0,
		},
		"nothing without a permission": {reader, false, []string{"--ask"}, 1, nil, []string{`cannot delete resource "pods"`, "request this permission"}, 0},
		"nothing of another pod":       {developer, false, []string{"pod/none", "--ask"}, 1, nil, []string{`read the pod: pods "none" not found`}, 0},
	} {
		t.Run(claim, func(t *testing.T) {
			webhook.admits.Store(c.admits)
			before := webhook.reviews.Load()
			var out, errOut bytes.Buffer
			root := rootCommand(genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errOut})
			arguments := append([]string{"explain"}, c.arguments...)
			if !strings.Contains(strings.Join(arguments, " "), "pod/") {
				arguments = append(arguments, "pod/web-0")
			}
			root.SetArgs(append(arguments, "--kubeconfig", c.kubeconfig, "-n", f.name))
			if code := cli.ExitCode(t.Context(), root); code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			wantWords(t, out.String(), c.out...)
			wantWords(t, errOut.String(), c.errOut...)
			wantNoWords(t, out.String(), "does not call Breakwater", "No protector covers")
			if got := webhook.reviews.Load() - before; got != c.reviews {
				t.Errorf("the webhook received %d requests, want %d", got, c.reviews)
			}
			if t.Failed() {
				t.Logf("%s%s", out.String(), errOut.String())
			}
		})
	}
}
