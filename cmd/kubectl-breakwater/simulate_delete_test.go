package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/controllers/brake"     //nolint:depguard // the test compares predictions with its behavior
	"github.com/breakwater-k8s/breakwater/controllers/generator" //nolint:depguard // likewise
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/cli"
	"github.com/breakwater-k8s/breakwater/internal/core/deletion"
	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/doctor"
)

// deletionFixture is a namespace with 8 workloads. A generator with a release brake manages their protectors. Their policy gives them their own
// budget: 2 large decreases in an hour.
type deletionFixture struct {
	*hub
	crd string
}

const workloads = 8

func newDeletionFixture(t *testing.T) *deletionFixture {
	t.Helper()
	s := &deletionFixture{hub: newHub(t)}
	s.crd = "applications." + s.namespace + ".example.com"
	s.defineApplications()
	count := int32(2)
	policy := &v1alpha1.ProtectionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "all"}}
	policy.Spec.Workloads.Kinds = []v1alpha1.WorkloadKind{{APIVersion: "apps/v1", Kind: "Deployment"}}
	policy.Spec.LargeDecreases = &v1alpha1.DecreaseLimits{
		Count: &count, Percent: new(int32), Window: &metav1.Duration{Duration: time.Hour}, QuietPeriod: &metav1.Duration{Duration: time.Second},
	}
	s.must(s.Create(t.Context(), policy))
	s.startGenerator()
	application := s.application("shop")
	for i := range workloads {
		d := s.deployment(fmt.Sprint("web-", i))
		if i == 0 {
			d.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(application, application.GroupVersionKind())}
		}
		s.must(s.Create(t.Context(), d))
	}
	testplane.Eventually(t, func() string {
		list := &v1alpha1.PodProtectorList{}
		s.must(s.List(t.Context(), list, client.InNamespace(s.namespace)))
		if len(list.Items) != workloads {
			return fmt.Sprintf("%d PodProtectors, want %d", len(list.Items), workloads)
		}
		return ""
	})
	return s
}

// startGenerator runs the generator until the test ends.
func (s *deletionFixture) startGenerator() {
	s.Helper()
	owners := brake.OwnerRules(schema.GroupResource{Group: s.namespace + ".example.com", Resource: "applications"})
	account := testplane.User(s, "generator-of-"+s.namespace, slices.Concat(generator.ClusterRules(), brake.ClusterRules(), brake.Rules(), owners))
	testplane.StartManager(s, account, func(ctx context.Context, mgr manager.Manager) error {
		registry := prometheus.NewRegistry()
		held, err := brake.Setup(ctx, mgr, brake.Options{Namespace: s.namespace, Registry: registry})
		if err != nil {
			return err
		}
		return generator.Setup(ctx, mgr, generator.Options{
			Brake: held, Registry: registry, Kinds: generator.AllKinds(), Namespace: s.namespace,
			Selector: labels.SelectorFromSet(labels.Set{v1alpha1.LabelProtect: "true"}),
		})
	}, func(o *manager.Options) {
		o.Cache = generator.CacheOptions()
		o.Cache.DefaultNamespaces = map[string]cache.Config{s.namespace: {}}
	})
}

func (s *deletionFixture) deployment(name string) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name, Labels: map[string]string{"team": "shop"}}}
	replicas, app := int32(4), map[string]string{"app": name}
	d.Spec.Replicas, d.Spec.Selector = &replicas, &metav1.LabelSelector{MatchLabels: app}
	d.Spec.Template.Labels = app
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "web", Image: "web"}}
	return d
}

// defineApplications creates a CRD for owners.
func (s *deletionFixture) defineApplications() {
	s.Helper()
	crds := apiextensions.NewForConfigOrDie(testplane.Config(s)).ApiextensionsV1().CustomResourceDefinitions()
	preserve := true
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: s.crd}, Spec: apiextensionsv1.CustomResourceDefinitionSpec{
		Group: s.namespace + ".example.com", Scope: apiextensionsv1.NamespaceScoped,
		Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "applications", Singular: "application", Kind: "Application", ListKind: "ApplicationList"},
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{
			OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &preserve},
		}}},
	}}
	_, err := crds.Create(s.Context(), crd, metav1.CreateOptions{})
	s.must(err)
	s.Cleanup(func() { _ = crds.Delete(context.Background(), s.crd, metav1.DeleteOptions{}) })
}

// application creates an owner as soon as the API server serves its kind.
func (s *deletionFixture) application(name string) *unstructured.Unstructured {
	s.Helper()
	object := &unstructured.Unstructured{}
	testplane.Eventually(s, func() string {
		object = &unstructured.Unstructured{}
		object.SetGroupVersionKind(schema.GroupVersionKind{Group: s.namespace + ".example.com", Version: "v1", Kind: "Application"})
		object.SetNamespace(s.namespace)
		object.SetName(name)
		if err := s.Create(s.Context(), object); err != nil {
			return err.Error()
		}
		return ""
	})
	return object
}

// simulate runs simulate delete, and returns its output and exit code.
func (s *deletionFixture) simulate(arguments ...string) (out string, code int) {
	s.Helper()
	out, errOut, err := runPlugin(s.T, "", append(append([]string{"simulate", "delete"}, arguments...), s.flags...)...)
	exit := cli.ExitError{}
	switch {
	case errors.As(err, &exit):
		code = exit.Code
	case err != nil:
		s.Fatalf("simulate delete %v: %v\n%s", arguments, err, errOut)
	}
	return out, code
}

// predict returns the rows by protector name.
func (s *deletionFixture) predict(arguments ...string) (rows map[string]deletion.Prediction, of predictedDeletion, code int) {
	s.Helper()
	out, code := s.simulate(append(arguments, "-o", "json")...)
	s.must(json.Unmarshal([]byte(out), &of))
	rows = map[string]deletion.Prediction{}
	for _, row := range of.Protectors {
		if row.Namespace == s.namespace {
			rows[row.Name] = row
		}
	}
	return rows, of, code
}

// wantResult checks the number of protectors, and that all have the same result.
func (s *deletionFixture) wantResult(result deletion.Result, reason string, protectors, exit int, arguments ...string) map[string]deletion.Prediction {
	s.Helper()
	rows, _, code := s.predict(arguments...)
	if len(rows) != protectors || code != exit {
		s.Errorf("simulate delete %v: %d protectors and exit code %d, want %d and %d: %+v", arguments, len(rows), code, protectors, exit, rows)
	}
	for name, row := range rows {
		if row.Result != result || row.Reason != reason {
			s.Errorf("simulate delete %v: %s is %s/%s, want %s/%s (%s)", arguments, name, row.Result, row.Reason, result, reason, row.Because)
		}
	}
	return rows
}

// awaitPredicted waits until the protectors are in the predicted state.
func (s *deletionFixture) awaitPredicted(rows map[string]deletion.Prediction) {
	s.Helper()
	for name, row := range rows {
		testplane.Eventually(s, func() string {
			p := &v1alpha1.PodProtector{}
			err := s.Get(s.Context(), keyOf(s.namespace, name), p)
			if row.Result == deletion.Released {
				if apierrors.IsNotFound(err) {
					return ""
				}
				return fmt.Sprintf("%s is not released: %v %+v", name, err, p.Status.Conditions)
			}
			c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionDecreasePending)
			if err != nil || c == nil || c.Status != metav1.ConditionTrue || c.Reason != row.Reason || c.Message != row.Message {
				return fmt.Sprintf("%s has the condition %+v, predicted %s: %s (%v)", name, c, row.Reason, row.Message, err)
			}
			return ""
		})
	}
}

// deleteDeployments deletes Deployments.
func (s *deletionFixture) deleteDeployments(names ...string) {
	s.Helper()
	for _, name := range names {
		s.must(s.Delete(s.Context(), &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}))
	}
}

// The brake does what was predicted, with the same reasons and messages.
func TestDeletionMatchesPrediction(t *testing.T) {
	s := newDeletionFixture(t)
	one := s.wantResult(deletion.Released, v1alpha1.ReasonQuietPeriod, 1, 0, "deployment", "web-7")
	s.deleteDeployments("web-7")
	s.awaitPredicted(one)
	// The ConfigMap records that one of the two grants is left.
	s.wantResult(deletion.Released, v1alpha1.ReasonQuietPeriod, 1, 0, "deploy/web-6")
	several := s.wantResult(deletion.Held, v1alpha1.ReasonLimitExceeded, 2, 2, "deployment", "web-6", "web-5")
	s.deleteDeployments("web-6", "web-5")
	s.awaitPredicted(several)
	// Together with the pending ones, the next one exceeds the limit as well.
	s.wantResult(deletion.Held, v1alpha1.ReasonLimitExceeded, 1, 2, "deployment/web-2")

	owned := s.wantResult(deletion.Held, v1alpha1.ReasonCascade, 1, 2, "applications."+s.namespace+".example.com", "shop")
	application := s.application("other")
	application.SetName("shop")
	s.must(s.Delete(t.Context(), application))
	s.deleteDeployments("web-0") // as the garbage collector does
	s.awaitPredicted(owned)

	rows, _, _ := s.predict("namespace", s.namespace)
	last := map[string]deletion.Prediction{"deployment-web-1": rows["deployment-web-1"], "deployment-web-6": rows["deployment-web-6"]}
	if last["deployment-web-1"].Reason != v1alpha1.ReasonCascade || last["deployment-web-6"].Reason != v1alpha1.ReasonLimitExceeded {
		t.Errorf("predicted %+v, want a cascade of web-1, and web-6 held by the limit", last)
	}
	s.must(s.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}))
	s.deleteDeployments("web-1")
	s.awaitPredicted(last)
}

func TestSimulateDelete(t *testing.T) {
	s := newDeletionFixture(t)
	s.wantResult(deletion.Released, v1alpha1.ReasonQuietPeriod, 2, 0, "deployments", "web-1", "web-2")
	s.wantResult(deletion.Held, v1alpha1.ReasonLimitExceeded, workloads, 2, "deployment", "--all")
	s.wantResult(deletion.Held, v1alpha1.ReasonLimitExceeded, workloads, 2, "deployment", "-l", "team=shop")
	s.wantResult(deletion.Released, "", 0, 0, "deployment", "-l", "team=bank")
	s.wantResult(deletion.Held, v1alpha1.ReasonCascade, workloads, 2, "ns", s.namespace)
	s.wantResult(deletion.Held, v1alpha1.ReasonCascade, 1, 2, "crd", s.crd)
	s.wantResult(deletion.Held, deletion.ReasonSourceExists, workloads, 2, "podprotectors", "--all")
	s.wantResult(deletion.Kept, v1alpha1.ReasonPolicyDeleted, workloads, 0, "protectionpolicy/all")

	out, code := s.simulate("deployment", "--all")
	wantWords(t, out, "deletion of deployment, all of them: 8 objects, and 8 floors depend on them", "NAMESPACE NAME FLOOR AVAILABLE RESULT WHY",
		s.namespace+" deployment-web-0 3 0 Held limit exceeded: 8 large decreases at once, and the limit of 2 per 1h0m0s has 2 left",
		"Floors: 8 held.", "kubectl annotate namespace "+s.namespace+" breakwater.dev/confirm-release=true", "kubectl breakwater release --pending -n "+s.namespace,
		"note: the Deployment of the generator was not found in the core cluster")
	if code != 2 {
		t.Errorf("exit code %d, want 2", code)
	}
	out, _ = s.simulate("deployment", "web-1", "-o", "wide")
	wantWords(t, out, "Released after a quiet period of 1s Deployment \""+s.namespace+"/web-1\"")
	wantNoWords(t, out, "confirm it")
	out, _ = s.simulate("secret", "--all")
	wantWords(t, out, "no floor depends on 0 objects")

	namespace := &corev1.Namespace{}
	s.must(s.Get(t.Context(), keyOf("", s.namespace), namespace))
	namespace.Annotations = map[string]string{v1alpha1.AnnotationConfirmRelease: "true"}
	s.must(s.Update(t.Context(), namespace))
	s.wantResult(deletion.Released, deletion.ReasonConfirmed, workloads, 0, "namespace", s.namespace)
	s.wantResult(deletion.Released, deletion.ReasonConfirmed, workloads, 0, "deployment", "--all")
}

func TestSimulateDeleteReadsComponentFlags(t *testing.T) {
	s := newDeletionFixture(t)
	s.protect("hand", 5, 9, nil)
	s.component("generator", "generator", "--kubeconfig=in-cluster", "--decrease-percent=100", "--decrease-quiet-period", "7s")
	out, code := s.simulate("podprotector", "hand")
	if wantWords(t, out, s.namespace+" hand 5 9 Released after a quiet period of 7s"); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	wantNoWords(t, out, "was not found")
	wantWords(t, out, "the generator may not get applications."+s.namespace+".example.com")

	s.createRootWebhook()
	s.component("webhook", "webhook", "--listen=:9443", "--root-guard=Warn")
	_, of, code := s.predict("deployment", "web-1", "web-2")
	if code != 0 || of.Warned != 2 || len(of.Warnings) != 2 || of.Mode != "Warn" || !of.Passes {
		t.Errorf("exit code %d, %d warnings, %d texts, mode %s; want 0, 2, 2 and Warn", code, of.Warned, len(of.Warnings), of.Mode)
	}
	s.component("webhook", "webhook", "--root-guard=Deny", "--audit")
	s.wantResult(deletion.Released, v1alpha1.ReasonQuietPeriod, 1, 0, "deployment", "web-1")
	s.component("webhook", "webhook", "--root-guard=Deny")
	rows := s.wantResult(deletion.Refused, deletion.ReasonRootGuard, 1, 2, "deployment", "web-1")
	wantWords(t, rows["deployment-web-1"].Message, `Breakwater denies the deletion of Deployment "`+s.namespace+`/web-1"`)
	out, _ = s.simulate("deployment", "web-1")
	wantWords(t, out, "Refused the root guard denies the deletion", "The root guard denies 1 deletion.", "kubectl annotate -n "+s.namespace+" deployment web-1")
}

// component creates or replaces the Deployment of a component with these arguments, and deletes it at the end of the test.
func (s *deletionFixture) component(name string, arguments ...string) {
	s.Helper()
	d := s.deployment("breakwater-" + name)
	d.Namespace = metav1.NamespaceDefault
	_ = s.Delete(s.Context(), d.DeepCopy())
	d.Labels = map[string]string{doctor.LabelPartOf: doctor.PartOfBreakwater, doctor.LabelComponent: name}
	d.Spec.Template.Spec.Containers[0].Args = arguments
	d.Spec.Template.Spec.ServiceAccountName = "breakwater-" + name
	s.must(s.Create(s.Context(), d))
	s.Cleanup(func() { _ = s.Delete(context.Background(), d) })
}

// createRootWebhook makes the API server call an unreachable root guard for Deployments of the namespace.
func (s *deletionFixture) createRootWebhook() {
	s.Helper()
	url, none, ignore := "https://127.0.0.1:1"+webhookconfig.RootGuardPath("main"), admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.Ignore
	made := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "roots-" + s.namespace}}
	made.Webhooks = []admissionregistrationv1.ValidatingWebhook{{
		Name: "roots.breakwater.dev", AdmissionReviewVersions: []string{"v1"}, SideEffects: &none, FailurePolicy: &ignore,
		ClientConfig:      admissionregistrationv1.WebhookClientConfig{URL: &url},
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: s.namespace}},
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Delete},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}},
		}},
	}}
	s.must(s.Create(s.Context(), made))
	s.Cleanup(func() { s.must(s.Delete(context.Background(), made)) })
}

func TestSimulateDeleteErrors(t *testing.T) {
	h := newHub(t)
	h.protect("web", 5, 9, nil)
	for line, want := range map[string][]string{
		"deployment web api":                     {"Deployment " + h.namespace + "/web does not exist in the core cluster", "Deployment " + h.namespace + "/api does not"},
		"namespace none":                         {"Namespace none does not exist in the core cluster"},
		"frigate web":                            {`doesn't have a resource type "frigate"`, "deployments, statefulsets", "kubectl api-resources"},
		"deployment":                             {"deployment: name objects, or set -l SELECTOR or --all"},
		"deployment web --cell a":                {"--cell and --replacements-ready-after are only for pods"},
		"pod/web-0 deployment/web":               {"simulate them in separate commands"},
		"pods -A":                                {"-A is not for pods"},
		"pods --all -l a=b":                      {"set only one of names, -l and --all"},
		"deployment web -o xml":                  {`--output "xml"`},
		"podprotector web --as eve":              {`User "eve" cannot`, "request this permission"},
		"deployment web --core a=/x --core b=/x": {"/x"},
	} {
		t.Run(line, func(t *testing.T) {
			_, _, err := runPlugin(t, "", append(append([]string{"simulate", "delete"}, strings.Fields(line)...), h.flags...)...)
			wantErrors(t, err, want)
		})
	}
	for _, c := range []struct{ line, want string }{{"simulate delete ", "namespace\n"}, {"simulate delete podprotectors ", "web\n"}} {
		out, _, err := runPlugin(t, "", append(append([]string{"__complete"}, append(strings.Fields(c.line), h.flags...)...), "")...)
		if err != nil || !strings.Contains(out, c.want) {
			t.Errorf("completion of %q is %q (%v), want %q in it", c.line, out, err, c.want)
		}
	}
}

// Lists are read in pages, and later pages do not modify earlier ones.
func TestSimulateDeleteReadsAllPages(t *testing.T) {
	h := newHub(t)
	const protectors = pageSize + 5
	for i := range protectors {
		p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: fmt.Sprintf("web-%03d", i)}}
		if i < pageSize {
			p.Annotations = map[string]string{v1alpha1.AnnotationConfirmRelease: "true"}
		}
		p.Spec.Selector, p.Spec.MinAvailable = &v1alpha1.PodSelector{}, v1alpha1.Pods(5)
		h.must(h.Create(t.Context(), p))
		t.Cleanup(func() { _ = h.Delete(context.Background(), p) })
	}
	s := &deletionFixture{hub: h}
	rows, of, _ := s.predict("namespace", h.namespace)
	if len(rows) != protectors || of.Released != pageSize || of.Held != protectors-pageSize {
		t.Errorf("%d rows, %d released and %d held, want %d, %d and %d", len(rows), of.Released, of.Held, protectors, pageSize, protectors-pageSize)
	}
}
