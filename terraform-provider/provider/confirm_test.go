package provider_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/core/brake"
	"github.com/breakwater-k8s/breakwater/internal/core/confirm"
)

// stateFile is the name of the state in a working directory.
const stateFile = "terraform.tfstate"

const oneFloor = "selector = { match_labels = {} }\n min_available = \"1\"\n timeouts {\n delete = \"2s\"\n}"

// heldBy sets a finalizer on protectors, so that their deletion does not complete.
func heldBy(finalizer string) func(*v1alpha1.PodProtector) {
	return func(p *v1alpha1.PodProtector) { p.Finalizers = []string{finalizer} }
}

func withoutFinalizers(p *v1alpha1.PodProtector) { p.Finalizers = nil }

// brakeHolds sets the condition that the release brake sets on a protector whose deletion it holds.
func brakeHolds(t *testing.T, namespace, name, reason, cascade string) {
	t.Helper()
	p := getProtector(t, namespace, name)
	request := brake.Request{Protector: p, Cause: "PodProtector " + name + " was deleted", Effect: "release the floor of 1"}
	p.Status.Conditions = append(p.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionDecreasePending, Status: metav1.ConditionTrue, Reason: reason, LastTransitionTime: metav1.Now(),
		Message: brake.Message(request, reason, brake.DefaultLimits(), cascade),
	})
	if err := testplane.Client(t).Status().Update(t.Context(), p); err != nil {
		t.Fatal(err)
	}
}

func TestDeleteConfirmsUnprotectedProtector(t *testing.T) {
	forEachProgram(t, func(t *testing.T) {
		namespace := testplane.Namespace(t)
		config := protector(t, namespace, oneFloor)
		var began time.Time
		steps(t,
			resource.TestStep{Config: config},
			resource.TestStep{
				PreConfig: func() {
					editOutside(t, namespace, heldBy("example.com/hold"))()
					began = time.Now()
				},
				Config: config, Destroy: true, ExpectError: matchWrapped("example.com/hold"),
			},
			resource.TestStep{
				// The destroy fails, so only the protector shows the confirmation; Terraform shows no difference.
				PreConfig: func() { wantConfirmed(t, getProtector(t, namespace, "web"), began) },
				Config:    config, ConfigPlanChecks: nothingToDo,
				Check: resource.TestCheckNoResourceAttr(web, "annotations.%"),
			},
			resource.TestStep{
				ResourceName: web, ImportState: true, ImportStateId: namespace + "/web", ImportStateVerify: true,
				ImportStateVerifyIgnore: []string{"deletion_protection", "timeouts.%", "timeouts.delete"},
			},
			resource.TestStep{PreConfig: editOutside(t, namespace, withoutFinalizers), Config: configured(t, "")},
		)
	})
}

// wantConfirmed checks that Terraform confirmed the deletion of a protector after began, until shortly after its timeout of 2 s.
func wantConfirmed(t *testing.T, p *v1alpha1.PodProtector, began time.Time) {
	t.Helper()
	value := p.Annotations[v1alpha1.AnnotationConfirmRelease]
	until, err := time.Parse(time.RFC3339, value)
	if err != nil || !confirm.Confirmed(p.Annotations, began) || until.Before(began.Add(time.Minute)) || confirm.Confirmed(p.Annotations, time.Now().Add(2*time.Minute)) {
		t.Errorf("confirmation = %q (%v), want a time from 1 to 2 minutes after %s", value, err, began)
	}
	if p.DeletionTimestamp == nil {
		t.Error("the protector is not being deleted")
	}
	manages := func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == "breakwater-terraform-actions" && strings.Contains(e.FieldsV1.String(), v1alpha1.AnnotationConfirmRelease)
	}
	if !slices.ContainsFunc(p.ManagedFields, manages) {
		t.Errorf("the field manager breakwater-terraform-actions does not own the confirmation: %+v", p.ManagedFields)
	}
}

// withRecordedWrites returns a provider configuration that uses a proxy, which records all requests except reads.
func withRecordedWrites(t *testing.T) (configuration string, writes func() []string) {
	t.Helper()
	b := newRecordingProxy(t)
	var all []string
	b.respond = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet {
			all = append(all, r.Method)
		}
		return false
	}
	return withConfig(t, b.Config), func() []string {
		b.mu.Lock()
		defer b.mu.Unlock()
		written := all
		all = nil
		return written
	}
}

func TestDestroyOfProtectedProtectorsWritesNothing(t *testing.T) {
	forEachProgram(t, func(t *testing.T) {
		provider, writes := withRecordedWrites(t)
		namespace := testplane.Namespace(t)
		lifted := provider + manyProtectors(namespace, "1", 60)
		d := workingDir(t, strings.Replace(lifted, "deletion_protection = false", "", 1))
		d.Run("apply", "-auto-approve")
		writes()
		for _, arguments := range [][]string{{"destroy", "-auto-approve"}, {"destroy", "-auto-approve", "-refresh=false"}} {
			out, err := d.Try(arguments...)
			if got := writes(); err == nil || !strings.Contains(out, "is protected from deletion") || len(got) > 0 {
				t.Errorf("%v ended with %v and wrote %v, want it refused and nothing written:\n%s", arguments, err, got, out)
			}
		}
		d.Write("main.tf", strings.Replace(d.Read("main.tf"), "min_available       = \"1\"", "min_available = \"1\"\n deletion_protection = false", 1))
		d.Run("apply", "-auto-approve")
		writes()
		d.Run("destroy", "-auto-approve")
		got := writes()
		slices.Sort(got)
		if want := append(slices.Repeat([]string{"DELETE"}, 60), slices.Repeat([]string{"PATCH"}, 60)...); !slices.Equal(got, want) {
			t.Errorf("a destroy of 60 protectors wrote %v, want one patch and one deletion for each", got)
		}
	})
}

func TestDeleteConfirmsBeforeDeleting(t *testing.T) {
	onTerraform(t)
	provider, writes := withRecordedWrites(t)
	d := workingDir(t, provider+manyProtectors(testplane.Namespace(t), "1", 1))
	d.Run("apply", "-auto-approve")
	writes()
	d.Run("destroy", "-auto-approve")
	if got := writes(); !slices.Equal(got, []string{"PATCH", "DELETE"}) {
		t.Errorf("a destroy wrote %v, want a patch before the deletion", got)
	}
}

func TestHeldDeletionNamesConditionAndConfirmation(t *testing.T) {
	const limited = "condition DecreasePending, reason LimitExceeded): PodProtector web was deleted, which would release the floor of 1. " +
		"The floor stays in force, because more large decreases are pending than the limit allows"
	for name, c := range map[string]struct {
		reason, cascade, fields string
		want                    []string
	}{
		"limit": {v1alpha1.ReasonLimitExceeded, "", "", []string{limited, "Terraform confirmed the deletion until", "check that the generator runs"}},
		"cascade": {v1alpha1.ReasonCascade, `namespace "shop" is being deleted`, "", []string{
			"reason Cascade): PodProtector web was deleted", "a cascade is not evidence of intent", "destroy it again, which confirms it again",
		}},
		"configured": {v1alpha1.ReasonLimitExceeded, "", "annotations = { \"breakwater.dev/confirm-release\" = \"2020-01-01\" }", []string{
			limited, `The configuration sets the annotation breakwater.dev/confirm-release to "2020-01-01"`, "Remove the annotation or set a future time",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			forEachProgram(t, func(t *testing.T) {
				namespace := testplane.Namespace(t)
				d := workingDir(t, protector(t, namespace, oneFloor+"\n"+c.fields))
				d.Run("apply", "-auto-approve")
				edit(t, namespace, "web", heldBy(v1alpha1.FinalizerHold))
				brakeHolds(t, namespace, "web", c.reason, c.cascade)
				out, err := d.Try("destroy", "-auto-approve")
				edit(t, namespace, "web", withoutFinalizers)
				if err == nil {
					t.Fatalf("the destroy succeeded:\n%s", out)
				}
				for _, words := range append([]string{"breakwater.dev/hold: breakwater generator removes it when the release brake allows it"}, c.want...) {
					if !matchWrapped(words).MatchString(out) {
						t.Errorf("the error does not say %q:\n%s", words, out)
					}
				}
			})
		})
	}
}

// A user who may delete but not patch can still destroy. Terraform reports the failed confirmation only when it matters.
func TestDeleteContinuesIfConfirmationIsForbidden(t *testing.T) {
	onTerraform(t)
	namespace := testplane.Namespace(t)
	b := newRecordingProxy(t)
	deny := false
	b.respond = func(w http.ResponseWriter, r *http.Request) bool {
		if !deny || r.Method != http.MethodPatch {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_ = json.NewEncoder(w).Encode(metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonForbidden,
			Code: http.StatusForbidden, Message: "cannot patch",
		})
		return true
	}
	may := func(patch bool) {
		b.mu.Lock()
		defer b.mu.Unlock()
		deny = !patch
	}
	d := workingDir(t, withConfig(t, b.Config)+fmt.Sprintf(
		"resource \"breakwater_pod_protector\" \"web\" {\n namespace = %q\n name = \"web\"\n deletion_protection = false\n %s\n}", namespace, oneFloor))
	d.Run("apply", "-auto-approve")
	may(false)
	edit(t, namespace, "web", heldBy(v1alpha1.FinalizerHold))
	brakeHolds(t, namespace, "web", v1alpha1.ReasonLimitExceeded, "")
	out, err := d.Try("destroy", "-auto-approve")
	if words := matchWrapped("Terraform could not confirm the deletion: Cannot patch. Remove the cause (the provider's user needs the verb patch)"); err == nil || !words.MatchString(out) {
		t.Errorf("the destroy of a held protector ended with %v, want an error that says %q:\n%s", err, words, out)
	}
	edit(t, namespace, "web", withoutFinalizers)
	may(true)
	d.Run("apply", "-auto-approve")
	may(false)
	if out := d.Run("destroy", "-auto-approve"); strings.Contains(out, "confirm") {
		t.Errorf("destroy mentions a confirmation:\n%s", out)
	}
}

// An older provider wrote no confirmations. Its state, if it was moved to this version, does not say whether the protector is
// protected.
func TestDeleteWithStateOfOlderProvider(t *testing.T) {
	withBoth(t, func(t *testing.T) {
		namespace, c := testplane.Namespace(t), testplane.Client(t)
		d := workingDir(t, protector(t, namespace, oneFloor))
		d.Run("apply", "-auto-approve")

		t.Log("a state that does not say whether the protector is protected")
		before := d.Read(stateFile)
		d.Write(stateFile, editedState(t, before, func(attributes map[string]any) { delete(attributes, "deletion_protection") }))
		out, err := d.Try("destroy", "-auto-approve", "-refresh=false")
		if err == nil || !strings.Contains(out, "is protected from deletion") || getProtector(t, namespace, "web").DeletionTimestamp != nil {
			t.Errorf("a destroy ended with %v, want it refused:\n%s", err, out)
		}

		t.Log("a state whose destroy has failed before")
		d.Write(stateFile, before)
		edit(t, namespace, "web", heldBy("example.com/hold"))
		began, p := time.Now(), getProtector(t, namespace, "web")
		if err := c.Delete(t.Context(), p, client.Preconditions{UID: &p.UID}); err != nil {
			t.Fatal(err)
		}
		if out, err := d.Try("destroy", "-auto-approve"); err == nil {
			t.Errorf("a destroy succeeded in spite of a finalizer:\n%s", out)
		}
		wantConfirmed(t, getProtector(t, namespace, "web"), began)
		edit(t, namespace, "web", withoutFinalizers)
		d.Run("apply", "-refresh-only", "-auto-approve")
	})
}

// editedState returns a state in which the attributes of all resources were changed.
func editedState(t *testing.T, state string, change func(attributes map[string]any)) string {
	t.Helper()
	all := map[string]any{}
	if err := json.Unmarshal([]byte(state), &all); err != nil {
		t.Fatal(err)
	}
	for _, r := range all["resources"].([]any) {
		for _, i := range r.(map[string]any)["instances"].([]any) {
			change(i.(map[string]any)["attributes"].(map[string]any))
		}
	}
	changed, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return string(changed)
}

// An older provider applied an exemption whose names Terraform had dropped as {}, which exempts all pods.
func TestPlanWithMisspeltExemptionOfOlderProvider(t *testing.T) {
	onTerraform(t)
	namespace, c := testplane.Namespace(t), testplane.Client(t)
	right := protector(t, namespace, oneFloor+"\n exempt_pod_selector = { match_labels = { app = \"batch\" } }")
	d := workingDir(t, right)
	configuration := d.Read("main.tf")
	d.Run("apply", "-auto-approve")
	object := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{"selector": map[string]any{}, "minAvailable": int64(1), "exemptPodSelector": map[string]any{}},
	}}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("PodProtector"))
	object.SetNamespace(namespace)
	object.SetName("web")
	if err := c.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("breakwater-terraform"), client.ForceOwnership); err != nil {
		t.Fatal(err)
	}
	d.Write(stateFile, editedState(t, d.Read(stateFile), func(attributes map[string]any) {
		attributes["exempt_pod_selector"].(map[string]any)["match_labels"] = nil
	}))

	d.Write("main.tf", strings.Replace(configuration, "{ match_labels = { app = \"batch\" } }", "{ matchLabels = { app = \"batch\" } }", 1))
	if out, err := d.Try("plan"); err == nil || !strings.Contains(out, "exempt_pod_selector sets none of its attributes") {
		t.Errorf("a plan with the old configuration ended with %v, want it refused:\n%s", err, out)
	}
	d.Write("main.tf", configuration)
	d.Run("apply", "-auto-approve")
	if got := getProtector(t, namespace, "web").Spec.ExemptPodSelector; got == nil || got.MatchLabels["app"] != "batch" {
		t.Errorf("the exemption is %v after an apply of the right configuration", got)
	}
	d.Run("plan", "-detailed-exitcode")
}

func TestDeleteDoesNotConfirmRecreatedProtector(t *testing.T) {
	onTerraform(t)
	namespace, c := testplane.Namespace(t), testplane.Client(t)
	d := workingDir(t, protector(t, namespace, oneFloor))
	d.Run("apply", "-auto-approve")
	if err := c.Delete(t.Context(), getProtector(t, namespace, "web")); err != nil {
		t.Fatal(err)
	}
	theirProtector(t, namespace, "web")
	out := d.Run("destroy", "-auto-approve", "-refresh=false")
	if !strings.Contains(out, "is another object now") {
		t.Errorf("destroy does not report the recreated object:\n%s", out)
	}
	if p := getProtector(t, namespace, "web"); len(p.Annotations) > 0 || p.DeletionTimestamp != nil {
		t.Errorf("the other protector was changed: %+v", p.ObjectMeta)
	}
}

func TestDeleteOfPolicyWarnsAboutHeldFloors(t *testing.T) {
	forEachProgram(t, func(t *testing.T) {
		namespace := testplane.Namespace(t)
		provider, writes := withRecordedWrites(t)
		d := workingDir(t, provider+fmt.Sprintf("resource \"breakwater_protection_policy\" \"web\" {\n namespace = %q\n name = \"web\"\n}", namespace))
		d.Run("apply", "-auto-approve")
		for name, policy := range map[string]string{"held": "ProtectionPolicy/web", "by-another": "ProtectionPolicy/other", "kept": "ProtectionPolicy/web"} {
			theirProtector(t, namespace, name, func(p *v1alpha1.PodProtector) {
				p.Annotations = map[string]string{v1alpha1.AnnotationPolicy: policy}
			})
			if name != "kept" {
				brakeHolds(t, namespace, name, v1alpha1.ReasonLimitExceeded, "")
			}
		}
		writes()
		out := d.Run("destroy", "-auto-approve")
		for _, words := range []string{
			"ProtectionPolicy " + namespace + "/web was deleted, but the floors of 1 protector are held",
			"The deletion of a policy does not confirm the release of its protectors", "(condition DecreasePending): " + namespace + "/held.",
			"kubectl breakwater release --pending",
		} {
			if !matchWrapped(words).MatchString(out) {
				t.Errorf("the warning does not say %q:\n%s", words, out)
			}
		}
		if got := writes(); !slices.Equal(got, []string{"DELETE"}) {
			t.Errorf("the destroy of a policy wrote %v, want its deletion alone", got)
		}
	})
}
